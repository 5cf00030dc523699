"""Processes that carry the marker of a run in their environment.

The kernel reads an environment out of the memory of its process (proc(5)), and waits with
that for whoever has its mappings locked: for ever, where that one waits for a driver that
hangs. So a thread reads, whoever wants to know waits for a moment only, and a process is
passed over as long as it does not answer. psutil's ``environ`` costs 6 times as much
(``make bench-processes``), and there are as many to read as the machine has processes.
"""

import errno
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from supervisor.host.process.proc_files import PROC, name_of, stat
from supervisor.wire.messages.directive import MARKER

MOMENT_SECONDS = 0.02
"""So long the loop may wait: an environment takes 6 µs, more on a busy machine."""
SILENT_SECONDS = 2.0
"""A process whose environment takes longer does not answer."""
KNOWN_SECONDS = 5.0
"""What a search has found is believed for so long: whoever asks does it again and again."""

NAME = f"{MARKER}=".encode()


def marker_of(run_id: str, attempt: int | None = None) -> bytes:
    """What the processes of a run, or of one attempt, carry."""
    number = "" if attempt is None else f"{attempt}\0"
    return f"{MARKER}={run_id}/{number}".encode()


@dataclass(frozen=True, slots=True)
class Carrier:
    """A process that carries a marker."""

    name: str
    """Of its command."""
    started_ticks: int
    """Since boot: with the pid, which process this is."""
    marker: bytes
    """Of the run and the attempt."""


@dataclass(slots=True)
class _Search:
    """One look at every process; its thread alone writes here until it has ended."""

    proc: Path
    passed_over: frozenset[int]
    began: float = field(default_factory=time.monotonic)
    whole: bool = False
    """All have been asked."""
    found: dict[int, Carrier] = field(default_factory=dict[int, Carrier])
    problem: OSError | None = None
    asks: tuple[int, float] | None = None
    """A process, and since when it is asked (monotonic seconds)."""
    given_up: bool = False
    """Nobody waits for this any more."""
    thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(
            target=self._work, name="environments", daemon=True
        )

    def _work(self) -> None:
        try:
            for pid in self._others():
                if self.given_up:
                    return
                self._ask(pid)
            self.whole = True
        except OSError as error:
            self.problem = error

    def _others(self) -> Iterator[int]:
        pids = (int(name) for name in os.listdir(self.proc) if name.isdigit())  # noqa: PTH208  # a third of iterdir's time
        return (pid for pid in pids if pid not in self.passed_over)

    def _ask(self, pid: int) -> None:
        self.asks = (pid, time.monotonic())
        try:
            environment = (self.proc / str(pid) / "environ").read_bytes()
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE, errno.ENOMEM}:
                raise
            return  # gone, or not ours to read, and so not ours
        entries = environment.split(b"\0")
        marker = next((one for one in entries if one.startswith(NAME)), None)
        known = None if marker is None else stat(pid)
        if marker is not None and known is not None:
            name, began = name_of(pid), known.started_ticks
            self.found[pid] = Carrier(name, began, marker + b"\0")

    def silent(self, seconds: float) -> int | None:
        """The process that has not answered for so long."""
        asks = self.asks
        if asks is None or not self.thread.is_alive():
            return None
        return asks[0] if time.monotonic() - asks[1] >= seconds else None


class MarkerScan:
    """Those of the processes of the machine; for one thread."""

    def __init__(
        self, *, proc: Path = PROC, silent_seconds: float = SILENT_SECONDS
    ) -> None:
        self._proc = proc
        self._silent_seconds = silent_seconds
        self._silent: dict[int, _Search] = {}
        """Who does not answer, with the search that still waits for it."""
        self._search: _Search | None = None
        """The newest."""
        self._spared: set[bytes] = set()
        self._asked: dict[bytes, tuple[float, float]] = {}
        """Since when a marker is asked for, and when it was last (monotonic seconds)."""

    def carriers(
        self, marker: bytes, *, wait_seconds: float = MOMENT_SECONDS
    ) -> dict[int, Carrier] | None:
        """Processes that carry ``marker``, by pid, but not this one, as they are now or
        were after this was first asked; None: not known yet, ask again soon.

        The second opinion of whoever ended an attempt: a shim sweeps what it can see, this
        finds what outlived the shim itself. What may not be read is not ours.

        Raises:
            OSError: nobody can be asked now.
        """
        now = time.monotonic()
        since, last = self._asked.get(marker, (now, now))
        since = since if now - last <= KNOWN_SECONDS else now
        asked = {**self._asked, marker: (since, now)}
        self._asked = {
            one: times
            for one, times in asked.items()
            if now - times[1] <= KNOWN_SECONDS
        }
        found = self._found_since(since, until=now + wait_seconds)
        if found is None:
            return None
        del self._asked[marker]
        return {
            pid: one
            for pid, one in found.items()
            if one.marker.startswith(marker) and one.marker not in self._spared
        }

    def spare(self, marker: bytes, *, spared: bool) -> None:
        """Whether processes that carry ``marker`` are passed over: they are none of an
        attempt yet."""
        (self._spared.add if spared else self._spared.discard)(marker)

    def wait_for(self, marker: bytes) -> dict[int, Carrier]:
        """As ``carriers``, for who can wait: some milliseconds, and seconds for each
        process that begins to be silent. Raises OSError as that does."""
        while True:
            found = self.carriers(marker)
            if found is not None:
                return found

    def _found_since(self, since: float, *, until: float) -> dict[int, Carrier] | None:
        """What a search found that began then or later; None: there is none yet."""
        while True:
            search = self._current(since)
            search.thread.join(max(until - time.monotonic(), 0.0))
            if search.thread.is_alive():
                return None
            if not search.whole:
                self._search = None
                raise search.problem or OSError(errno.EIO, "the search was broken off")
            if search.began >= since:
                return search.found

    def _current(self, since: float) -> _Search:
        """The search to wait for: there is one at a time, whoever asks."""
        search = self._search
        if search is None:
            return self._begun()
        silent = search.silent(self._silent_seconds)
        if silent is not None:
            self._silent[silent] = search
            search.given_up = True
            search.thread.join(MOMENT_SECONDS)  # all of us may just have been woken up
            return self._begun()
        over = not search.thread.is_alive()
        return self._begun() if over and search.began < since else search

    def _begun(self) -> _Search:
        waits = {pid: one for pid, one in self._silent.items() if one.thread.is_alive()}
        self._silent = waits
        self._search = search = _Search(self._proc, frozenset({os.getpid(), *waits}))
        try:
            search.thread.start()
        except RuntimeError as error:  # as the limit on threads is reached
            self._search = None
            raise OSError(errno.EAGAIN, str(error)) from error
        return search
