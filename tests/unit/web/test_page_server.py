"""Whose requests are answered, and what every answer says."""

import socket
import threading
from collections.abc import Iterator

import pytest

from supervisor.web.page_server import (
    HOST,
    Answered,
    PageServer,
    headers,
    is_ours,
    new_secret,
)


@pytest.mark.parametrize(
    ("host", "origin", "ours"),
    [
        ("127.0.0.1:8080", None, True),
        ("localhost:8080", None, True),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", True),
        ("127.0.0.1:8080", "http://localhost:8080", False),
        ("127.0.0.1:8080", "https://127.0.0.1:8080", False),
        ("127.0.0.1:8080", "null", False),
        ("127.0.0.1:81", None, False),
        ("rebound.example:8080", None, False),
        (None, None, False),
    ],
)
def test_whose_request(host: str | None, origin: str | None, *, ours: bool) -> None:
    """By the name that was asked for, and the page that asks."""
    assert is_ours(host, origin, port=8080) is ours


def test_the_policy_of_every_answer() -> None:
    """Nothing but our style, our script and our own data; in no other page's frame."""
    policy = headers()["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy
    assert new_secret() != new_secret()


@pytest.fixture
def served() -> Iterator[PageServer]:
    """A server of one page, which answers meanwhile."""

    def site(path: str) -> Answered:
        return Answered(body=f"at {path}")

    with PageServer(site, secret="secret") as server:  # noqa: S106  # of a page of the test
        thread = threading.Thread(target=server.serve)
        thread.start()
        yield server
        server.close()
        thread.join()


def asked(server: PageServer, request: str) -> tuple[str, dict[str, str], str]:
    """Status line, headers and body of the answer to ``request``."""
    with socket.create_connection((HOST, server.port), timeout=30) as connection:
        connection.sendall(request.encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    head, _, body = answer.partition("\r\n\r\n")
    first, *lines = head.split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines), body


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("POST /secret/ HTTP/1.1", "405"),
        ("PUT /secret/jobs HTTP/1.1", "405"),
        ("DELETE / HTTP/1.1", "405"),
        ("OPTIONS * HTTP/1.1", "405"),
        ("GET /secret/ HTTP/1.1", "403"),
        ("GET /secret/ HTTP/x", "400"),
        ("GET /secret/ HTTP/2.0", "505"),
        ("nothing at all, is it", "400"),
        ("POST /secret/", "400"),
        (f"GET /{'a' * 70_000} HTTP/1.1", "414"),
    ],
)
def test_every_answer_is_ours(
    served: PageServer, request_line: str, status: str
) -> None:
    """Another method, another protocol: a sentence with the headers of every answer, not a
    page of Python's own."""
    first, found, body = asked(served, f"{request_line}\r\nHost: elsewhere\r\n\r\n")
    assert first.split()[:2] == ["HTTP/1.1", status]
    assert headers().items() <= found.items()
    assert found["Content-Type"].startswith("text/plain")
    assert body.endswith(".\n")
    assert "<" not in body
    if status == "405":
        assert found["Allow"] == "GET, HEAD"
        assert "only read" in body


def test_a_page_is_answered(served: PageServer) -> None:
    """To who names it."""
    host = f"{HOST}:{served.port}"
    request = f"GET /secret/x HTTP/1.1\r\nHost: {host}\r\n\r\n"
    assert asked(served, request)[2] == "at /x"
