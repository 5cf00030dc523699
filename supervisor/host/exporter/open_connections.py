"""Which readers are connected to ``/metrics``, and who of them gives way to the next."""

import contextlib
import socket
import threading
from collections.abc import Generator

MOST_OPEN = 64
"""Connections, and so threads: what anybody on the machine can make us have."""
MOST_KEPT = 16
"""So many are kept between requests; whoever comes beyond that is answered, and left."""
PAUSE_SECONDS = 0.1
"""How long nobody is let in where nobody else has left."""


class OpenConnections:
    """Each is waiting for a whole request, answered, or idle between two requests.

    Where there is no room the longest waiting gives way: a scraper sends its request at
    once, so that slow readers put out each other. Never one that is answered, which has
    its deadline; nor an idle one: that is the scraper's, and ``MOST_KEPT`` leave room.
    """

    def __init__(self) -> None:
        self._open: set[socket.socket] = set()
        self._waiting: dict[socket.socket, None] = {}  # the longest waiting first
        self._idle: set[socket.socket] = set()
        self._kept: set[socket.socket] = set()
        self._changed = threading.Condition()
        self._closed = False

    def has_room(self) -> bool:
        """Whether one more may come; where there was none, somebody may give way."""
        with self._changed:
            if len(self._open) >= MOST_OPEN:
                self.make_room()
            return len(self._open) < MOST_OPEN

    def make_room(self) -> None:
        """End the longest waiting, and wait for somebody to leave, but not for long."""
        with self._changed:
            for connection in tuple(self._waiting)[:1]:
                del self._waiting[connection]
                _end(connection)
            self._changed.wait(PAUSE_SECONDS)

    def enter(self, connection: socket.socket) -> None:
        """One more, that waits for its first request."""
        with self._changed:
            self._open.add(connection)
            self._waiting[connection] = None

    def leave(self, connection: socket.socket) -> None:
        """One that is about to be closed."""
        with self._changed:
            self._waiting.pop(connection, None)
            self._kept.discard(connection)
            self._open.discard(connection)
            self._changed.notify()

    def answer(self, connection: socket.socket) -> bool:
        """Its request is whole; returns whether it may be kept after the answer."""
        with self._changed:
            self._waiting.pop(connection, None)
            if len(self._kept) < MOST_KEPT:
                self._kept.add(connection)
            return connection in self._kept

    @contextlib.contextmanager
    def idle(self, connection: socket.socket) -> Generator[bool]:
        """Whether to wait for the next request on ``connection``; done so in here."""
        with self._changed:
            if not self._closed:
                self._idle.add(connection)
        try:
            yield not self._closed
        finally:
            with self._changed:
                self._idle.discard(connection)
                self._waiting[connection] = None

    def close(self) -> None:
        """End the idle ones; the others end with the answer that is under way."""
        with self._changed:
            self._closed = True
            for connection in self._idle:
                _end(connection)


def _end(connection: socket.socket) -> None:
    """Its thread finds it ended, and closes it."""
    with contextlib.suppress(OSError):  # its reader was faster
        # Not TLS' own, which is not for another thread to do.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
