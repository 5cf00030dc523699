"""A small HTTP server for ``/metrics``: it hands out bytes that are ready.

Each request has a thread of its own and a time limit, so that a slow reader holds up
nobody. It listens on loopback unless told otherwise; it knows no passwords and no TLS,
which a proxy in front of it does better.
"""

import socket
import socketserver
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar, Self

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from typing_extensions import override

from supervisor.core.address import Address
from supervisor.host.metrics import Rendered

Source = Callable[[], Rendered | None]
"""What was rendered last; None before the first."""

REQUEST_SECONDS = 10.0
"""How long one request may take, from its first byte to its last."""


class ServeError(RuntimeError):
    """The address cannot be listened on; the message is one sentence."""


class Server:
    """Serves until ``close``. ``address`` has the real port where 0 was asked for."""

    def __init__(self, address: Address, source: Source) -> None:
        """Listen on ``address``. Raises ServeError."""
        try:
            self._http = _HTTP(address, source)
        except OSError as error:
            reason = error.strerror or str(error)
            message = f"cannot serve metrics on {address}: {reason}"
            raise ServeError(message) from error
        self.address = Address(address.host, self._http.server_address[1])
        self._thread = threading.Thread(
            target=self._http.serve_forever,
            kwargs={"poll_interval": 0.1},  # how long close() may take
            name="metrics",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests under way are left to their time limit."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(address: Address, source: Source) -> Server:
    """Serve what ``source`` holds. Raises ServeError."""
    return Server(address, source)


class _HTTP(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: Address, source: Source) -> None:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, _, _, _, where = found[0]
        self.source = source
        super().__init__((str(where[0]), int(where[1])), _Handler)

    @override
    def server_bind(self) -> None:
        # Not HTTPServer's: it looks up our own name in the DNS, which can take long.
        socketserver.TCPServer.server_bind(self)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that went away is its own affair."""


_Answer = tuple[HTTPStatus, str, bytes]
_PLAIN = "text/plain; charset=utf-8"


class _Handler(BaseHTTPRequestHandler):
    server: _HTTP  # type: ignore[mutable-override]  # nobody else makes handlers
    server_version = "trainwarden"
    sys_version = ""
    timeout: ClassVar[float | None] = REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer with status, headers and body."""
        self.wfile.write(self._begin())

    def do_HEAD(self) -> None:
        """Answer with status and headers."""
        self._begin()

    def _begin(self) -> bytes:
        path = self.path.partition("?")[0]
        answer = answer_to(
            path, accept=self.headers.get("Accept", ""), rendered=self.server.source()
        )
        status, content_type, body = answer
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        return body

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not worth a line."""


def answer_to(path: str, *, accept: str, rendered: Rendered | None) -> _Answer:
    """Status, content type and body for ``path``; OpenMetrics where it is accepted."""
    if path == "/-/healthy":
        return HTTPStatus.OK, _PLAIN, b"healthy\n"
    if path not in {"/metrics", "/-/ready"}:
        return HTTPStatus.NOT_FOUND, _PLAIN, b"see /metrics\n"
    if rendered is None:
        return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, b"nothing was measured yet\n"
    if path == "/-/ready":
        return HTTPStatus.OK, _PLAIN, b"ready\n"
    if choose_encoder(accept)[1].startswith("application/openmetrics-text"):
        return HTTPStatus.OK, CONTENT_TYPE_LATEST, rendered.openmetrics
    return HTTPStatus.OK, CONTENT_TYPE_PLAIN_0_0_4, rendered.text
