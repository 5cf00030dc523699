"""What one user may take of a box, and what of it binds those who rule."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.managed.scheduling import CpuSlots
from supervisor.core.jobs.spec import build_spec
from supervisor.daemon import scheduler
from supervisor.daemon.composition import LEAST_SLOTS, composed
from supervisor.daemon.daemon import Daemon
from supervisor.daemon.launcher_factory import MultiUserFactory
from supervisor.daemon.managed_job import SchedulerError
from supervisor.host.service.user_name import user_name
from tests.support.long_life import WoundClock
from tests.support.quick_attempts import Fate, Patient, QuickHouse, QuickLauncher

ME = user_name(os.geteuid())
MEMBER = Caller(uid=4242, name=ME, groups=frozenset({"trainwarden"}))
RULER = Caller(uid=0, name="root")
ENDLESS = Fate(looks=10**9)


def submit(daemon: Daemon, name: str, *, by: Caller = MEMBER, **more: Any) -> None:
    """Hand in a job."""
    tables = {"script": "/nowhere/train.py", "name": name, **more}
    daemon.api.submit(by, tables, build_spec(tables), owner=ME)


def states(daemon: Daemon) -> dict[str, JobState]:
    """Of all jobs, a few turns later."""
    for _ in range(5):
        daemon.turn()
    return {name: one.status().state for name, one in daemon.scheduler.entries.items()}


@contextlib.contextmanager
def daemon_in(directory: Path, limits: str) -> Generator[Daemon]:
    """A daemon with these limits, whose jobs never end by themselves."""
    clock = WoundClock()
    launcher = QuickLauncher(fate=lambda _: ENDLESS, clock=clock)
    config = build_config(f'state_dir = "{directory / "state"}"\n[limits]\n{limits}\n')
    house = QuickHouse(user=ME, launcher=launcher)
    with composed(config, clock=clock, launcher_factory=house) as daemon:
        daemon.observer.population.environments = Patient()
        yield daemon


def test_jobs_on_the_list(tmp_path: Path) -> None:
    """The next one is refused, a new spec of one is not; those who rule are not bound."""
    with daemon_in(tmp_path, "jobs = 2\ncpu_slots = 0") as daemon:
        submit(daemon, "one")
        submit(daemon, "two")
        with pytest.raises(SchedulerError, match=f"{ME} has 2 jobs.*forget"):
            submit(daemon, "three")
        submit(daemon, "two", priority=1)
        submit(daemon, "three", by=RULER)
        assert list(states(daemon)) == ["one", "two", "three"]
        daemon.api.stop(MEMBER, "one", drain=False)
        daemon.api.forget(MEMBER, "one")


def test_the_size_of_a_spec(tmp_path: Path) -> None:
    """A larger one is refused, and nothing is kept of it."""
    with daemon_in(tmp_path, "spec_kib = 1") as daemon:
        with pytest.raises(SchedulerError, match="larger than 1 KiB"):
            submit(daemon, "large", args=["x" * 1024])
        assert not daemon.scheduler.entries
        submit(daemon, "large", by=RULER, args=["x" * 1024])


def test_jobs_without_gpus_wait_for_a_slot(tmp_path: Path) -> None:
    """The most urgent first; the next begins when one has ended."""
    with daemon_in(tmp_path, "cpu_slots = 1") as daemon:
        submit(daemon, "first")
        assert states(daemon) == {"first": JobState.RUNNING}
        submit(daemon, "second")
        submit(daemon, "urgent", priority=1)
        assert states(daemon)["urgent"] is JobState.QUEUED
        waits = daemon.scheduler.entries["urgent"].status().message
        assert "1 jobs without GPUs run" in waits
        daemon.api.stop(MEMBER, "first", drain=False)
        found = states(daemon)
        assert (found["urgent"], found["second"]) == (JobState.RUNNING, JobState.QUEUED)


def test_slots_by_cores(tmp_path: Path) -> None:
    """A small machine runs a few small jobs beside each other."""
    with daemon_in(tmp_path, "") as daemon:
        slots = max(os.cpu_count() or 1, LEAST_SLOTS)
        assert daemon.scheduler.cpu == CpuSlots(slots=slots)


@pytest.mark.parametrize(
    ("limits", "most"), [("", 7), ("cpu_jobs = 8", 8), ("cpu_slots = 1", 1)]
)
def test_a_slot_is_left_to_other_users(tmp_path: Path, limits: str, most: int) -> None:
    """On a box where others may have jobs, unless an admin says otherwise."""
    slots = "" if "slots" in limits else "cpu_slots = 8\n"
    config = build_config(
        f'state_dir = "{tmp_path / "state"}"\n[limits]\n{slots}{limits}\n'
    )
    several = MultiUserFactory(state=tmp_path)
    with composed(config, launcher_factory=several) as daemon:
        assert daemon.scheduler.cpu.of_a_user == most


@pytest.mark.parametrize("limits", ["jobs = 0", "spec_kib = 0", "cpu_slots = -1"])
def test_limits_that_are_none(limits: str) -> None:
    """They are refused with the key's name."""
    with pytest.raises(Exception, match=limits.split(maxsplit=1)[0]):
        build_config(f"[limits]\n{limits}\n")


def test_the_queue_is_looked_at_when_something_has_changed(tmp_path: Path) -> None:
    """Not at each turn: 10,000 jobs may wait. What changes whose turn it is shows at once."""
    with daemon_in(tmp_path, "cpu_slots = 1") as daemon:
        for name in ("runs", "waits"):
            submit(daemon, name)
        states(daemon)
        looked = daemon.scheduler.looked
        states(daemon)
        assert daemon.scheduler.looked is looked
        daemon.api.pause(RULER, paused=True)
        states(daemon)
        because = daemon.scheduler.entries["waits"].status().message
        assert because == "the box is paused by root"
        daemon.api.pause(RULER, paused=False)
        daemon.api.stop(MEMBER, "runs", drain=False)
        assert states(daemon)["waits"] is JobState.RUNNING


def test_a_long_queue_is_looked_at_a_few_times_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many requests there are; what was put off comes soon."""
    monkeypatch.setattr(scheduler, "LONG_QUEUE", 3)
    with daemon_in(tmp_path, "cpu_slots = 0") as daemon:
        for number in range(6):
            submit(daemon, f"job-{number}")
            daemon.turn()
        late = daemon.scheduler.entries["job-5"]
        assert late.life.because == "waiting for its turn"
        clock = daemon.scheduler.starter.clock
        assert isinstance(clock, WoundClock)
        wait, most = daemon.scheduler.wait_seconds(10.0), scheduler.LOOK_SECONDS
        assert 0.0 < wait <= most * 1.001  # the clock's own rounding
        clock.wind(most * 1.001)
        daemon.turn()
        assert "as many as this box has slots for" in late.life.because
        assert daemon.scheduler.wait_seconds(10.0) == 10.0
