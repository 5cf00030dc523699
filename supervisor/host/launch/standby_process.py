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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from supervisor.host.process.cgroup import oom_kills
from supervisor.host.process.child_process import Child, wait_for
from supervisor.wire.messages.directive import Directive
from supervisor.wire.messages.standby_messages import MOST_BYTES, StandbyAnswer

END_SECONDS = 5.0
"""From SIGTERM until it is gone, with what it may have started."""


@dataclass(kw_only=True)
class StandbyProcess:
    """One of them. ``directory``: where its files lie."""

    expected: Directive
    """What its attempt was to be told when it was started."""
    directory: Path
    shim: Child
    channel: socket.socket
    environment: dict[str, str]
    """What it was started with."""
    answer: StandbyAnswer | None = None
    """None: it still imports."""
    oom_kills_before: int | None = field(default_factory=oom_kills)
    _text: bytearray = field(default_factory=bytearray)

    @property
    def has_seen_oom_kills(self) -> bool:
        """Whether the kernel has killed for memory since: they would count as those of
        its attempt."""
        return oom_kills() != self.oom_kills_before

    def look(self) -> StandbyAnswer | None:
        """What it has answered so far."""
        with contextlib.suppress(OSError):
            self._text += self.channel.recv(MOST_BYTES)
        if self.answer is None and self._text.endswith(b"\n"):
            self.answer = _answer(bytes(self._text))
        return self.answer

    def ended(self) -> bool:
        """Whether it is gone."""
        return self.shim.ended()

    def ask_end(self) -> None:
        """Let it end: by a signal, and by the end of what it listens to."""
        self.shim.send(signal.SIGTERM)
        self.channel.close()

    def wait_for_end(self) -> None:
        """For a moment; who has not ended by then is killed."""
        if not wait_for([self.shim.descriptor], seconds=END_SECONDS):
            self.shim.send(signal.SIGKILL)  # and what it watches with it
            wait_for([self.shim.descriptor], seconds=END_SECONDS)

    def clear(self) -> None:
        """It has ended: leave nothing of it."""
        self.shim.ended()  # reaped
        self.shim.close()
        self.channel.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def _answer(text: bytes) -> StandbyAnswer:
    try:
        value: Any = json.loads(text)
    except ValueError:
        value = None
    given = cast("dict[str, Any]", value) if isinstance(value, dict) else None
    found = None if given is None else StandbyAnswer.from_json(given)
    return found or StandbyAnswer(because="what it answers cannot be read")
