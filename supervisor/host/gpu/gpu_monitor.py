"""The GPU monitor: the probe, the kernel log, and what they said last.

A thread of its own listens to the probe, which is a child of ours or kept by a service
(``host.gpu.probe_runner``). Nobody else ever waits for the driver: ``latest`` hands out a
value that is there.
"""

import contextlib
import math
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from supervisor.core.gpu.gpu_readings import (
    Gpu,
    GpuSample,
    KernelLine,
    Logged,
    with_lost,
)
from supervisor.core.gpu.probe_supervision import Limits, Mode, ProbeSupervision
from supervisor.core.gpu.xids import XidLog, heard, parse_xid
from supervisor.host.gpu.kernel_log import JournalQuestion, KernelLog
from supervisor.host.gpu.probe_runner import ProbeRunner
from supervisor.host.gpu.probe_sources import (
    LINK_LIMITS,
    ChildSource,
    ProbeSource,
    linked,
)
from supervisor.host.process.child_process import wait_for
from supervisor.host.service.clock import Clock

LISTEN_SECONDS = 1.5
"""From one look at the kernel log to the next, while nothing is due: longer than from one
sample to the next, so that there usually is one look a sample."""
IDLE_SECONDS = 5.0
"""... where there is neither a driver nor a kernel log that may be read."""
ANSWER_SECONDS = 0.5
"""... while the journal is asked."""
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


class GpuMonitor:
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
        link: Path | None = None,
        known: Iterable[Gpu] = (),
    ) -> None:
        """``say`` is called from another thread. ``link``: the socket of the service
        that keeps the probe; None: it is a child of ours, in ``environment``. ``known``:
        GPUs that were there before: one that the driver does not name is lost."""

        def begin() -> ProbeSource:
            if link is not None:
                return linked(link)
            return ChildSource(
                interval_seconds=interval_seconds, environment=environment
            )

        usual = Limits() if link is None else LINK_LIMITS
        self._clock = clock or Clock()
        self._running = ProbeRunner(
            begin=begin,
            heed=self._heed,
            say=say,
            clock=self._clock,
            probe=ProbeSupervision(limits=limits or usual),
            missed=self._backfill,
        )
        self._kernel = kernel or KernelLog()
        self._relayed = False
        # Up to when everything was heard of, in monotonic seconds.
        self._xids_to = self._kernel_to = -math.inf
        self._question: JournalQuestion | None = None
        self._known: dict[str, Gpu] = {gpu.uuid: gpu for gpu in known}
        self._users: dict[str, dict[int, None]] = {}
        self._view = GpuView(kernel_readable=self._kernel.readable)
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
            self._running.tick()
            self._publish()
            self._listen()
        self._end()

    def _listen(self) -> None:
        """Until something comes or is due, or for a moment."""
        sources = [self._wake, *self._running.descriptors]
        if wait_for(sources, seconds=self._listen_seconds()):
            self._running.read()
        self._read_kernel()

    def _listen_seconds(self) -> float:
        probe = self._running.probe
        idle = probe.mode is Mode.ABSENT and not self._kernel.readable
        asks = self._question is not None
        most = ANSWER_SECONDS if asks else IDLE_SECONDS if idle else LISTEN_SECONDS
        due = probe.deadline - self._clock.now()
        return min(due, most) if due > 0.0 else most

    def _heed(self, _line: bytes, said: GpuSample | Logged) -> None:
        if isinstance(said, Logged):
            self._hear_of_kernel(said)
        else:
            self._show(said)

    def _hear_of_kernel(self, said: Logged) -> None:
        """What whoever keeps the probe reads; needless where we read it ourselves."""
        if self._kernel.readable:
            return
        with self._changing:
            self._relayed = True
            new = [line for line in said.lines if line.at > self._kernel_to]
            if new:
                self._kernel_to = max(line.at for line in new)
                self._note(new)

    def _show(self, said: GpuSample) -> None:
        """A service tells whoever connects of the last Xids again."""
        new = [xid for xid in said.xids if xid.at > self._xids_to]
        self._xids_to = max([self._xids_to, *(xid.at for xid in new)])
        sample, self._known = with_lost(replace(said, xids=tuple(new)), self._known)
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
        probe = self._running.probe
        if probe.mode in {Mode.RESTING, Mode.ABSENT}:
            self._relayed = False
        readable = self._kernel.readable or self._relayed
        with self._changing:
            self._view = replace(
                self._view,
                kernel_readable=readable,
                mode=probe.mode,
                problem=probe.problem,
                reboot=probe.hangs,
            )

    def _backfill(self, since: float) -> None:
        """Ask the journal; needless where the kernel log itself is followed."""
        if self._view.kernel_readable or self._question is not None:
            return
        with self._changing, contextlib.suppress(OSError):  # no journal: nobody knows
            self._question = JournalQuestion(since=since)

    def _end(self) -> None:
        self._running.close()
        with self._changing:
            if self._question is not None:
                self._question.close()
            self._kernel.close()
