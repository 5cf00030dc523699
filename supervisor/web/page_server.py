"""The server of the read-only page: on loopback, for who has its address.

Every user of the machine can connect to loopback, so the address has a secret in it, as
Jupyter's has. It stands in the path and in no cookie: browsers send those to any port of
the same name, another user's too. ``Host`` is checked, so that no name of somebody else's
leads here (DNS rebinding), and ``Origin``, so that no other page asks.
"""

import hmac
import io
import json
import secrets
import socket
import socketserver
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

from typing_extensions import override

from supervisor.host.exporter.open_connections import OpenConnections
from supervisor.host.service.timed_stream import TimedStream
from supervisor.web.document import policy

HOST = "127.0.0.1"
REQUEST_SECONDS = 10.0
HTML, JSON, SCRIPT = "text/html", "application/json", "text/javascript"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What is answered."""

    body: str
    kind: str = HTML
    status: HTTPStatus = HTTPStatus.OK
    location: str | None = None


READ_ONLY = (
    "Nothing can be changed here: these pages are only read (GET, HEAD). Use trainwarden"
    " in a terminal."
)
NOT_READ = "This could not be read as a request for a page"
Site = Callable[[str], Answered]
"""What is at a path, which begins behind the secret, with a slash. Raises nothing."""


def new_secret() -> str:
    """Nobody guesses it."""
    return secrets.token_urlsafe(24)


class PageServer:
    """Serves until ``close``."""

    def __init__(self, site: Site, *, port: int = 0, secret: str) -> None:
        """Listen; port 0: any that is free. Raises OSError."""
        self._http = _Http(port, site, secret)
        self.port: int = self._http.server_address[1]
        self.url = f"http://{HOST}:{self.port}/{secret}/"

    def serve(self) -> None:
        """Answer until ``close``, or KeyboardInterrupt."""
        self._http.serve_forever(poll_interval=0.5)

    def close(self) -> None:
        """Stop listening."""
        self._http.shutdown()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, port: int, site: Site, secret: str) -> None:
        self.site, self.secret = site, secret
        self.connections = OpenConnections()
        super().__init__((HOST, port), _PageHandler)

    @override
    def server_bind(self) -> None:
        # Not HTTPServer's: it looks up our own name in the DNS, which can take long.
        socketserver.TCPServer.server_bind(self)

    @override
    def get_request(self) -> tuple[socket.socket, object]:
        if not self.connections.has_room():
            raise BlockingIOError
        connection, where = super().get_request()
        self.connections.enter(connection)
        return connection, where

    @override
    def close_request(self, request: Any) -> None:
        self.connections.leave(request)
        super().close_request(request)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that went away is its own affair."""


class _PageHandler(BaseHTTPRequestHandler):
    server: _Http  # type: ignore[mutable-override]  # nobody else makes handlers
    server_version = "trainwarden"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # before that there were no headers

    @override
    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        deadline = time.monotonic() + REQUEST_SECONDS
        stream = TimedStream(self.connection, deadline=deadline)
        self.rfile = io.BufferedReader(stream)
        self.wfile = cast("io.BufferedIOBase", stream)  # writes all, as that does

    @override
    def handle(self) -> None:
        """One request a connection: nobody holds a thread between two."""
        self.handle_one_request()
        self.close_connection = True

    def do_GET(self) -> None:
        """Answer with status, headers and body."""
        self.wfile.write(self._begin())

    def do_HEAD(self) -> None:
        """Answer with status and headers."""
        self._begin()

    @override
    def send_error(
        self, code: int, message: str | None = None, explain: str | None = None
    ) -> None:
        """What is not so much as a request for a page: another method, or no HTTP. Python
        would answer with a page of its own, without our headers."""
        self.wfile.write(self._send(refusal(HTTPStatus(code))))

    def _begin(self) -> bytes:
        return self._send(self._answer())

    def _send(self, found: Answered) -> bytes:
        self.server.connections.answer(self.connection)
        body = found.body.encode("utf-8", errors="replace")
        self.send_response(found.status)
        self.send_header("Content-Type", f"{found.kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers().items():
            self.send_header(name, value)
        if found.location is not None:
            self.send_header("Location", found.location)
        if found.status is HTTPStatus.METHOD_NOT_ALLOWED:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        return body

    def _answer(self) -> Answered:
        port = self.server.server_address[1]
        if not is_ours(self.headers.get("Host"), self.headers.get("Origin"), port=port):
            return refused("This page is asked for by another name than its own.")
        path = self.path.partition("?")[0]
        _, given, rest = (*path.split("/", 2), "", "")[:3]
        if not hmac.compare_digest(given.encode(), self.server.secret.encode()):
            return refused("Open the address that trainwarden ui printed, whole.")
        if path.count("/") < 2:
            moved = HTTPStatus.MOVED_PERMANENTLY
            return Answered(body="", status=moved, location=f"/{given}/")
        return self.server.site(f"/{rest}")

    @override
    def log_message(self, format: str, *args: object) -> None:
        """The address has the secret in it: it is written nowhere."""


def is_ours(host: str | None, origin: str | None, *, port: int) -> bool:
    """Whether a request names this server, and comes from no other page."""
    names = {f"{HOST}:{port}", f"localhost:{port}"}
    return host in names and (origin is None or origin == f"http://{host}")


def headers() -> dict[str, str]:
    """Of every answer."""
    return {
        "Content-Security-Policy": f"{policy(served=True)}; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Connection": "close",
    }


def refused(sentence: str, status: HTTPStatus = HTTPStatus.FORBIDDEN) -> Answered:
    """A sentence, as text."""
    return Answered(body=f"{sentence}\n", kind="text/plain", status=status)


def refusal(status: HTTPStatus) -> Answered:
    """Of what is no request for a page."""
    if status is HTTPStatus.NOT_IMPLEMENTED:
        return refused(READ_ONLY, HTTPStatus.METHOD_NOT_ALLOWED)
    return refused(f"{NOT_READ}: {status.phrase.lower()}.", status)


def as_json(value: object) -> Answered:
    """A value."""
    return Answered(body=json.dumps(value), kind=JSON)
