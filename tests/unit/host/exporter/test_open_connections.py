"""What outsiders can make of the metrics port: nothing that keeps a scraper out."""

import contextlib
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPSConnection

import psutil
import pytest

from supervisor.core.text.address import Address
from supervisor.host.exporter import metrics_server, open_connections
from supervisor.host.exporter.exposition_cache import Form
from supervisor.host.exporter.metrics_server import MetricsServer, Tls

FREE = Address("127.0.0.1", 0)
PATIENCE = 30.0
MOST = 8
BODY = b"metric 1\n"


def body(_form: Form) -> bytes:
    """What is served."""
    return BODY


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    """In the clear."""
    with MetricsServer(FREE, body) as server:
        yield server


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few connections as a test likes to make."""
    monkeypatch.setattr(open_connections, "MOST_OPEN", MOST)
    monkeypatch.setattr(open_connections, "MOST_KEPT", MOST // 2)


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate that vouches for itself."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    where = tmp_path_factory.mktemp("pems")
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-days", "2", "-subj", "/CN=server", "-nodes"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-keyout", "server.key", "-out", "server.pem"),
        ],
        cwd=where,
        check=True,
        capture_output=True,
        timeout=60,
    )
    return Tls(certificate=where / "server.pem", key=where / "server.key")


def connected(server: MetricsServer) -> socket.socket:
    """Somebody who has said nothing yet."""
    where = (server.address.host, server.address.port)
    return socket.create_connection(where, timeout=PATIENCE)


def scraper(server: MetricsServer, tls: Tls | None = None) -> HTTPConnection:
    """Somebody who knows how to ask."""
    host, port = server.address.host, server.address.port
    if tls is None:
        return HTTPConnection(host, port, timeout=PATIENCE)
    trust = ssl.create_default_context(cafile=tls.certificate)
    return HTTPSConnection(host, port, timeout=PATIENCE, context=trust)


def scrape(connection: HTTPConnection) -> bytes:
    """What it is told."""
    connection.request("GET", "/metrics")
    return connection.getresponse().read()


def threads() -> int:
    """Those that serve a connection."""
    names = [thread.name for thread in threading.enumerate()]
    return sum("process_request_thread" in name for name in names)


def until(met: Callable[[], bool]) -> None:
    """Wait for it."""
    ends = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < ends
        time.sleep(0.01)


def ended(connection: socket.socket) -> bool:
    """Whether the server has ended it; it has nothing to say otherwise."""
    connection.settimeout(PATIENCE)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("encrypted", [False, True])
def test_slow_readers_put_out_each_other(
    tls: Tls, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    """The longest waiting gives way to whoever comes; a scraper is answered, its idle
    connection is kept, and there are never more threads than connections allowed."""
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 1000.0)
    used = tls if encrypted else None
    with (
        MetricsServer(FREE, body, tls=used) as server,
        contextlib.ExitStack() as stack,
        contextlib.closing(scraper(server, used)) as kept,
    ):
        assert scrape(kept) == BODY
        its = kept.sock
        slow = [stack.enter_context(connected(server)) for _ in range(5 * MOST)]
        with contextlib.closing(scraper(server, used)) as another:
            assert scrape(another) == BODY
        assert threads() <= MOST + 1  # one may have left, and not be gone yet
        assert ended(slow[0])
        assert scrape(kept) == BODY
        assert kept.sock is its


@pytest.mark.usefixtures("few")
def test_who_is_answered_does_not_give_way() -> None:
    """Where everybody is being answered the next one waits until one of them is done."""
    may_answer = threading.Event()
    asked = threading.Semaphore(0)

    def source(_form: Form) -> bytes:
        asked.release()
        assert may_answer.wait(PATIENCE)
        return BODY

    with MetricsServer(FREE, source) as server, contextlib.ExitStack() as stack:
        readers = [scraper(server) for _ in range(MOST + 1)]
        for one in readers[:MOST]:
            stack.callback(one.close)
            one.request("GET", "/metrics")
            assert asked.acquire(timeout=PATIENCE)
        stack.callback(readers[MOST].close)
        readers[MOST].request("GET", "/metrics")
        assert not asked.acquire(timeout=0.5)
        may_answer.set()
        assert [one.getresponse().read() for one in readers] == [BODY] * (MOST + 1)


def drip(connection: socket.socket, *, each: bytes) -> None:
    """A byte now and then until the server has had enough."""
    ends = time.monotonic() + PATIENCE
    with contextlib.suppress(BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
        while time.monotonic() < ends:
            connection.sendall(each)
            time.sleep(0.05)
    assert time.monotonic() < ends


@pytest.mark.parametrize("first", [True, False])
def test_a_request_has_a_deadline(
    server: MetricsServer, monkeypatch: pytest.MonkeyPatch, *, first: bool
) -> None:
    """As a whole: byte after byte does not put that off, in the first or a later one."""
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.5)
    with connected(server) as connection:
        if not first:
            connection.sendall(b"HEAD /metrics HTTP/1.1\r\n\r\n")
            assert connection.recv(4096).endswith(b"\r\n\r\n")
        drip(connection, each=b"x")


def test_over_tls_it_has_a_deadline(tls: Tls, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request and a handshake alike."""
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.5)
    trust = ssl.create_default_context(cafile=tls.certificate)
    with MetricsServer(FREE, body, tls=tls) as server:
        host = server.address.host
        with trust.wrap_socket(connected(server), server_hostname=host) as connection:
            drip(connection, each=b"x")
        with connected(server) as connection:
            drip(connection, each=b"\x16")


