"""A Unix socket, reached over loopback TCP: for clients that know no Unix sockets."""

import contextlib
import socket
import threading
from collections.abc import Generator
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer

from typing_extensions import override

BLOCK = 1 << 16


class _Relay(ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(("127.0.0.1", 0), _Pair)


class _Pair(BaseRequestHandler):
    @override
    def handle(self) -> None:
        """Both ways, until either end is done."""
        assert isinstance(self.server, _Relay)
        with socket.socket(socket.AF_UNIX) as inner:
            inner.connect(str(self.server.path))
            back = threading.Thread(target=_copy, args=(inner, self.request))
            back.start()
            _copy(self.request, inner)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while block := source.recv(BLOCK):
            target.sendall(block)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def relayed(path: Path) -> Generator[str]:
    """The URL under which the socket at ``path`` is reached."""
    with _Relay(path) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
