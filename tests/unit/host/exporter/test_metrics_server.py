"""The server behind ``--metrics``, asked over a real socket."""

import contextlib
import gzip
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Any

import psutil
import pytest

from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.text.address import Address
from supervisor.host.exporter.exposition_cache import ExpositionCache, Form
from supervisor.host.exporter.metrics_server import (
    MetricsServer,
    ServeError,
    Tls,
    is_near,
    takes_gzip,
    wanted,
)
from supervisor.host.exporter.open_connections import MOST_KEPT
from tests.support.metrics import render

STATUS = JobStatus(job="a", state=JobState.RUNNING, attempt=1)
FREE = Address("127.0.0.1", 0)


@pytest.fixture
def board() -> ExpositionCache:
    """A board with one run on it."""
    board = ExpositionCache()
    board.publish([STATUS])
    return board


@pytest.fixture
def server(board: ExpositionCache) -> Iterator[MetricsServer]:
    """A server on a free port of the loopback."""
    with MetricsServer(FREE, board.read) as server:
        yield server


def ask(
    server: MetricsServer, path: str, *, method: str = "GET", accept: str = ""
) -> tuple[int, str, bytes]:
    """Status, content type and body."""
    return fetch(str(server.address), path, method=method, accept=accept)


def fetch(
    address: str, path: str, *, method: str = "GET", accept: str = ""
) -> tuple[int, str, bytes]:
    """Status, content type and body."""
    connection = HTTPConnection(address, timeout=10)
    try:
        connection.request(method, path, headers={"Accept": accept})
        answer = connection.getresponse()
        return answer.status, answer.headers["Content-Type"], answer.read()
    finally:
        connection.close()


def test_text_unless_asked(server: MetricsServer) -> None:
    """A browser gets Prometheus' text format."""
    status, kind, body = ask(server, "/metrics", accept="text/html,*/*;q=0.8")
    assert (status, body) == (200, render([STATUS]))
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


def test_openmetrics_where_accepted(server: MetricsServer) -> None:
    """A Prometheus server gets OpenMetrics, which it asks for."""
    accept = (
        "application/openmetrics-text;version=1.0.0,"
        "application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    )
    status, kind, body = ask(server, "/metrics?debug=1", accept=accept)
    assert (status, body) == (200, render([STATUS], openmetrics=True))
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_head_has_no_body(server: MetricsServer) -> None:
    """HEAD answers as GET does, without the body."""
    assert ask(server, "/metrics", method="HEAD")[::2] == (200, b"")


def test_health_and_readiness() -> None:
    """Healthy from the start, ready with the first sample."""
    board = ExpositionCache()
    with MetricsServer(FREE, board.read) as server:
        assert ask(server, "/-/healthy")[0] == 200
        assert ask(server, "/-/ready")[0] == 503
        assert ask(server, "/metrics")[0] == 503
        board.publish([STATUS])
        assert ask(server, "/-/ready")[0] == 200
        assert ask(server, "/metrics")[0] == 200


def test_other_paths(server: MetricsServer) -> None:
    """Anything else is not found, and says where to look."""
    assert ask(server, "/")[::2] == (404, b"see /metrics\n")


def test_a_silent_reader_holds_up_nobody(server: MetricsServer) -> None:
    """While one connection says nothing, another is answered."""
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=10):
        assert ask(server, "/-/healthy")[0] == 200


def test_garbage_is_answered(server: MetricsServer) -> None:
    """Bytes that are no HTTP get an error, and the server goes on."""
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00 what\r\n\r\n")
        assert b"400" in connection.recv(4096)
    assert ask(server, "/-/healthy")[0] == 200


def test_ipv6() -> None:
    """IPv6 loopback works where the machine has it."""
    try:
        server = MetricsServer(Address("::1", 0), ExpositionCache().read)
    except ServeError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with server:
        assert ask(server, "/-/healthy")[0] == 200
        assert str(server.address).startswith("[::1]:")


def test_closing_frees_the_port(board: ExpositionCache) -> None:
    """After close the same port can be served again."""
    with MetricsServer(FREE, board.read) as first:
        address = first.address
    with MetricsServer(address, board.read) as second:
        assert second.address == address
        assert ask(second, "/-/ready")[0] == 200


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("127.0.0.1", "Address already in use"),
        ("203.0.113.7", "Cannot assign requested address"),
        ("no-such-host.invalid", r"[Nn]ame"),
    ],
)
def test_where_it_cannot_listen(server: MetricsServer, host: str, reason: str) -> None:
    """An address that cannot be had is told in one sentence."""
    with pytest.raises(ServeError, match=reason) as caught:
        MetricsServer(Address(host, server.address.port), ExpositionCache().read)
    assert str(caught.value).startswith(f"cannot serve metrics on {host}:")
    assert "\n" not in str(caught.value)