@pytest.mark.parametrize("encrypted", [False, True])
def test_an_answer_has_a_deadline(
    tls: Tls, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    """Whoever takes an answer byte after byte is left in the middle of it."""
    monkeypatch.setattr(metrics_server, "REQUEST_SECONDS", 0.5)
    used, much = tls if encrypted else None, b"x" * 50_000_000
    with MetricsServer(FREE, lambda _form: much, tls=used) as server:
        connection = scraper(server, used)
        connection.connect()
        connection.request("GET", "/metrics")
        until(lambda: threads() == 1)
        ends = time.monotonic() + PATIENCE
        while threads():
            assert time.monotonic() < ends
            connection.sock.recv(16384)
            time.sleep(0.05)
        connection.close()


OUT_OF_DESCRIPTORS = f"""
import contextlib, os, resource, sys
from supervisor.core.text.address import Address
from supervisor.host.exporter.metrics_server import MetricsServer

with MetricsServer(Address("127.0.0.1", 0), lambda form: {BODY!r}) as server:
    print(server.address.port, flush=True)
    sys.stdin.readline()
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    taken = []
    with contextlib.suppress(OSError):
        while True:
            taken.append(os.dup(0))
    print("none left", flush=True)
    sys.stdin.readline()
    for descriptor in taken:
        os.close(descriptor)
    sys.stdin.readline()
"""


def test_without_descriptors_it_does_not_spin() -> None:
    """It uses hardly any processor time while nobody can be let in, goes on serving
    whoever is in, and lets in whoever waited once there are descriptors again."""
    with subprocess.Popen(
        [sys.executable, "-c", OUT_OF_DESCRIPTORS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = int(process.stdout.readline())
        kept = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        waits = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        with contextlib.closing(kept), contextlib.closing(waits):
            assert scrape(kept) == BODY
            process.stdin.write("take\n")
            assert process.stdout.readline() == "none left\n"
            waits.request("GET", "/metrics")
            used = processor_seconds(process.pid)
            time.sleep(1.0)
            assert processor_seconds(process.pid) - used < 0.3
            assert scrape(kept) == BODY
            process.stdin.write("give\n")
            assert waits.getresponse().read() == BODY
        process.stdin.write("end\n")


def processor_seconds(pid: int) -> float:
    """What a process has used."""
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
