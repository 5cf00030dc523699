"""A small HTTP server for ``/metrics``.

Each connection has a thread of its own and each request a deadline, and there are only so
many (``open_connections``), so that slow readers hold up nobody. It is kept between
scrapes, as Prometheus does on its side: a connection costs more than an answer. It listens
on loopback unless told otherwise; it speaks TLS if it is given a certificate (and asks
readers for theirs if it is given an authority), and leaves passwords to a proxy.

Not prometheus_client's own server: that one encodes in each scrape (``exposition``), gives a
reader all the time there is, and has neither a limit on connections nor a way to keep one.
"""

import errno
import io
import ipaddress
import re
import socket
import socketserver
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self, cast

from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, choose_encoder
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST
from typing_extensions import override

from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import Form
from supervisor.host.exporter.open_connections import MOST_KEPT, OpenConnections
from supervisor.host.service.server_thread import ServerThread
from supervisor.host.service.timed_stream import TimedStream

Source = Callable[[Form], bytes | None]
"""What to answer in that form; None: nothing was measured yet."""

_ZERO = re.compile(r"q=0(\.0*)?")
REQUEST_SECONDS = 10.0
"""How long one request may take: TLS handshake, headers and answer together."""
KEPT_SECONDS = 75.0
"""... and from one request to the next: more than Prometheus' usual minute."""
_EXHAUSTED = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
"""Nobody can be let in now; whoever wants to is still there at the next look."""


class ServeError(RuntimeError):
    """It cannot be served; the message is one sentence."""


class AddressError(ServeError):
    """The address cannot be listened on now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Files in PEM. ``client_ca``: only readers that it vouches for are answered."""

    certificate: Path
    key: Path
    client_ca: Path | None = None


class _Context:
    """A TLS context; a certificate that was renewed is used from then on."""

    def __init__(self, tls: Tls) -> None:
        """Read the files. Raises OSError (ssl.SSLError is one)."""
        self._tls = tls
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        if tls.client_ca is not None:
            self._context.load_verify_locations(tls.client_ca)
            self._context.verify_mode = ssl.CERT_REQUIRED
        self._loaded = self._stamp()
        self._context.load_cert_chain(tls.certificate, tls.key)

    def _stamp(self) -> tuple[int, int]:
        return (
            self._tls.certificate.stat().st_mtime_ns,
            self._tls.key.stat().st_mtime_ns,
        )

    def wrap(self, connection: socket.socket) -> ssl.SSLSocket:
        """``connection``, with the handshake still to come."""
        self._renew()
        return self._context.wrap_socket(
            connection, server_side=True, do_handshake_on_connect=False
        )

    def _renew(self) -> None:
        """In the middle of a renewal the files may not match: the old pair stays."""
        try:
            stamp = self._stamp()
            if stamp != self._loaded:
                self._context.load_cert_chain(self._tls.certificate, self._tls.key)
                self._loaded = stamp
        except OSError:
            return


