"""The stacks of all threads of a process that hangs, before it is killed.

Python's own from faulthandler: its handler runs on a signal whatever the interpreter
does (``trainers.process.signals``). Native frames from py-spy, where it is installed and may look
into the process; a supervisor without it only has the former.
"""

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from supervisor.host.process.child_process import Piped
from supervisor.wire.files import open_regular
from supervisor.wire.paths import AttemptPaths

MOST_SECONDS = 10.0
"""py-spy stops the process while it looks, and may itself hang with it."""
SETTLED_SECONDS = 0.5
"""After so long without a further line faulthandler is done."""
MOST_CHARACTERS = 48 * 1024


class Stacks:
    """One taking of stacks; never waits."""

    def __init__(
        self, paths: AttemptPaths, pid: int, *, now: float, ask: Callable[[], bool]
    ) -> None:
        """``ask`` for them; False: nobody is there. ``now`` in monotonic seconds."""
        self._fault = paths.fault
        self._began, self._grown_at = now, now
        self._offset = self._size = _size(self._fault)
        self._native = b""
        self._spy = _spy(pid)
        if not ask():
            self._began = now - MOST_SECONDS

    def taken(self, *, now: float) -> bool:
        """Whether all that can be had is there."""
        size = _size(self._fault)
        if size != self._size:
            self._size, self._grown_at = size, now
        if now - self._began >= MOST_SECONDS:
            self._end_spy()
            return True
        told = size > self._offset and now - self._grown_at >= SETTLED_SECONDS
        return told and self._spied()

    def _spied(self) -> bool:
        if self._spy is None:
            return True
        read, over = self._spy.read()
        self._native += read
        if over:
            self._end_spy()
        return over

    def _end_spy(self) -> None:
        if self._spy is not None:
            self._spy.close(wait_seconds=1.0)
            self._spy = None

    @property
    def text(self) -> str:
        """What was taken; empty: nothing could be."""
        parts: list[str] = []
        if self._native.strip():
            spied = self._native.decode(errors="replace").strip()
            parts.append(f"With native frames (py-spy):\n{spied}")
        try:
            with open_regular(self._fault) as file:  # its owner may lay a trap there
                file.seek(self._offset)
                python = file.read(MOST_CHARACTERS).decode(errors="replace").strip()
        except OSError:
            python = ""
        if python:
            parts.insert(0, f"Python (faulthandler):\n{python}")
        return "\n\n".join(part[:MOST_CHARACTERS] for part in parts)


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _spy(pid: int) -> Piped | None:
    beside = Path(sys.executable).with_name("py-spy")
    program = str(beside) if beside.exists() else shutil.which("py-spy")
    if program is None:
        return None
    try:
        return Piped([program, "dump", "--native", "--pid", str(pid)])
    except OSError:
        return None
