"""What one caller of the control socket may use up: connections."""

import contextlib
import socket
import threading
from collections import Counter

MOST_OF_A_USER = 32
MOST_CONNECTIONS = 256
"""At a time. Each has a thread and a descriptor: nobody may use up those of the daemon.
The users of the box have their own; root finds room when all of it is taken."""
_BUSY = b'{"error": "too many connections at a time"}\n'


class ConnectionBudget:
    """Who is connected."""

    def __init__(self) -> None:
        self._open = Counter[int]()
        self._lock = threading.Lock()

    def enter(self, uid: int) -> bool:
        """One more of a user's; False: there are too many."""
        with self._lock:
            full = self._open.total() >= MOST_CONNECTIONS and uid != 0
            if full or self._open[uid] >= MOST_OF_A_USER:
                return False
            self._open[uid] += 1
            return True

    def leave(self, uid: int) -> None:
        """One less."""
        with self._lock:
            self._open[uid] -= 1
            if not self._open[uid]:
                del self._open[uid]


def turn_away(channel: socket.socket) -> None:
    """Too many at a time; whoever does not take the answer goes without."""
    head = (
        "HTTP/1.1 503 Busy\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(_BUSY)}\r\n\r\n"
    )
    with contextlib.suppress(OSError):
        channel.settimeout(0.0)
        channel.send(head.encode() + _BUSY)
