"""What a box meets that is nobody's fault: it passes by, and no job pays for it."""

import contextlib
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from supervisor.core.access import Caller
from supervisor.core.config import build_config
from supervisor.core.placement import GpuReading
from supervisor.core.spec import Spec
from supervisor.core.status import JobState
from supervisor.daemon.compose import composed
from supervisor.daemon.entries import Entry
from supervisor.daemon.loop import Daemon
from supervisor.daemon.quarters import user_name
from supervisor.host.attempts import LaunchError
from supervisor.host.observer import Observer
from supervisor.wire.directive import Directive
from supervisor.wire.paths import AttemptPaths
from tests.support.long_life import WoundClock
from tests.support.quick_attempts import Fate, QuickAttempt, QuickHouse, QuickLauncher

MANY = 2000
"""Turns after which what has not come will not."""


@dataclass(kw_only=True)
class Reluctant(QuickLauncher):
    """Refuses the first launches, as systemd does that shuts down."""

    refusals: int = 0
    given: list[Spec] = field(default_factory=list[Spec])

    @override
    def launch(
        self, spec: Spec, directive: Directive, *, paths: AttemptPaths
    ) -> QuickAttempt:
        self.given.append(spec)
        if self.refusals:
            self.refusals -= 1
            message = "Transaction is destructive"
            raise LaunchError(message)
        return super().launch(spec, directive, paths=paths)


@dataclass(kw_only=True)
class Life:
    """One daemon after the other over the same files."""

    directory: Path
    clock: WoundClock = field(default_factory=WoundClock)
    fate: Fate = field(default_factory=Fate)
    refusals: int = 0
    config: str = ""
    launchers: list[Reluctant] = field(default_factory=list[Reluctant])

    @contextlib.contextmanager
    def daemon(self) -> Generator[Daemon]:
        """One of them."""
        launcher = Reluctant(
            fate=lambda _: self.fate, clock=self.clock, refusals=self.refusals
        )
        self.launchers.append(launcher)
        house = QuickHouse(user=user_name(os.geteuid()), launcher=launcher)
        config = build_config(
            f'state_dir = "{self.directory / "state"}"\n{self.config}\n'
            '[metrics]\nlisten = "127.0.0.1:0"\n'
        )
        with composed(config, clock=self.clock, house=house) as daemon:
            yield daemon
            for entry in daemon.box.entries.values():
                if entry.lock is not None:  # its process ends
                    entry.lock.release()

    def until(self, daemon: Daemon, wanted: Callable[[], object]) -> None:
        """Let the daemon turn until it is so."""
        for _ in range(MANY):
            daemon.turn()
            if wanted():
                return
            self.clock.wind(0.25)
        raise AssertionError({e.name: e.status() for e in daemon.box.entries.values()})


def me() -> Caller:
    """Who owns everything here."""
    return Caller(uid=os.geteuid(), name=user_name(os.geteuid()))


def submit(daemon: Daemon, name: str = "job", **tables: Any) -> Entry:
    """A new job."""
    spec = {"script": "/nowhere/train.py", "name": name, **tables}
    return daemon.desk.submit(me(), spec)


def test_launches_that_are_refused_for_a_while(tmp_path: Path) -> None:
    """The job waits, says why, and runs; none of it is an incident."""
    life = Life(directory=tmp_path, refusals=5)
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: "Transaction is" in entry.status().message)
        assert entry.status().state is JobState.WAITING
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert entry.status().attempt == 6
        assert daemon.desk.ledger.incidents() == []


def test_a_launch_that_was_refused_at_shutdown_is_tried_after_the_boot(
    tmp_path: Path,
) -> None:
    """The next daemon goes on with the job, and with the waits between its tries."""
    life = Life(directory=tmp_path, refusals=4)
    with life.daemon() as daemon:
        submit(daemon)
        life.until(daemon, lambda: life.launchers[0].refusals == 0)
    life.refusals = 1
    with life.daemon() as daemon:
        entry = daemon.box.entries["job"]
        life.until(daemon, lambda: entry.status().state is JobState.WAITING)
        assert "next try in 16 s" in entry.status().message
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert daemon.desk.ledger.incidents() == []


def test_a_job_that_asks_for_no_gpu_gets_none(tmp_path: Path) -> None:
    """Those of the box are handed out by the queue, and within quotas."""
    life = Life(directory=tmp_path, config='[gpus]\nuse = ["GPU-a", "GPU-b"]')
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert [spec.gpus for spec in life.launchers[0].given] == [()]


def test_gpus_by_their_indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same as by their UUIDs, and are given by those."""
    readings = (GpuReading(uuid="GPU-a", index=0), GpuReading(uuid="GPU-b", index=1))
    monkeypatch.setattr(Observer, "readings", lambda _self: readings)
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        first = submit(daemon, "first", gpus=[1, "GPU-b"])
        second = submit(daemon, "second", gpus=["GPU-b"])
        third = submit(daemon, "third", gpus=[0])
        life.until(daemon, lambda: third.status().state is JobState.RUNNING)
        assert [spec.gpus for spec in life.launchers[0].given] == [
            ("GPU-b",), ("GPU-a",)
        ]  # fmt: skip
        assert first.status().state is JobState.RUNNING
        assert second.status().message == "GPU-b: another job has it"
