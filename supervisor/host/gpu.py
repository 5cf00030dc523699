"""Watching the GPUs: the probe process, the kernel log, and what they said last.

A thread of its own feeds ``core.probe`` and performs what it decides. Nobody else ever
waits for the driver: ``latest`` hands out a value that is there.
"""

import contextlib
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.gpu import Absent, Gpu, GpuSample, with_lost
from supervisor.core.gpu_line import parse_line
from supervisor.core.probe import (
    Backfill,
    Effect,
    Ended,
    Event,
    Heard,
    Kill,
    Limits,
    Mode,
    Nothing,
    Probe,
    Say,
    Start,
    Tick,
    step,
)
from supervisor.core.xids import XidLog, heard, parse_xid
from supervisor.host.clock import Clock
from supervisor.host.kernel import JournalQuestion, KernelLine, KernelLog
from supervisor.host.piped import Piped, wait_for

LINE_BYTES = 1024 * 1024
"""Longer lines are nothing that the probe writes."""
KERNEL_LINES = 2000
"""Kept of the newest, for the evidence about an attempt."""
USERS = 1000
"""Processes remembered of a GPU."""
STALE_SECONDS = 15.0
"""A sample older than this is no longer what is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuView:
    """What is known right now."""

    sample: GpuSample | None = None
    """None: there has been none."""
    xids: XidLog = field(default_factory=XidLog)
    kernel: tuple[KernelLine, ...] = ()
    """The newest lines of the kernel log, as far as it can be read."""
    kernel_readable: bool = False
    users: Mapping[str, frozenset[int]] = field(
        default_factory=dict[str, frozenset[int]]
    )
    """Every process that was lately seen on a GPU, by its UUID. A GPU whose processes
    the driver never listed is not among them."""
    mode: Mode = Mode.RESTING
    problem: str = ""
    reboot: bool = False
    """The driver hangs beyond help: only a reboot brings its GPUs back."""

    @property
    def absent(self) -> bool:
        """Whether there is no NVML on this machine."""
        return self.mode is Mode.ABSENT

    def fresh(self, now: float) -> GpuSample | None:
        """The sample, if it is from now (monotonic seconds)."""
        sample = self.sample
        if sample is None or now - sample.taken > STALE_SECONDS:
            return None
        return sample


def probe_command(*, interval_seconds: float) -> list[str]:
    """How the probe is started."""
    return [
        sys.executable,
        "-m",
        "supervisor.host.gpu_probe",
        str(interval_seconds),
    ]


class GpuWatch:
    """Watches from ``start`` to ``close``."""

    def __init__(
        self,
        *,
        say: Callable[[str], None],
        clock: Clock | None = None,
        interval_seconds: float = 1.0,
        limits: Limits | None = None,
        environment: Mapping[str, str] | None = None,
        kernel: KernelLog | None = None,
    ) -> None:
        """``say`` is called from another thread; ``environment`` is the probe's."""
        self._say = say
        self._clock = clock or Clock()
        self._command = probe_command(interval_seconds=interval_seconds)
        self._environment = environment
        self._probe = Probe(limits=limits or Limits())
        self._kernel = kernel or KernelLog()
        self._running: Piped | None = None
        self._unread = b""
        self._question: JournalQuestion | None = None
        self._known: dict[str, Gpu] = {}
        self._users: dict[str, dict[int, None]] = {}
        self._view = GpuView(kernel_readable=self._kernel.readable)
        self._inbox: deque[Event] = deque()
        self._changing = threading.RLock()
        self._closing = threading.Event()
        self._wake, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._watch, name="gpus", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def latest(self) -> GpuView:
        """What is known right now; never waits."""
        return self._view

    def refresh(self) -> GpuView:
        """The view with what the kernel has logged up to now; never waits for a driver:
        whoever ends by an Xid may be seen to end before the Xid is read."""
        self._read_kernel()
        return self._view

    def close(self) -> None:
        """Stop watching; a probe that cannot be killed is left behind."""
        self._closing.set()
        os.write(self._waker, b"x")
        self._thread.join(timeout=10.0)
        if not self._thread.is_alive():
            os.close(self._wake)
            os.close(self._waker)

    def _watch(self) -> None:
        while not self._closing.is_set():
            self._inbox.append(Tick())
            while self._inbox:
                self._happen(self._inbox.popleft())
            self._publish()
            self._listen()
        self._end()

    def _happen(self, event: Event) -> None:
        self._probe, effects = step(self._probe, event, now=self._clock.now())
        for effect in effects:
            self._perform(effect)

    def _listen(self) -> None:
        """Until something comes, or for a moment."""
        sources = [self._wake]
        running = self._running
        if running is not None:
            sources += [running.output, running.exit]
        idle = self._probe.mode is Mode.ABSENT and not self._kernel.readable
        ready = wait_for(sources, seconds=5.0 if idle else 0.5)
        if running is not None and ready:
            self._read(running)
        self._read_kernel()

    def _read(self, running: Piped) -> None:
        status = running.status()
        chunk, _ = running.read()
        *lines, rest = (self._unread + chunk).split(b"\n")
        self._unread = rest[:LINE_BYTES]
        for line in lines:
            self._take(line)
        if status is not None:
            running.close(wait_seconds=0.0)
            self._running, self._unread = None, b""
            self._inbox.append(Ended(f"its exit status was {status}."))

    def _take(self, line: bytes) -> None:
        said = parse_line(line)
        if isinstance(said, Absent):
            self._inbox.append(Nothing(said.because))
        elif said is not None:
            self._show(said)
            self._inbox.append(Heard())

    def _show(self, said: GpuSample) -> None:
        sample, self._known = with_lost(said, self._known)
        with self._changing:
            xids = heard(
                self._view.xids, sample.xids, source="nvml", gpus=self._known.values()
            )
            self._view = replace(
                self._view, sample=sample, xids=xids, users=self._remember(sample)
            )

    def _remember(self, sample: GpuSample) -> dict[str, frozenset[int]]:
        """Who was on which GPU: an Xid may be told after its cause has ended."""
        for gpu in sample.gpus:
            if gpu.processes is None:  # not told, which is not the same as none
                continue
            users = self._users.setdefault(gpu.uuid, {})
            for process in gpu.processes:
                users[process.pid] = users.pop(process.pid, None)
            for pid in list(users)[:-USERS]:
                del users[pid]
        return {uuid: frozenset(users) for uuid, users in self._users.items()}

    def _read_kernel(self) -> None:
        with self._changing:
            lines = self._kernel.poll()
            if self._question is not None:
                answer = self._question.poll()
                if answer is not None:
                    self._question = None
                    lines = answer
            if lines:
                self._note(lines)

    def _note(self, lines: list[KernelLine]) -> None:
        found = [parse_xid(line.text, at=line.at) for line in lines]
        xids = heard(
            self._view.xids,
            [xid for xid in found if xid is not None],
            source="kernel",
            gpus=list(self._known.values()),
        )
        kernel = (*self._view.kernel, *lines)[-KERNEL_LINES:]
        self._view = replace(self._view, xids=xids, kernel=kernel)

    def _publish(self) -> None:
        probe = self._probe
        with self._changing:
            self._view = replace(
                self._view,
                mode=probe.mode,
                problem=probe.problem,
                reboot=probe.mode is Mode.STUCK,
            )

    def _perform(self, effect: Effect) -> None:
        match effect:
            case Start():
                self._start_probe()
            case Kill():
                if self._running is not None:
                    self._running.kill()
            case Say(text=text):
                self._say(text)
            case Backfill(since=since):
                self._backfill(since)

    def _start_probe(self) -> None:
        try:
            self._running = Piped(self._command, environment=self._environment)
        except OSError as error:
            self._inbox.append(Ended(error.strerror or str(error)))

    def _backfill(self, since: float) -> None:
        """Ask the journal; needless where the kernel log itself is followed."""
        if self._kernel.readable or self._question is not None:
            return
        with self._changing, contextlib.suppress(OSError):  # no journal: nobody knows
            self._question = JournalQuestion(since=since)

    def _end(self) -> None:
        if self._running is not None:
            self._running.close(wait_seconds=self._probe.limits.kill_seconds)
        with self._changing:
            if self._question is not None:
                self._question.close()
            self._kernel.close()
