"""Text for people and programs, written without ever waiting for who reads it.

A pipe that nobody empties, a terminal stopped with Ctrl-S or a journal that hangs would
hold whoever writes to it, and with it everything that is supervised.
"""

import os
import select
import threading
from collections.abc import Callable

BLOCK_BYTES = select.PIPE_BUF
"""What a pipe that says it is writable takes without blocking: pipe(7)."""
MOST_BYTES = 1 << 20
"""How much waits for a reader, as long as nobody reads."""
GAP = "lines are left out here: nobody read them"


def left_out() -> str:
    """``GAP`` as a plain line."""
    return f"({GAP})"


class NonblockingWriter:
    """Writes to ``descriptor`` what is taken there at once; the rest with the next
    words, or with ``finish``. Of more than ``most`` bytes the oldest lines are left out,
    and ``gap`` says so in their place."""

    encoding = "utf-8"

    def __init__(
        self,
        descriptor: int,
        *,
        most: int = MOST_BYTES,
        gap: Callable[[], str] = left_out,
    ) -> None:
        self._descriptor = descriptor
        self._most = most
        self._gap = gap
        self._left = bytearray()
        self._lock = threading.Lock()

    def write(self, text: str) -> int:
        """Take ``text``; never waits. Raises OSError, such as when nobody can read it
        any more."""
        with self._lock:
            self._left += text.encode(errors="replace")
            self._push(wait=False)
            if len(self._left) > self._most:
                self._shorten()
        return len(text)

    def flush(self) -> None:
        """Nothing: what can be written is."""

    def finish(self) -> None:
        """Wait until everything is read. Raises OSError."""
        with self._lock:
            self._push(wait=True)

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._descriptor)

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def _push(self, *, wait: bool) -> None:
        poll = select.poll()
        poll.register(self._descriptor, select.POLLOUT)
        while self._left and poll.poll(None if wait else 0):
            try:
                written = os.write(self._descriptor, self._left[:BLOCK_BYTES])
            except BlockingIOError:
                continue  # another writer was faster
            except OSError:
                self._left.clear()
                raise
            del self._left[:written]

    def _shorten(self) -> None:
        """Leave the oldest half out, but for a line of which a part may be written."""
        begun = self._left.find(b"\n") + 1
        until = self._left.find(b"\n", max(len(self._left) // 2, begun)) + 1
        self._left[begun : until or None] = f"{self._gap()}\n".encode()
