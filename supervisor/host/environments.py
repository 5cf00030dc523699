"""Processes that carry the marker of a run in their environment.

The kernel reads an environment out of the memory of its process (proc(5)), and waits with
that for whoever has its mappings locked: for ever, where that one waits for a driver that
hangs. So a thread reads, its reader waits for a moment only, and a process that did not
answer is passed over from then on.
"""

import contextlib
import os
import threading
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.host.proc import PROC, name_of, stat
from supervisor.wire.directive import MARKER

MOMENT_SECONDS = 0.1
"""So long the loop may wait at the most. Usually all have answered much sooner: each takes
6 µs, and this is only asked before an attempt."""
SILENT_SECONDS = 2.0
"""A process whose environment takes longer does not answer."""


def marker_of(run_id: str, attempt: int | None = None) -> bytes:
    """What the processes of a run, or of one attempt, carry."""
    number = "" if attempt is None else f"{attempt}\0"
    return f"{MARKER}={run_id}/{number}".encode()


@dataclass(slots=True)
class _Search:
    """One look at every process; its thread alone writes here until it has ended."""

    marker: bytes
    proc: Path
    passed_over: Collection[int]
    found: dict[int, str] = field(default_factory=dict[int, str])
    """Command names, by pid."""
    at: tuple[int, float] | None = None
    """Which process is asked, and since when (monotonic seconds)."""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(
            target=self._read, name="environments", daemon=True
        )

    def _read(self) -> None:
        for name in os.listdir(self.proc):  # noqa: PTH208  # a third of iterdir's time
            if not name.isdigit() or int(name) in self.passed_over:
                continue
            pid = int(name)
            self.at = (pid, time.monotonic())
            with contextlib.suppress(OSError):  # gone, or not ours to read
                if self.marker in (self.proc / name / "environ").read_bytes():
                    self.found[pid] = name_of(pid)

    def silent(self, seconds: float) -> int | None:
        """The process that has not answered for so long."""
        if self.at is None or time.monotonic() - self.at[1] < seconds:
            return None
        return self.at[0]


class Environments:
    """Those of the processes of the machine; for one thread."""

    def __init__(
        self, *, proc: Path = PROC, silent_seconds: float = SILENT_SECONDS
    ) -> None:
        self._proc = proc
        self._silent_seconds = silent_seconds
        self._silent: dict[int, int | None] = {}
        """Who did not answer: when each started (ticks since boot), by its pid."""
        self._searches: dict[bytes, _Search] = {}

    def carriers(
        self, marker: bytes, *, wait_seconds: float = MOMENT_SECONDS
    ) -> dict[int, str] | None:
        """Processes that carry ``marker``, with their command names, but not this one;
        None: not known yet, ask again.

        The second opinion of whoever ended an attempt: a shim sweeps what it can see, this
        finds what outlived the shim itself. What may not be read is not ours.
        """
        search = self._searches.pop(marker, None) or self._begun(marker)
        silent = search.silent(self._silent_seconds)
        if silent is not None and search.thread.is_alive():
            self._silent[silent] = _started(silent)
            search = self._begun(marker)
        search.thread.join(wait_seconds)
        if search.thread.is_alive():
            self._searches[marker] = search
            return None
        return search.found

    def wait_for(self, marker: bytes) -> dict[int, str]:
        """As ``carriers``, for who can wait: some milliseconds, and seconds for each
        process that does not answer, once."""
        while True:
            found = self.carriers(marker, wait_seconds=self._silent_seconds)
            if found is not None:
                return found

    def _begun(self, marker: bytes) -> _Search:
        known = self._silent.items()
        self._silent = {pid: began for pid, began in known if _started(pid) == began}
        search = _Search(marker, self._proc, {os.getpid(), *self._silent})
        search.thread.start()
        return search


def _started(pid: int) -> int | None:
    known = stat(pid)
    return None if known is None else known.started_ticks