GZIP = {"Accept-Encoding": "gzip"}


def test_gzip_for_another_machine(board: ExpositionCache) -> None:
    """A Prometheus server elsewhere gets its answer compressed, as it asks; one on this
    machine does not, whatever it asks."""
    with MetricsServer(Address("0.0.0.0", 0), board.read) as server:  # noqa: S104  # asked at two
        port = server.address.port
        for host, encoding in (("127.0.0.1", None), (address_of_ours(), "gzip")):
            connection = HTTPConnection(host, port, timeout=10)
            connection.request("GET", "/metrics", headers=GZIP)
            answer = connection.getresponse()
            assert answer.headers["Content-Encoding"] == encoding
            assert answer.headers["Vary"] == "Accept, Accept-Encoding"
            body = answer.read()
            assert (gzip.decompress(body) if encoding else body) == render([STATUS])
            connection.close()


def address_of_ours() -> str:
    """An address of this machine that is not its loopback."""
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not is_near(one.address):
                return one.address
    pytest.skip("this machine has no address but its loopback")


@pytest.mark.parametrize(
    ("reader", "near"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
    ],
)
def test_who_is_near(*, reader: str, near: bool) -> None:
    """Whoever asks from the loopback."""
    assert is_near(reader) is near
    form = wanted(accept="", encodings="gzip", reader=reader)
    assert form == Form(gzipped=not near)


def test_a_connection_is_kept(server: MetricsServer) -> None:
    """Scrapes after each other, on one connection."""
    connection = HTTPConnection(str(server.address), timeout=10)
    connection.connect()
    kept = connection.sock
    for _ in range(3):
        connection.request("GET", "/metrics")
        assert connection.getresponse().read() == render([STATUS])
        assert connection.sock is kept
    connection.close()


def test_requests_at_once(server: MetricsServer) -> None:
    """Two that come together are both answered, in order; then it is closed, as asked."""
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=10) as connection:
        connection.sendall(
            b"GET /-/healthy HTTP/1.1\r\n\r\n"
            b"GET /-/ready HTTP/1.1\r\nConnection: close\r\n\r\n"
        )
        with connection.makefile("rb") as file:
            said = file.read()
    assert said.count(b"HTTP/1.1 200") == 2
    assert said.index(b"\r\n\r\nhealthy\n") < said.index(b"\r\n\r\nready\n")


def test_a_body_is_not_a_request(server: MetricsServer) -> None:
    """What comes after a request that nobody reads is not answered as another."""
    where = (server.address.host, server.address.port)
    inner = b"GET /-/ready HTTP/1.1\r\n\r\n"
    with socket.create_connection(where, timeout=10) as connection:
        connection.sendall(
            b"GET /-/healthy HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s"
            % (len(inner), inner)
        )
        connection.shutdown(socket.SHUT_WR)
        said = b""
        with contextlib.suppress(ConnectionResetError):  # it leaves with this unread
            while chunk := connection.recv(4096):
                said += chunk
    assert said.count(b"HTTP/1.1 200") == 1
    assert b"Connection: close" in said


