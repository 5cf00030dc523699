"""The control socket: HTTP over a Unix socket, each caller known to the kernel.

Requests are read and answered by threads of their own, so that a slow caller holds up
nobody; what they ask for is done by the loop (``Mailbox``), one at a time.
"""

import contextlib
import io
import json
import os
import queue
import socketserver
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar, NoReturn, cast
from urllib.parse import parse_qsl, urlsplit

from typing_extensions import override

from supervisor.core.jobs.authorization import Caller
from supervisor.host.control.control_limits import ConnectionBudget, turn_away
from supervisor.host.control.peer_credentials import peer_of
from supervisor.host.process.peer_ids import peer_ids
from supervisor.host.service.server_thread import ServerThread
from supervisor.host.service.timed_stream import TimedStream

JSON, BYTES = "application/json", "application/octet-stream"
"""What is answered: media types."""
MAX_BODY_BYTES = 1024 * 1024
REQUEST_SECONDS = 10.0
"""How long one request may take to arrive."""
ANSWER_SECONDS = 30.0
"""How long the loop may take to answer."""
MAX_WAITING = 64
"""Requests that may wait for the loop at a time; more are told to come again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody asks for."""

    caller: Caller
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict[str, str])
    body: Any = field(default_factory=dict[str, Any])
    """The JSON value; an empty object where there was none."""


class Encoded(bytes):
    """A body that is JSON already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What they get. ``body`` becomes JSON, unless it is bytes."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(slots=True)
class _Letter:
    request: Request
    answer: "queue.SimpleQueue[Response]"


class Mailbox:
    """Requests on their way from threads to the loop; ``descriptor`` wakes the loop."""

    def __init__(self) -> None:
        self._letters: queue.Queue[_Letter] = queue.Queue(MAX_WAITING)
        self.descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def ask(self, request: Request) -> Response:
        """Put a request into the box and wait for the answer."""
        letter = _Letter(request, queue.SimpleQueue())
        try:
            self._letters.put_nowait(letter)
            os.eventfd_write(self.descriptor, 1)
            return letter.answer.get(timeout=ANSWER_SECONDS)
        except (queue.Full, queue.Empty, OSError):
            return Response(status=503, body={"error": "the daemon is busy"})

    def serve(self, answer: Callable[[Request], Response]) -> None:
        """Answer all that waits. Called by the loop."""
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self.descriptor)
        while not self._letters.empty():
            letter = self._letters.get_nowait()
            letter.answer.put(answer(letter.request))

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)


class ControlServer:
    """Serves at ``path`` from its making to ``close``."""

    def __init__(self, path: Path, ask: Callable[[Request], Response]) -> None:
        """Listen at ``path``, replacing what a dead daemon left. Raises OSError."""
        path.unlink(missing_ok=True)
        self._path = path
        server = _Server(str(path), ask)
        # Everybody may connect: who may do what is decided by who they are.
        path.chmod(0o666)
        self._attending = ServerThread(server, name="control")

    def close(self) -> None:
        """Stop serving."""
        self._attending.close()
        self._path.unlink(missing_ok=True)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, path: str, ask: Callable[[Request], Response]) -> None:
        self.ask = ask
        self._room = ConnectionBudget()
        super().__init__(path, _Handler)

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        uid = peer_ids(request)[1]
        if not self._room.enter(uid):
            turn_away(request)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread can be started
            self._room.leave(uid)
            raise

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        uid = peer_ids(request)[1]
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.leave(uid)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout: ClassVar[float | None] = REQUEST_SECONDS
    server_version = "trainwarden"
    sys_version = ""

    @override
    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._timed = TimedStream(self.connection)
        self.rfile = io.BufferedReader(self._timed)

    @override
    def handle_one_request(self) -> None:
        self._timed.deadline = time.monotonic() + REQUEST_SECONDS
        super().handle_one_request()

    @override
    def address_string(self) -> str:
        return "unix"

    @override
    def log_message(self, format: str, *args: object) -> None:  # theirs
        """What people did stands in the ledger."""

    def do_GET(self) -> None:
        """Answer."""
        self._answer()

    # http.server's names; no method is without an answer that says what there is.
    do_POST = do_PUT = do_DELETE = do_PATCH = do_GET  # noqa: N815
    do_HEAD = do_OPTIONS = do_TRACE = do_CONNECT = do_QUERY = do_GET  # noqa: N815

    @override
    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """What http.server itself refuses is told in our form too."""
        self.close_connection = True
        sentence = message or HTTPStatus(code).phrase
        self._send(Response(status=code, body={"error": sentence}))

    def _answer(self) -> None:
        try:
            request = self._request()
        except _BadRequestError as error:
            self.close_connection = True
            self._send(Response(status=error.status, body={"error": str(error)}))
        else:
            self._send(cast("_Server", self.server).ask(request))

    def _request(self) -> Request:
        try:
            parts = urlsplit(self.path)
            query = dict(parse_qsl(parts.query, keep_blank_values=True))
        except ValueError as error:
            raise _BadRequestError(400, f"the address is none: {error}") from None
        return Request(
            caller=peer_of(self.connection),
            method=self.command,
            path=parts.path,
            query=query,
            body=self._body(),
        )

    def _body(self) -> Any:
        if self.headers.get("Transfer-Encoding"):
            raise _BadRequestError(411, "send the length of the body")
        given = self.headers.get("Content-Length") or "0"
        if not (given.isascii() and given.isdigit()):
            raise _BadRequestError(400, "Content-Length is no number")
        if int(given) > MAX_BODY_BYTES:
            raise _BadRequestError(413, f"more than {MAX_BODY_BYTES} bytes")
        content = self.rfile.read(int(given))
        if not content:
            return {}
        try:
            return json.loads(content, parse_constant=_no_json, parse_float=_number)
        except (ValueError, RecursionError) as error:
            raise _BadRequestError(400, f"the body is not JSON: {error}") from None

    def _send(self, response: Response) -> None:
        self.connection.settimeout(REQUEST_SECONDS)  # for all of an answer
        raw = isinstance(response.body, bytes)
        content = response.body if raw else json.dumps(response.body).encode() + b"\n"
        kind = BYTES if raw and not isinstance(response.body, Encoded) else JSON
        self.send_response(response.status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in response.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


def _number(text: str) -> float:
    """In JSON, 3.0 is a whole number too."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _no_json(constant: str) -> NoReturn:
    """Python would take them; nothing here has use for a number that is none."""
    message = f"{constant} is no JSON"
    raise ValueError(message)


class _BadRequestError(Exception):
    def __init__(self, status: int, message: str) -> None:
        self.status = status
        super().__init__(message)
