"""Subscribers of the service that keeps the GPU probe: any number, none awaited."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

MOST_READERS = 16
"""At a time; more are cut off at once."""
MOST_BEHIND = 4 * 1024 * 1024
"""Bytes that wait for a reader; one that is further behind is cut off."""
OWNER_AND_GROUP = 0o117
"""The umask under which a socket becomes 0660."""


@dataclass(slots=True)
class _Reader:
    channel: socket.socket
    behind: bytearray = field(default_factory=bytearray)

    def flush(self) -> bool:
        """Hand over what it takes now; False: it is gone, or too far behind."""
        try:
            while self.behind:
                del self.behind[: self.channel.send(self.behind)]
        except BlockingIOError:
            return len(self.behind) <= MOST_BEHIND
        except OSError:
            return False
        return True


class Subscribers:
    """Listens at ``path`` from its making to ``close``."""

    def __init__(self, path: Path) -> None:
        """Replace what a dead service left there. Raises OSError."""
        self._path = path
        self._readers: list[_Reader] = []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        before = os.umask(OWNER_AND_GROUP)
        try:
            self._listener.bind(str(path))
        finally:
            os.umask(before)
        self._listener.listen(MOST_READERS)
        self._listener.settimeout(0.0)

    @property
    def descriptors(self) -> list[int]:
        """What becomes readable when somebody comes or goes."""
        return [
            self._listener.fileno(),
            *(reader.channel.fileno() for reader in self._readers),
        ]

    def __len__(self) -> int:
        return len(self._readers)

    def meet(self, welcome: Callable[[], bytes]) -> None:
        """Let in who has come, with ``welcome``; let go who has gone."""
        for reader in list(self._readers):
            if _has_gone(reader):
                self._cut(reader)
        while (channel := self._next()) is not None:
            reader = _Reader(channel)
            self._readers.append(reader)
            self._tell(reader, welcome())
            if len(self._readers) > MOST_READERS:
                self._cut(reader)

    def tell(self, line: bytes) -> None:
        """``line`` to everybody."""
        for reader in list(self._readers):
            self._tell(reader, line)

    def cut(self) -> None:
        """Let everybody go: what they were told last holds no more."""
        for reader in list(self._readers):
            self._cut(reader)

    def close(self) -> None:
        """Let everybody go, after what they were told, and listen no more."""
        self.cut()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _next(self) -> socket.socket | None:
        try:
            channel, _ = self._listener.accept()
        except OSError:
            return None
        channel.settimeout(0.0)
        return channel

    def _tell(self, reader: _Reader, text: bytes) -> None:
        reader.behind += text
        if not reader.flush():
            self._cut(reader)

    def _cut(self, reader: _Reader) -> None:
        if reader in self._readers:
            self._readers.remove(reader)
            reader.channel.close()


def _has_gone(reader: _Reader) -> bool:
    """Whether it hung up; one that speaks has no business here either."""
    try:
        reader.channel.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