def test_http_1_0_is_not_kept(server: MetricsServer) -> None:
    """Whoever reads to the end of the connection meets it."""
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=10) as connection:
        connection.sendall(b"GET /-/healthy HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        with connection.makefile("rb") as file:
            assert file.read().endswith(b"healthy\n")


def test_not_too_many_are_kept(server: MetricsServer) -> None:
    """Whoever comes beyond ``MOST_KEPT`` is answered all the same, and not kept; where
    one has left there is room again."""

    def kept(connection: HTTPConnection) -> bool:
        connection.request("GET", "/-/healthy")
        answer = connection.getresponse()
        assert answer.read() == b"healthy\n"
        return not answer.will_close

    with contextlib.ExitStack() as stack:

        def another() -> HTTPConnection:
            connection = HTTPConnection(str(server.address), timeout=10)
            stack.callback(connection.close)
            return connection

        first = another()
        assert kept(first)
        assert all(kept(another()) for _ in range(MOST_KEPT - 1))
        assert not kept(another())
        first.close()
        ends = time.monotonic() + 30
        while not kept(another()):
            assert time.monotonic() < ends
            time.sleep(0.01)


def test_closing_ends_what_is_kept(board: ExpositionCache) -> None:
    """Nobody is told of yesterday by a server that has closed."""
    with MetricsServer(FREE, board.read) as server:
        connection = HTTPConnection(str(server.address), timeout=10)
        connection.request("GET", "/-/healthy")
        assert connection.getresponse().read() == b"healthy\n"
    assert connection.sock.recv(1) == b""
    connection.close()


def test_closing_lets_an_answer_end() -> None:
    """What is under way is not cut off; after it the connection ends."""
    body, asked, may_answer = b"x" * 5_000_000, threading.Event(), threading.Event()

    def source(_form: Form) -> bytes:
        asked.set()
        assert may_answer.wait(30)
        return body

    with MetricsServer(FREE, source) as server:
        connection = HTTPConnection(str(server.address), timeout=30)
        connection.request("GET", "/metrics")
        assert asked.wait(30)
    may_answer.set()
    assert connection.getresponse().read() == body
    assert connection.sock.recv(1) == b""
    connection.close()


@pytest.mark.parametrize(
    ("encodings", "takes"),
    [
        ("gzip", True),
        ("br, GZIP;q=0.5", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000", False),
        ("br, deflate", False),
        ("", False),
    ],
)
def test_who_takes_gzip(*, encodings: str, takes: bool) -> None:
    """Gzip is taken where it is named, unless its weight is 0."""
    assert takes_gzip(encodings) is takes


@pytest.fixture(scope="module")
def pems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, and certificates of a server and a reader that it vouches for."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    where = tmp_path_factory.mktemp("pems")
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    for name in ("ca", "server", "reader", "renewed"):
        signer = [] if name == "ca" else ["-CA", "ca.pem", "-CAkey", "ca.key", *names]
        subprocess.run(
            [
                *(openssl, "req", "-x509", "-days", "2", "-subj", f"/CN={name}"),
                *(*key, *signer, "-keyout", f"{name}.key", "-out", f"{name}.pem"),
            ],
            cwd=where,
            check=True,
            capture_output=True,
            timeout=60,
        )
    return where


def reader(pems: Path, *, certified: bool) -> ssl.SSLContext:
    """Somebody who trusts the authority, with or without a certificate of theirs."""
    context = ssl.create_default_context(cafile=pems / "ca.pem")
    if certified:
        context.load_cert_chain(pems / "reader.pem", pems / "reader.key")
    return context


def ask_over_tls(server: MetricsServer, context: ssl.SSLContext) -> tuple[int, str]:
    """The status of ``/metrics``, and whom the server's certificate names."""
    where = server.address
    connection = HTTPSConnection(where.host, where.port, timeout=10, context=context)
    try:
        connection.request("GET", "/metrics")
        assert isinstance(connection.sock, ssl.SSLSocket)
        subject: Any = (connection.sock.getpeercert() or {})["subject"]
        return connection.getresponse().status, subject[0][0][1]
    finally:
        connection.close()


def test_tls(board: ExpositionCache, pems: Path, tmp_path: Path) -> None:
    """With a certificate it is TLS only, and a renewed certificate is taken up."""
    for part in ("pem", "key"):
        shutil.copy(pems / f"server.{part}", tmp_path / f"server.{part}")
    tls = Tls(certificate=tmp_path / "server.pem", key=tmp_path / "server.key")
    with MetricsServer(FREE, board.read, tls=tls) as server:
        context = reader(pems, certified=False)
        assert ask_over_tls(server, context) == (200, "server")
        with pytest.raises((OSError, HTTPException)):
            ask(server, "/metrics")
        (tmp_path / "server.pem").write_text("in the middle of being renewed")
        assert ask_over_tls(server, context) == (200, "server")
        for part in ("pem", "key"):
            shutil.copy(pems / f"renewed.{part}", tmp_path / f"server.{part}")
        assert ask_over_tls(server, context) == (200, "renewed")


def test_mutual_tls(board: ExpositionCache, pems: Path) -> None:
    """With an authority for readers, only those are answered that it vouches for."""
    tls = Tls(
        certificate=pems / "server.pem",
        key=pems / "server.key",
        client_ca=pems / "ca.pem",
    )
    with MetricsServer(FREE, board.read, tls=tls) as server:
        with pytest.raises((OSError, HTTPException)):
            ask_over_tls(server, reader(pems, certified=False))
        assert ask_over_tls(server, reader(pems, certified=True)) == (200, "server")


def test_a_silent_reader_holds_up_nobody_over_tls(
    board: ExpositionCache, pems: Path
) -> None:
    """A handshake that never comes is waited for by its own thread only."""
    tls = Tls(certificate=pems / "server.pem", key=pems / "server.key")
    with MetricsServer(FREE, board.read, tls=tls) as server:
        where = (server.address.host, server.address.port)
        with socket.create_connection(where, timeout=10):
            assert ask_over_tls(server, reader(pems, certified=False))[0] == 200


def test_a_certificate_that_cannot_be_used(tmp_path: Path) -> None:
    """It is told in one sentence, before anything is served."""
    tls = Tls(certificate=tmp_path / "none.pem", key=tmp_path / "none.key")
    with pytest.raises(ServeError, match="cannot use the certificate") as caught:
        MetricsServer(FREE, ExpositionCache().read, tls=tls)
    assert "\n" not in str(caught.value)
