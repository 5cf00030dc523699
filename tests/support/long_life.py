"""A long life of a daemon in little time: its own loop, ledger and files, a clock that
is wound on instead of waited for, and attempts that end at once."""

import contextlib
import os
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.spec import build_spec
from supervisor.daemon.composition import composed
from supervisor.daemon.daemon import IDLE_SECONDS, Daemon
from supervisor.host.service.clock import Clock
from supervisor.host.service.user_name import user_name
from supervisor.runtime.run_setup import ResumeOptions
from supervisor.wire.messages.directive import Directive
from tests.support.quick_attempts import Fate, Patient, QuickHouse, QuickLauncher

ENDLESS = "endless"
"""A job that fails again and again, each time with a newer snapshot."""
SHORT = ("short-1", "short-2", "short-3")
"""Jobs that fail a few times, finish, and are begun anew."""
SHORT_ATTEMPTS = 10


@dataclass(frozen=True, slots=True)
class WoundClock(Clock):
    """Stands still until it is wound on."""

    seconds: list[float] = field(default_factory=lambda: [time.monotonic()])

    @override
    def now(self) -> float:
        return self.seconds[0]

    def wind(self, seconds: float) -> None:
        """Let so much time pass."""
        self.seconds[0] += seconds


def fate(directive: Directive) -> Fate:
    """Half of the attempts are those of one run."""
    finishes = directive.job != ENDLESS and directive.attempt >= SHORT_ATTEMPTS
    return Fate(finishes=finishes)


@dataclass(kw_only=True)
class LongLife:
    """The daemon, and what it is driven with."""

    daemon: Daemon
    launcher: QuickLauncher
    clock: WoundClock
    caller: Caller

    def submit_all(self) -> None:
        """Hand in the jobs."""
        for name in (ENDLESS, *SHORT):
            tables = {"script": "/nowhere/train.py", "name": name}
            self.daemon.api.submit(self.caller, tables, build_spec(tables))

    def live(self, attempts: int) -> None:
        """Until so many have been launched since the beginning."""
        while self.launcher.launched < attempts:
            self.daemon.turn()
            self.clock.wind(self.daemon.scheduler.wait_seconds(IDLE_SECONDS) + 0.001)
            self._begin_anew()

    def _begin_anew(self) -> None:
        for name in SHORT:
            entry = self.daemon.scheduler.entries[name]
            if entry.status().state is JobState.FINISHED:
                self.daemon.api.start(self.caller, name, ResumeOptions(fresh=True))


@contextlib.contextmanager
def long_life(directory: Path) -> Generator[LongLife]:
    """One that begins in ``directory``, with an exporter that is scraped by nobody."""
    clock, uid = WoundClock(), os.geteuid()
    launcher = QuickLauncher(fate=fate, clock=clock)
    launcher_factory = QuickHouse(user=user_name(uid), launcher=launcher)
    config = build_config(
        f'state_dir = "{directory / "state"}"\n[metrics]\nlisten = "127.0.0.1:0"\n'
    )
    with composed(config, clock=clock, launcher_factory=launcher_factory) as daemon:
        daemon.observer.population.environments = Patient()
        caller = Caller(uid=uid, name=user_name(uid))
        life = LongLife(daemon=daemon, launcher=launcher, clock=clock, caller=caller)
        life.submit_all()
        yield life
