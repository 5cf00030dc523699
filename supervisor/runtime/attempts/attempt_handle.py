"""The handle of one attempt: what it tells, how it looks, and how it is made to end."""

import math
from dataclasses import dataclass, replace

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.lifecycle.events import (
    Event,
    Exited,
    HealthSampled,
    StacksTaken,
    Unkillable,
)
from supervisor.host.launch.launcher import LaunchedAttempt
from supervisor.host.launch.leftovers import Leftovers, gpus_of
from supervisor.host.process.proc_files import doomed, look_at
from supervisor.host.process.stack_dump import Stacks
from supervisor.host.telemetry.allocator_dump import RefusalCounter
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.log_follower import POLL_BYTES, LogFollower
from supervisor.host.telemetry.log_retention import LogRetention
from supervisor.wire.page import Page

UNREAD_BYTES = 4 * 2**20
"""So much of a log may be unread when its attempt ends: the decision waits for 20 ms of
reading, and not for all that was written since the last look."""


def read_again(new_bytes: int, *, seconds: float) -> float:
    """When a log should be read again that had ``new_bytes`` after so many ``seconds``:
    as soon as ``UNREAD_BYTES`` more are there if it goes on like that."""
    if new_bytes >= POLL_BYTES:
        return 0.0  # and more may be there already
    return math.inf if not new_bytes else UNREAD_BYTES / new_bytes * seconds


@dataclass(slots=True)
class AttemptHandle:
    """All that belongs to the attempt that runs now."""

    attempt: LaunchedAttempt
    telemetry: Telemetry
    log: LogFollower
    started: bool = False
    page: Page | None = None
    """The newest that could be read."""
    page_at: float = -math.inf
    """When that was tried."""
    log_seconds: float = math.inf
    """After these its log should be read again."""
    stacks_text: str = ""
    """The stacks of its threads, where they were taken."""
    _stacks: Stacks | None = None
    _refused: RefusalCounter | None = None
    _killed_at: float | None = None
    _oom_kills_before_kill: int | None = None
    _log_read_at: float = 0.0

    @classmethod
    def over(cls, attempt: LaunchedAttempt, *, cap: LogRetention) -> "AttemptHandle":
        """Begin to watch ``attempt``; ``cap``: of its log."""
        paths = attempt.paths
        return cls(attempt, Telemetry(paths), LogFollower(paths.output, cap=cap))

    def read_log(self, *, now: float) -> None:
        """Read on in its log; one that grows fast is read again soon (``read_again``)."""
        new = self.log.poll()
        self.log_seconds = read_again(new, seconds=now - self._log_read_at)
        self._log_read_at = now

    def read_page(self, *, now: float) -> None:
        """See where it is, as it says itself."""
        self.page = self.telemetry.page() or self.page
        self.page_at = now

    @property
    def ending(self) -> bool:
        """Whether it is being killed, or asked for its stacks before that."""
        return self._stacks is not None or self._killed_at is not None

    @property
    def _shim_pid(self) -> int | None:
        training = self.attempt.training
        return None if training is None else training.shim_pid

    def of_training(self, remains: Leftovers) -> frozenset[int]:
        """The processes that ``remains`` knows, without the shim: what that needs of
        main memory is ours, always the same, and costs half a millisecond to ask for."""
        return remains.pids - {self._shim_pid}

    def look(
        self, *, now: float, remains: Leftovers, host_seconds: float | None = None
    ) -> list[Event]:
        """How it looks at ``now`` (monotonic seconds), its log read before.

        ``host_seconds``: until main memory runs out, by the forecast.
        """
        remains.follow(self._shim_pid, now=now)
        self.read_page(now=now)
        rss = None if self.page is None else self.page.host_rss_bytes
        seen = look_at(
            self.attempt.pid,
            self.page,
            work_seconds=remains.work_seconds,
            output_bytes=self.log.size_bytes,
            refusals=self._refusals(),
        )
        found: list[Event] = [HealthSampled(seen, rss, host_seconds)]
        if self._stacks is not None and self._stacks.taken(now=now):
            self.stacks_text, self._stacks = self._stacks.text, None
            found.append(StacksTaken())
        return found

    def _refusals(self) -> int:
        """Allocations that failed so far."""
        if self._refused is None:
            self._refused = RefusalCounter(self.attempt.paths.dumps)
        return self._refused.count()

    def take_stacks(self, *, now: float) -> None:
        """Have the stacks of its threads written down; ``look`` tells when they are."""
        pid = self.attempt.pid
        if pid is not None:
            self._stacks = Stacks(
                self.attempt.paths, pid, now=now, ask=self.attempt.ask_stacks
            )

    def kill(
        self, gpus: tuple[Gpu, ...], *, now: float, patience_seconds: float
    ) -> Unkillable | None:
        """End it at once; who has not died of that after ``patience_seconds`` and hangs
        in the kernel."""
        pid = self.attempt.pid
        if self._killed_at is None:  # what is counted from here on may be its own end
            self._oom_kills_before_kill = self.attempt.oom_kills()
        self.attempt.kill()
        since = self._killed_at = now if self._killed_at is None else self._killed_at
        if pid is None or now - since < patience_seconds or not doomed(pid):
            return None
        return Unkillable((pid,), gpus_of((pid,), gpus))

    def close(self, exited: Exited, *, remains: Leftovers) -> Exited:
        """Give back what was held; ``exited`` with what only the watch knows."""
        self.attempt.close()
        page = self.telemetry.page() or self.page
        self.telemetry.close()
        evidence = replace(
            exited.evidence,
            stacks=self.stacks_text or exited.evidence.stacks,
            own_pids=remains.pids,
            oom_kills_before_kill=self._oom_kills_before_kill,
        )
        rss = None if page is None else page.host_rss_bytes
        return replace(exited, evidence=evidence, rss_bytes=rss)
