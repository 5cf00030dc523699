"""A server that sleeps until somebody comes."""

import socketserver
import threading
import time
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket

import pytest
from typing_extensions import override

from supervisor.host.service.server_thread import ServerThread

NAME = "test-attending"


class _Echo(socketserver.StreamRequestHandler):
    @override
    def handle(self) -> None:
        self.wfile.write(self.rfile.readline())


class _ThreadedServer(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


def answered(path: Path) -> bytes:
    """What the server there says to a word."""
    with socket(AF_UNIX, SOCK_STREAM) as channel:
        channel.settimeout(30.0)
        channel.connect(str(path))
        channel.sendall(b"word\n")
        return channel.recv(100)


def switches(thread: threading.Thread) -> str:
    """How often it has gone to sleep, as the kernel tells it."""
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return status.partition("\nvoluntary_ctxt_switches:")[2].partition("\n")[0]


def test_it_answers_and_ends(tmp_path: Path) -> None:
    """Whoever comes is answered; nobody is after close, and its thread has ended."""
    attending = ServerThread(_ThreadedServer(str(tmp_path / "s"), _Echo), name=NAME)
    assert [answered(tmp_path / "s") for _ in range(3)] == [b"word\n"] * 3
    attending.close()
    with pytest.raises(ConnectionRefusedError):
        answered(tmp_path / "s")
    assert NAME not in {thread.name for thread in threading.enumerate()}


def test_it_sleeps_while_nobody_comes(tmp_path: Path) -> None:
    """It does not wake up by itself: in one of ten seconds it has not."""
    attending = ServerThread(_ThreadedServer(str(tmp_path / "s"), _Echo), name=NAME)
    answered(tmp_path / "s")
    (thread,) = [one for one in threading.enumerate() if one.name == NAME]
    slept = False
    for _ in range(10):
        before = switches(thread)
        time.sleep(1.0)
        slept = slept or switches(thread) == before
        if slept:
            break
    attending.close()
    assert slept
