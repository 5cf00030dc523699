"""The server behind ``--metrics``, asked over a real socket."""

import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from supervisor.core.address import Address
from supervisor.core.status import JobState, JobStatus
from supervisor.host.exporter import Exporter, ExporterError
from supervisor.host.http import ServeError, Server, serve
from supervisor.host.metrics import Board, render

STATUS = JobStatus(job="a", state=JobState.RUNNING, attempt=1)
FREE = Address("127.0.0.1", 0)


@pytest.fixture
def board() -> Board:
    """A board with one run on it."""
    board = Board()
    board.publish([STATUS])
    return board


@pytest.fixture
def server(board: Board) -> Iterator[Server]:
    """A server on a free port of the loopback."""
    with serve(FREE, board.read) as server:
        yield server


def ask(
    server: Server, path: str, *, method: str = "GET", accept: str = ""
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


def test_text_unless_asked(server: Server) -> None:
    """A browser gets Prometheus' text format."""
    status, kind, body = ask(server, "/metrics", accept="text/html,*/*;q=0.8")
    assert (status, body) == (200, render([STATUS]).text)
    assert kind == "text/plain; version=0.0.4; charset=utf-8"


def test_openmetrics_where_accepted(server: Server) -> None:
    """A Prometheus server gets OpenMetrics, which it asks for."""
    accept = (
        "application/openmetrics-text;version=1.0.0,"
        "application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
    )
    status, kind, body = ask(server, "/metrics?debug=1", accept=accept)
    assert (status, body) == (200, render([STATUS]).openmetrics)
    assert kind == "application/openmetrics-text; version=1.0.0; charset=utf-8"


def test_head_has_no_body(server: Server) -> None:
    """HEAD answers as GET does, without the body."""
    assert ask(server, "/metrics", method="HEAD")[::2] == (200, b"")


def test_health_and_readiness() -> None:
    """Healthy from the start, ready with the first sample."""
    board = Board()
    with serve(FREE, board.read) as server:
        assert ask(server, "/-/healthy")[0] == 200
        assert ask(server, "/-/ready")[0] == 503
        assert ask(server, "/metrics")[0] == 503
        board.publish([STATUS])
        assert ask(server, "/-/ready")[0] == 200
        assert ask(server, "/metrics")[0] == 200


def test_other_paths(server: Server) -> None:
    """Anything else is not found, and says where to look."""
    assert ask(server, "/")[::2] == (404, b"see /metrics\n")


def test_a_silent_reader_holds_up_nobody(server: Server) -> None:
    """While one connection says nothing, another is answered."""
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=10):
        assert ask(server, "/-/healthy")[0] == 200


def test_garbage_is_answered(server: Server) -> None:
    """Bytes that are no HTTP get an error, and the server goes on."""
    where = (server.address.host, server.address.port)
    with socket.create_connection(where, timeout=10) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00 what\r\n\r\n")
        assert b"400" in connection.recv(4096)
    assert ask(server, "/-/healthy")[0] == 200


def test_ipv6() -> None:
    """IPv6 loopback works where the machine has it."""
    try:
        server = serve(Address("::1", 0), Board().read)
    except ServeError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with server:
        assert ask(server, "/-/healthy")[0] == 200
        assert str(server.address).startswith("[::1]:")


def test_closing_frees_the_port(board: Board) -> None:
    """After close the same port can be served again."""
    with serve(FREE, board.read) as first:
        address = first.address
    with serve(address, board.read) as second:
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
def test_where_it_cannot_listen(server: Server, host: str, reason: str) -> None:
    """An address that cannot be had is told in one sentence."""
    with pytest.raises(ServeError, match=reason) as caught:
        serve(Address(host, server.address.port), Board().read)
    assert str(caught.value).startswith(f"cannot serve metrics on {host}:")
    assert "\n" not in str(caught.value)


def test_the_exporter_shows_what_was_published() -> None:
    """What was published last is what a scrape gets."""
    exporter = Exporter("127.0.0.1:0")
    try:
        address = str(exporter.address)
        assert fetch(address, "/-/ready")[0] == 503
        exporter.publish([STATUS])
        assert fetch(address, "/metrics")[2] == render([STATUS]).text
    finally:
        exporter.close()


@pytest.mark.parametrize(
    ("listen", "sentence"),
    [
        ("9464", "metrics.listen: expected HOST:PORT such as 127.0.0.1:9464"),
        ("203.0.113.7:9464", "cannot serve metrics on 203.0.113.7:9464: "),
    ],
)
def test_addresses_that_cannot_be_used(listen: str, sentence: str) -> None:
    """A wrong address and one that is not ours are told in one sentence."""
    with pytest.raises(ExporterError) as caught:
        Exporter(listen)
    assert str(caught.value).startswith(sentence)
