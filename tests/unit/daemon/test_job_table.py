"""What the exporter tells of jobs that are over, across daemons over the same files."""

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.managed.job_phase import SERIES_SECONDS
from supervisor.core.jobs.spec import build_spec
from supervisor.daemon.composition import composed
from supervisor.daemon.daemon import Daemon
from supervisor.host.exporter.exposition_cache import Form
from supervisor.host.service.user_name import user_name
from supervisor.wire.messages.directive import Directive
from tests.support.long_life import WoundClock
from tests.support.quick_attempts import Fate, Patient, QuickHouse, QuickLauncher

ME = user_name(os.geteuid())
ROOT = Caller(uid=0, name="root")
MANY = 2000
"""Turns after which what has not come will not."""
DAY = 24 * 3600.0
GAVE_UP = b'trainwarden_run_state{run="job",state="gave_up"} 1.0\n'


@dataclass(kw_only=True)
class Box:
    """One daemon after the other over the same files; by default each attempt is killed."""

    directory: Path
    fate: Callable[[Directive], Fate] = field(
        default=lambda _: Fate(looks=1, finishes=False, saves=False)
    )
    clock: WoundClock = field(default_factory=WoundClock)

    @contextlib.contextmanager
    def daemon(self) -> Generator[Daemon]:
        """One of them."""
        launcher = QuickLauncher(fate=self.fate, clock=self.clock)
        config = build_config(
            f'state_dir = "{self.directory / "state"}"\n'
            '[metrics]\nlisten = "127.0.0.1:0"\n'
        )
        house = QuickHouse(user=ME, launcher=launcher)
        with composed(config, clock=self.clock, launcher_factory=house) as daemon:
            daemon.observer.population.environments = Patient()
            yield daemon

    def run(self, daemon: Daemon, *, until: JobState, attempt: int) -> None:
        """Let a job run until it is so."""
        tables = {"script": "/nowhere/train.py", "name": "job"}
        entry = daemon.api.submit(ROOT, tables, build_spec(tables), owner=ME)
        for _ in range(MANY):
            daemon.turn()
            status = entry.status()
            if (status.state, status.attempt) == (until, attempt):
                return
            self.clock.wind(0.25)
        raise AssertionError(entry.status())

    def scraped(self, daemon: Daemon, *, after: float = 0.0) -> bytes:
        """What a scrape is told so much later."""
        self.clock.wind(after + 2.0)
        daemon.turn()
        board = daemon.observer.board
        assert board is not None
        return board.read(Form()) or b""


def ended_before(directory: Path, seconds: float) -> None:
    """Let the run have ended so much earlier."""
    ledger = sqlite3.connect(directory / "state" / "ledger.sqlite")
    with contextlib.closing(ledger), ledger:
        ledger.execute("UPDATE runs SET ended_at = ended_at - ?", (seconds,))


def test_series_outlive_their_run_for_a_day(tmp_path: Path) -> None:
    """An alert that looks at the end of a run has a day to fire."""
    box = Box(directory=tmp_path)
    with box.daemon() as daemon:
        box.run(daemon, until=JobState.GAVE_UP, attempt=4)
        assert GAVE_UP in box.scraped(daemon)
        assert GAVE_UP in box.scraped(daemon, after=SERIES_SECONDS - 60.0)
        assert b'run="job"' not in box.scraped(daemon, after=60.0)


def test_a_daemon_that_starts_anew_tells_of_no_old_end(tmp_path: Path) -> None:
    """The day begins when the run ended, not when this daemon did: nobody is paged again
    for what ended two days ago, and of yesterday's end it tells for the rest of its day."""
    box = Box(directory=tmp_path)
    with box.daemon() as daemon:
        box.run(daemon, until=JobState.GAVE_UP, attempt=4)
    ended_before(tmp_path, DAY / 2)
    with box.daemon() as daemon:
        assert GAVE_UP in box.scraped(daemon)
        assert b'run="job"' not in box.scraped(daemon, after=DAY / 2 + 60.0)
    ended_before(tmp_path, 1.5 * DAY)
    with box.daemon() as daemon:
        assert b'run="job"' not in box.scraped(daemon)
        assert daemon.scheduler.entries["job"].status().state is JobState.GAVE_UP


@pytest.mark.parametrize("runs_on", [True, False])
def test_snapshots_of_earlier_attempts(tmp_path: Path, *, runs_on: bool) -> None:
    """A daemon that starts anew counts no fewer, of a run that goes on or is over: as many
    again would look as if they had just failed."""

    def fate(directive: Directive) -> Fate:
        last = directive.attempt == 4
        return Fate(looks=10**9 if last and runs_on else 1, finishes=last)

    def counted(scrape: bytes) -> float:
        found = re.search(rb'snapshots_total\{run="job",tier="durable"\} (.*)', scrape)
        return -1.0 if found is None else float(found[1])

    box = Box(directory=tmp_path, fate=fate)
    until = JobState.RUNNING if runs_on else JobState.FINISHED
    with box.daemon() as daemon:
        box.run(daemon, until=until, attempt=4)
        before = counted(box.scraped(daemon))
        for entry in daemon.scheduler.entries.values():
            entry.let_go()  # its process ends
    assert before == (3.0 if runs_on else 4.0)
    with box.daemon() as daemon:
        assert counted(box.scraped(daemon)) == before
