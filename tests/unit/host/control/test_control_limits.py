"""Whoever keeps the control socket busy keeps out themselves, not the others."""

import contextlib
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.host.control import control_limits, control_server
from supervisor.host.control.control_server import ControlServer, Response

PATIENCE = 30.0
ASKED = b"GET / HTTP/1.1\r\n\r\n"
ANOTHER = 12345
"""The uid of somebody else."""


@pytest.fixture
def place() -> Iterator[Path]:
    """Where a server listens that everybody reaches."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:  # reachable
        Path(directory).chmod(0o755)
        path = Path(directory) / "control.sock"
        server = ControlServer(path, lambda _request: Response(body="here"))
        try:
            yield path
        finally:
            server.close()


def connected(path: Path) -> socket.socket:
    """One more connection."""
    channel = socket.socket(socket.AF_UNIX)
    channel.settimeout(PATIENCE)
    channel.connect(str(path))
    return channel


def answer(path: Path) -> bytes:
    """The first line of what is answered."""
    with contextlib.closing(connected(path)) as channel:
        with contextlib.suppress(BrokenPipeError):
            channel.sendall(ASKED)
        return channel.recv(4096).partition(b"\r\n")[0]


def until_answered(path: Path, wanted: bytes) -> None:
    """Wait until it is that."""
    deadline = time.monotonic() + PATIENCE
    while wanted not in answer(path):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_user_has_so_many_connections(place: Path) -> None:
    """One more is turned away with a sentence; who lets go of some is let in again."""
    with contextlib.ExitStack() as held:
        for _ in range(control_limits.MOST_OF_A_USER):
            channel = held.enter_context(contextlib.closing(connected(place)))
            channel.sendall(ASKED)
            assert b"200" in channel.recv(4096)
        assert b"503" in answer(place)
        if os.geteuid() == 0:
            assert b"200" in answer_to_another(place)
    until_answered(place, b"200")


def answer_to_another(path: Path) -> bytes:
    """What somebody else gets: the kernel remembers who connected."""
    os.seteuid(ANOTHER)
    try:
        return answer(path)
    finally:
        os.seteuid(0)


def test_all_users_together(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When all room is taken, root still finds some."""
    monkeypatch.setattr(control_limits, "MOST_CONNECTIONS", 0)
    if os.geteuid() == 0:
        assert b"200" in answer(place)
        assert b"503" in answer_to_another(place)
    else:
        assert b"503" in answer(place)


def test_a_request_has_to_arrive_in_time(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a whole: byte after byte does not put that off."""
    monkeypatch.setattr(control_server, "REQUEST_SECONDS", 0.5)
    deadline = time.monotonic() + PATIENCE
    with contextlib.closing(connected(place)) as channel:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while time.monotonic() < deadline:
                channel.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() < deadline
