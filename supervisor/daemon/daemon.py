"""The daemon: its turns, its signals, and what it tells systemd.

Stopping it always detaches: training goes on, and the next daemon finds it again.
"""

import signal
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.job_status import JobState
from supervisor.core.text.log_level import LogLevel
from supervisor.daemon import job_files
from supervisor.daemon.api.routes import answer
from supervisor.daemon.api_service import ApiService
from supervisor.daemon.known_gpus import KnownGpus
from supervisor.daemon.scheduler import Scheduler
from supervisor.host.control.control_server import Mailbox
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.service.journal import Journal
from supervisor.host.service.sd_notify import SdNotifier
from supervisor.runtime.event_loop import loop, wakeups

IDLE_SECONDS = 1.0
"""How long a run that asks for nothing is left alone."""
SHOW_SECONDS = 1.0
"""How often metrics and the status line are made anew: the loop waits no longer."""
SOON_SECONDS = 0.1
"""... as long as the driver has not said anything yet."""
EARLY_SECONDS = 0.5
"""So much earlier they are made anew if runs have advanced: from then on both need one
turn, and not two."""
RUSH_SECONDS = 0.05
"""The loop never turns faster than this for what the runs themselves ask for: many
starting attempts must not keep a core busy."""


@dataclass(kw_only=True)
class Daemon:
    """Everything a running daemon consists of."""

    scheduler: Scheduler
    api: ApiService
    mailbox: Mailbox
    observer: MachineMonitor
    known_gpus: KnownGpus
    jobs: Path
    caller: Caller
    """In whose name job files are taken in: the daemon's own."""
    notifier: SdNotifier
    journal: Journal
    show_at: float = 0.0
    asked: set[signal.Signals] = field(default_factory=set[signal.Signals])

    def run(self) -> None:
        """Until SIGTERM or SIGINT; then training is left alone."""
        self.reload()
        numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        with wakeups({one: partial(self.asked.add, one) for one in numbers}) as wakeup:
            self.turn()  # whoever is told that we are ready finds the runs and metrics
            self.notifier.send(READY="1")
            loop(self, wakeup)
        self.notifier.send(STOPPING="1", STATUS="detached: training goes on")

    @property
    def done(self) -> bool:
        """Whether somebody asked for the end."""
        return bool(self.asked & {signal.SIGTERM, signal.SIGINT})

    def turn(self, ready: Collection[int] | None = None) -> None:
        """Everything there is to do now; never waits. ``ready``: as in ``Scheduler.advance``."""
        if signal.SIGHUP in self.asked:
            self.asked.discard(signal.SIGHUP)
            self._announce_reload()
        self.mailbox.serve(lambda request: answer(self.api, request))
        advanced = self.scheduler.advance(ready)
        self._show(early_seconds=EARLY_SECONDS if advanced else RUSH_SECONDS)

    def descriptors(self) -> list[int]:
        """What becomes readable when somebody asks for something, or an attempt ends."""
        return [self.mailbox.descriptor, *self.scheduler.descriptors()]

    def wait_seconds(self) -> float:
        """How long a turn may be put off while nobody asks for anything."""
        if self.scheduler.pressing:
            return 0.0
        left = self.show_at - self.scheduler.starter.clock.now()
        return max(min(self.scheduler.wait_seconds(IDLE_SECONDS), left), RUSH_SECONDS)

    def reload(self) -> None:
        """Read the job files again."""
        problems = job_files.reload(self.api, self.jobs, caller=self.caller)
        self.scheduler.problems = problems
        for problem in problems:
            self.journal.say(problem, level=LogLevel.ERROR)

    def _announce_reload(self) -> None:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self.notifier.send(RELOADING="1", MONOTONIC_USEC=str(now))
        self.reload()
        self.notifier.send(READY="1")

    def _show(self, *, early_seconds: float) -> None:
        now = self.scheduler.starter.clock.now()
        if now < self.show_at - early_seconds:
            return  # or as good as due: not another turn for that
        self.show_at = now + (SHOW_SECONDS if self.observer.whole else SOON_SECONDS)
        jobs = self.scheduler.entries
        counts = jobs.counts()
        self.observer.show(
            jobs.begun(now),
            jobs=self.scheduler.jobs_view(counts),
            kept_out=self.scheduler.kept_out,
        )
        self.known_gpus.see(self.observer.gpus())
        self._look_at_disks()
        self.scheduler.starter.senders.look()
        for sentence in self.observer.news():
            self.journal.say(sentence, level=LogLevel.WARNING)
        self.notifier.send(WATCHDOG="1", STATUS=status_line(self.scheduler, counts))

    def _look_at_disks(self) -> None:
        starter = self.scheduler.starter
        starter.disks.see("", self.scheduler.disk_troubles())
        starter.disks.look()


def status_line(
    scheduler: Scheduler, counts: Mapping[tuple[JobState, str], int]
) -> str:
    """What is going on, for ``systemctl status``. ``counts``: as ``JobTable`` does."""
    queued = sum(n for (state, _), n in counts.items() if state is JobState.QUEUED)
    active = sum(n for (state, _), n in counts.items() if not state.ended)
    running = active - queued
    jobs = scheduler.entries.values()
    gave_up = [one.name for one in jobs if one.state is JobState.GAVE_UP]
    parts = [
        f"{running} running, {queued} queued",
        scheduler.starter.launcher_factory.about,
    ]
    if scheduler.paused_by is not None:
        parts.append(f"paused by {scheduler.paused_by}")
    if gave_up:
        parts.append(f"gave up: {', '.join(gave_up[:5])}")
    if scheduler.problems:
        parts.append(f"{len(scheduler.problems)} job files cannot be used")
    return "; ".join(parts)