class MetricsServer:
    """Serves until ``close``. ``address`` has the real port where 0 was asked for."""

    def __init__(
        self, address: Address, source: Source, *, tls: Tls | None = None
    ) -> None:
        """Listen on ``address``, and serve what ``source`` holds. Raises ServeError."""
        try:
            context = None if tls is None else _Context(tls)
        except OSError as error:
            reason = error.strerror or str(error)
            message = (
                f"cannot use the certificate {tls.certificate if tls else ''}: {reason}"
            )
            raise ServeError(message) from error
        try:
            http = _HTTP(address, source, context)
        except OSError as error:
            reason = error.strerror or str(error)
            message = (
                f"cannot serve metrics on {address}: {reason}; name another address"
            )
            raise AddressError(message) from error
        self.address = Address(address.host, http.server_address[1])
        self._connections = http.connections
        self._attending = ServerThread(http, name="metrics-http")

    def close(self) -> None:
        """Stop listening; requests under way are left to their time limit."""
        self._attending.close()
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _HTTP(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024  # whoever finds it full comes again after a second only

    def __init__(
        self, address: Address, source: Source, context: _Context | None
    ) -> None:
        found = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self.address_family, _, _, _, where = found[0]
        self.source = source
        self.context = context
        self.connections = OpenConnections()
        super().__init__((str(where[0]), int(where[1])), _MetricsHandler)

    @override
    def server_bind(self) -> None:
        # Not HTTPServer's: it looks up our own name in the DNS, which can take long.
        socketserver.TCPServer.server_bind(self)

    @override
    def get_request(self) -> tuple[socket.socket, object]:
        """The handshake comes later, in the request's own thread: it may take for ever."""
        if not self.connections.has_room():
            raise BlockingIOError
        try:
            connection, where = super().get_request()
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self.connections.make_room()
            raise
        if self.context is not None:
            connection = self.context.wrap(connection)
        self.connections.enter(connection)
        return connection, where

    @override
    def close_request(self, request: Any) -> None:
        self.connections.leave(request)
        super().close_request(request)

    @override
    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that went away is its own affair."""


_Answer = tuple[HTTPStatus, str, bytes]
_PLAIN = "text/plain; charset=utf-8"


class _MetricsHandler(BaseHTTPRequestHandler):
    server: _HTTP  # type: ignore[mutable-override]  # nobody else makes handlers
    server_version = "trainwarden"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    # Headers and body are two writes: the second must not wait until the first arrived.
    disable_nagle_algorithm = True
    _kept = False

    @override
    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._stream = TimedStream(
            self.connection, deadline=time.monotonic() + REQUEST_SECONDS
        )
        self.rfile = io.BufferedReader(self._stream)
        self.wfile = cast("io.BufferedIOBase", self._stream)  # writes all, as that does

    @override
    def handle(self) -> None:
        """One request after the other, as long as the next one comes soon."""
        self.close_connection = True
        self.handle_one_request()
        while not self.close_connection and self._goes_on():
            self.handle_one_request()

    def _goes_on(self) -> bool:
        """Wait for the next request: whether one comes."""
        self._stream.deadline = time.monotonic() + KEPT_SECONDS
        try:
            with self.server.connections.idle(self.connection) as wanted:
                return wanted and bool(cast("io.BufferedReader", self.rfile).peek(1))
        except OSError:
            return False
        finally:
            self._stream.deadline = time.monotonic() + REQUEST_SECONDS

    def do_GET(self) -> None:
        """Answer with status, headers and body."""
        self.wfile.write(self._begin())

    def do_HEAD(self) -> None:
        """Answer with status and headers."""
        self._begin()

    def _begin(self) -> bytes:
        self._kept = self.server.connections.answer(self.connection)
        path = self.path.partition("?")[0]
        form = wanted(
            accept=self.headers.get("Accept", ""),
            encodings=self.headers.get("Accept-Encoding", ""),
            reader=str(self.client_address[0]),
        )
        status, content_type, body = answer_to(path, form, self.server.source)
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        if path == "/metrics" and status is HTTPStatus.OK:
            self.send_header("Vary", "Accept, Accept-Encoding")
            if form.gzipped:
                self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        if not self._may_go_on():
            self.send_header("Connection", "close")
        self.end_headers()
        return body

    def _may_go_on(self) -> bool:
        """Not after a body: nobody reads it, and it must not be taken for the next
        request. Not with HTTP/1.0, which would have to be told."""
        body = "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        return self._kept and not body and self.request_version == "HTTP/1.1"

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not worth a line."""


@lru_cache(maxsize=2 * MOST_KEPT)  # who scrapes asks for the same each time
def wanted(*, accept: str, encodings: str, reader: str) -> Form:
    """The form that a reader asks for: OpenMetrics and gzip where it takes them.

    ``reader``: its address. Nothing is compressed for this machine itself: there is no
    network to spare, and it costs both sides processor time.
    """
    openmetrics = choose_encoder(accept)[1].startswith("application/openmetrics-text")
    gzipped = takes_gzip(encodings) and not is_near(reader)
    return Form(openmetrics=openmetrics, gzipped=gzipped)


def is_near(address: str) -> bool:
    """Whether a reader with that address is on this machine, by the address alone."""
    found = ipaddress.ip_address(address.partition("%")[0])
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return (mapped or found).is_loopback


def takes_gzip(encodings: str) -> bool:
    """Whether ``Accept-Encoding`` has gzip in it, and not with a weight of 0."""
    for part in encodings.lower().split(","):
        name, _, weight = part.partition(";")
        if name.strip() == "gzip":
            return _ZERO.fullmatch(weight.strip()) is None
    return False


def answer_to(path: str, form: Form, source: Source) -> _Answer:
    """Status, content type and body for ``path``."""
    if path == "/-/healthy":
        return HTTPStatus.OK, _PLAIN, b"healthy\n"
    if path not in {"/metrics", "/-/ready"}:
        return HTTPStatus.NOT_FOUND, _PLAIN, b"see /metrics\n"
    body = source(form)
    if body is None:
        return HTTPStatus.SERVICE_UNAVAILABLE, _PLAIN, b"nothing was measured yet\n"
    if path == "/-/ready":
        return HTTPStatus.OK, _PLAIN, b"ready\n"
    kind = CONTENT_TYPE_LATEST if form.openmetrics else CONTENT_TYPE_PLAIN_0_0_4
    return HTTPStatus.OK, kind, body
