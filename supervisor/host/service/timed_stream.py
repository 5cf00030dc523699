"""A connection's bytes, all of which have to come and go by one deadline."""

import io
import socket
import time
from typing import Any

from typing_extensions import override


class TimedStream(io.RawIOBase):
    """Reads and writes ``channel`` until ``deadline``; TimeoutError from then on.

    A time limit of the socket alone is one for each read: a byte now and then would put
    the end off for ever.
    """

    def __init__(self, channel: socket.socket, *, deadline: float = 0.0) -> None:
        self._channel = channel
        self.deadline = deadline
        """Monotonic seconds."""

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any, /) -> int:
        self._limit()
        return self._channel.recv_into(buffer)

    @override
    def write(self, content: Any, /) -> int:
        """All of it: a TLS connection's ``sendall`` would begin its time anew."""
        sent = 0
        while sent < len(content):
            self._limit()
            sent += self._channel.send(memoryview(content)[sent:])
        return sent

    def _limit(self) -> None:
        left = self.deadline - time.monotonic()
        if left <= 0.0:
            raise TimeoutError
        self._channel.settimeout(left)
