"""A standby: the process of the next attempt, from its early start until it is that or ends.

Nobody of those who watch training knows it: its files lie in a directory of their own, which
becomes the attempt's when the process does, and its marker is spared by whoever looks for
what is left of attempts (``MarkerScan``).
"""

import contextlib
import json
import shutil
import signal
import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from typing_extensions import override

from supervisor.core.text.plain import plain
from supervisor.host.process.cgroup import oom_kills
from supervisor.host.process.child_process import Child, wait_for
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.standby_messages import MOST_BYTES, StandbyAnswer

MEMORY_MOST = 1 << 50
"""Bytes that it may say it takes: no machine has as many."""
BECAUSE_MOST = 500
"""Characters of what it says: it may be another user's."""
END_SECONDS = 5.0
"""From SIGTERM until SIGKILL."""


@dataclass(kw_only=True)
class StandbyProcess(ABC):
    """One of them."""

    expected: Directive
    """What its attempt was to be told when it was started."""
    environment: dict[str, str]
    """What it was started with."""
    answer: StandbyAnswer | None = None
    """None: it still imports."""
    _text: bytearray = field(default_factory=bytearray)

    @property
    @abstractmethod
    def in_the_way(self) -> bool:
        """Whether its attempt cannot start cold before it has ended."""

    @property
    @abstractmethod
    def has_seen_oom_kills(self) -> bool:
        """Whether the kernel has killed for memory since, where it is: those would count
        as kills of its attempt."""

    def look(self) -> StandbyAnswer | None:
        """What it has answered so far. Whoever does not look may not see that it ended."""
        said = self._heard()
        if self.answer is None:
            self._text += said
            if len(self._text) > MOST_BYTES or self._text.endswith(b"\n"):
                self.answer = _answer(bytes(self._text))
        return self.answer

    @abstractmethod
    def _heard(self) -> bytes:
        """What it has said since; empty: nothing."""

    @abstractmethod
    def ended(self) -> bool:
        """Whether it is gone."""

    @abstractmethod
    def ask_end(self) -> None:
        """Let it end: by a signal, and by the end of what it listens to."""

    @abstractmethod
    def kill(self) -> None:
        """End it at once: it has nothing to save."""

    @abstractmethod
    def wait_for_end(self, seconds: float) -> bool:
        """Whether it is gone within ``seconds``."""

    @abstractmethod
    def clear(self) -> None:
        """It has ended: leave nothing of it."""


@dataclass(kw_only=True)
class DirectStandby(StandbyProcess):
    """A child of ours. ``directory``: where its files lie."""

    directory: Path
    shim: Child
    channel: socket.socket
    oom_kills_before: int | None = field(default_factory=oom_kills)

    @property
    @override
    def in_the_way(self) -> bool:
        return False

    @property
    @override
    def has_seen_oom_kills(self) -> bool:
        return oom_kills() != self.oom_kills_before

    @override
    def _heard(self) -> bytes:
        with contextlib.suppress(OSError):
            return self.channel.recv(MOST_BYTES)
        return b""

    @override
    def ended(self) -> bool:
        return self.shim.ended()

    @override
    def ask_end(self) -> None:
        self.shim.send(signal.SIGTERM)
        self.channel.close()

    @override
    def kill(self) -> None:
        self.shim.send(signal.SIGKILL)  # and what it watches with it

    @override
    def wait_for_end(self, seconds: float) -> bool:
        return bool(wait_for([self.shim.descriptor], seconds=seconds))

    @override
    def clear(self) -> None:
        self.shim.ended()  # reaped
        self.shim.close()
        self.channel.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _answer(text: bytes) -> StandbyAnswer:
    try:
        value: Any = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    found = None if given is None else StandbyAnswer.from_json(given)
    if found is None:
        return StandbyAnswer(because="what it answers cannot be read")
    because = " ".join(plain(found.because).split())[:BECAUSE_MOST]
    size = min(max(found.memory_bytes, 0), MEMORY_MOST)
    return replace(found, because=because, memory_bytes=size)
