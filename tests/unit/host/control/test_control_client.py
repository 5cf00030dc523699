"""The commands' end of the control socket."""

import contextlib
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest

from supervisor.host.control.control_client import Client, NoDaemonError

ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"jobs": 3}'


@contextlib.contextmanager
def crowded(path: Path) -> Generator[tuple[socket.socket, list[socket.socket]]]:
    """A listener whose queue is full, and those who wait in it."""
    waiting: list[socket.socket] = []
    with contextlib.ExitStack() as opened:
        listener = opened.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(str(path))
        listener.listen(0)
        with contextlib.suppress(BlockingIOError):
            while True:
                caller = opened.enter_context(socket.socket(socket.AF_UNIX))
                caller.settimeout(0.0)
                caller.connect(str(path))
                waiting.append(caller)
        yield listener, waiting


def answer(listener: socket.socket, *, waiting: int) -> None:
    """Let go those who wait, and answer the next one."""
    for _ in range(waiting):
        listener.accept()[0].close()
    channel, _ = listener.accept()
    with channel:
        channel.recv(65536)
        channel.sendall(ANSWER)


def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    """A daemon that has many callers just now is not taken for one that is gone."""
    path = tmp_path / "socket"
    with crowded(path) as (listener, waiting), ThreadPoolExecutor() as threads:
        asked = threads.submit(Client(path).get, "/v1/status")
        wait([asked], timeout=0.3)  # it meets the queue while it is full
        if not asked.done():
            answer(listener, waiting=len(waiting))
        assert asked.result() == {"jobs": 3}


def test_nobody_there_is_told_at_once(tmp_path: Path) -> None:
    """No socket, or one that nobody listens at, is not tried again."""
    with pytest.raises(NoDaemonError):
        Client(tmp_path / "none").get("/v1/status")
    path = tmp_path / "dead"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NoDaemonError):
        Client(path).get("/v1/status")
