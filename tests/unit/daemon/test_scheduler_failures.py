"""What a box meets that is nobody's fault: it passes by, and no job pays for it."""

import contextlib
import errno
import os
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import override

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.authorization import Caller
from supervisor.core.jobs.config import build_config
from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.managed.job_phase import JobPhase
from supervisor.core.jobs.spec import Spec, build_spec
from supervisor.core.memory.forecast import MemoryTrends
from supervisor.daemon.composition import composed
from supervisor.daemon.daemon import Daemon
from supervisor.daemon.managed_job import ManagedJob, SchedulerError
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.launch.launcher import LaunchError
from supervisor.host.ledger.job_book import WantedState
from supervisor.host.ledger.ledger import LedgerError
from supervisor.host.service.user_name import user_name
from supervisor.runtime.attempts.attempt_monitor import CALM_SECONDS, TICK_SECONDS
from supervisor.runtime.run_setup import ResumeOptions
from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import AttemptPaths, StatePaths
from tests.support.long_life import WoundClock
from tests.support.quick_attempts import (
    Fate,
    Patient,
    QuickAttempt,
    QuickHouse,
    QuickLauncher,
)

MANY = 2000
"""Turns after which what has not come will not."""


@dataclass(kw_only=True)
class Reluctant(QuickLauncher):
    """Refuses the first launches, as systemd does that shuts down."""

    refusals: int = 0
    blind: list[OSError] = field(default_factory=list[OSError])
    """Raised where it is asked what is left, one after the other."""
    given: list[Spec] = field(default_factory=list[Spec])
    made: list[QuickAttempt] = field(default_factory=list[QuickAttempt])

    @override
    def launch(
        self, spec: Spec, directive: Directive, *, paths: AttemptPaths
    ) -> QuickAttempt:
        self.given.append(spec)
        if self.refusals:
            self.refusals -= 1
            message = "Transaction is destructive"
            raise LaunchError(message)
        self.made.append(super().launch(spec, directive, paths=paths))
        return self.made[-1]

    @override
    def left(self, run_id: str, *, job: str) -> str | None:
        if self.blind:
            raise self.blind.pop()
        return super().left(run_id, job=job)


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
        launcher_factory = QuickHouse(user=user_name(os.geteuid()), launcher=launcher)
        config = build_config(
            f'state_dir = "{self.directory / "state"}"\n{self.config}\n'
            '[metrics]\nlisten = "127.0.0.1:0"\n'
        )
        with composed(
            config, clock=self.clock, launcher_factory=launcher_factory
        ) as daemon:
            daemon.observer.population.environments = Patient()
            yield daemon
            for entry in daemon.scheduler.entries.values():
                if entry.lock is not None:  # its process ends
                    entry.lock.release()

    def until(self, daemon: Daemon, wanted: Callable[[], object]) -> None:
        """Let the daemon turn until it is so."""
        for _ in range(MANY):
            daemon.turn()
            if wanted():
                return
            self.clock.wind(0.25)
        raise AssertionError(
            {e.name: e.status() for e in daemon.scheduler.entries.values()}
        )


@contextlib.contextmanager
def full_disk(daemon: Daemon) -> Generator[None]:
    """The ledger can be read, not written."""
    ledger = daemon.api.ledger
    ledger.rows(tuple, "PRAGMA query_only=ON")
    try:
        yield
    finally:
        ledger.rows(tuple, "PRAGMA query_only=OFF")


@contextlib.contextmanager
def no_lock(directory: Path, name: str = "job") -> Generator[None]:
    """Something lies where the lock of a job belongs: nobody can look after it."""
    path = StatePaths(directory / "state").lock(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.mkdir()
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # it was removed, and a lock lies there
            path.rmdir()


def me() -> Caller:
    """Who owns everything here."""
    return Caller(uid=os.geteuid(), name=user_name(os.geteuid()))


def submit(daemon: Daemon, name: str = "job", **tables: Any) -> ManagedJob:
    """A new job."""
    tables = {"script": "/nowhere/train.py", "name": name, **tables}
    return daemon.api.submit(me(), tables, build_spec(tables))


def test_launches_that_are_refused_for_a_while(tmp_path: Path) -> None:
    """The job waits, says why, and runs; none of it is an incident."""
    life = Life(directory=tmp_path, refusals=5)
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: "Transaction is" in entry.status().message)
        assert entry.status().state is JobState.WAITING
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert entry.status().attempt == 6
        assert daemon.api.ledger.incidents() == []


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
        entry = daemon.scheduler.entries["job"]
        life.until(daemon, lambda: entry.status().state is JobState.WAITING)
        assert "next try in 16 s" in entry.status().message
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert daemon.api.ledger.incidents() == []


def test_a_moment_in_which_nothing_can_be_seen(tmp_path: Path) -> None:
    """What is left of the attempt before is looked for again, until that can be told."""
    life = Life(directory=tmp_path)
    with life.daemon() as daemon:
        problem = OSError(errno.EMFILE, "Too many open files")
        life.launchers[0].blind = [problem, problem]
        entry = submit(daemon)
        life.until(daemon, lambda: "Too many open" in entry.status().message)
        assert entry.status().state is JobState.WAITING
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert life.launchers[0].blind == []


def test_a_log_that_grows_fast_is_read_again_soon(tmp_path: Path) -> None:
    """Little of it is unread when its attempt ends: it is read again when 4 MiB more may
    be there, at once where more is there already, and a quiet one at the next tick."""
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: life.launchers[0].made)
        log = life.launchers[0].made[0].paths.output

        def waits(grown: int) -> float:
            with log.open("ab") as file:
                file.write(b"x\n" * (grown // 2))
            life.clock.wind(0.25)
            daemon.turn()
            assert entry.supervisor is not None
            seconds = entry.supervisor.wait_seconds()
            assert daemon.scheduler.pressing is (seconds == 0.0)
            return seconds

        mib, about_a_tick = 2**20, pytest.approx(TICK_SECONDS, abs=TICK_SECONDS / 2)
        assert waits(0) == about_a_tick
        assert waits(8 * mib) == pytest.approx(0.125)
        assert waits(mib // 2) == about_a_tick
        assert waits(24 * mib) == 0.0
        assert waits(0) == pytest.approx(0.125)
        assert waits(0) == about_a_tick


def test_runs_are_looked_at_when_it_is_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn for somebody else's sake leaves them alone; those whose time comes soon
    share one; who has news is looked at at once."""

    def settled(_watch: MemoryTrends, _part: float) -> bool:
        return True

    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        submit(daemon, "a")
        submit(daemon, "b")
        made = life.launchers[0].made
        monkeypatch.setattr(MemoryTrends, "settled", settled)
        life.until(daemon, lambda: [one.looked > 1 for one in made] == [True, True])
        monkeypatch.setattr(
            QuickAttempt, "descriptor", property(lambda one: 10_000 + made.index(one))
        )

        def looked(*, after: float, ready: set[int]) -> list[int]:
            before = [one.looked for one in made]
            life.clock.wind(after)
            daemon.turn(ready)
            return [one.looked - was for one, was in zip(made, before, strict=True)]

        begun = -life.clock.now() % CALM_SECONDS
        assert looked(after=begun + CALM_SECONDS, ready=set()) == [1, 1]
        assert looked(after=0.0, ready=set()) == [0, 0]
        assert looked(after=0.25, ready={10_001}) == [0, 1]
        assert looked(after=1.0, ready=set()) == [0, 0]
        assert looked(after=0.25, ready=set()) == [1, 1]
        assert looked(after=1.75, ready=set()) == [0, 0]
        assert looked(after=0.25, ready=set()) == [1, 1]


def test_a_job_that_asks_for_no_gpu_gets_none(tmp_path: Path) -> None:
    """Those of the box are handed out by the queue, and within quotas."""
    life = Life(directory=tmp_path, config='[gpus]\nuse = ["GPU-a", "GPU-b"]')
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert [spec.gpus for spec in life.launchers[0].given] == [()]


def test_gpus_by_their_indices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same as by their UUIDs, and are given by those."""
    readings = (Gpu(uuid="GPU-a", index=0), Gpu(uuid="GPU-b", index=1))

    def read(_observer: MachineMonitor) -> tuple[Gpu, ...]:
        return readings

    monkeypatch.setattr(MachineMonitor, "readings", read)
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


def test_a_run_that_cannot_be_taken_up_keeps_its_gpu(tmp_path: Path) -> None:
    """Its training may go on all the while: it is tried again, nobody else gets that GPU,
    and it can be neither submitted nor started beside itself."""
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    life.config = '[gpus]\nuse = ["GPU-a"]'
    with life.daemon() as daemon:
        first = submit(daemon, gpu_count=1)
        life.until(daemon, lambda: first.status().state is JobState.RUNNING)
        submit(daemon, "second", gpu_count=1)
    with no_lock(tmp_path), life.daemon() as daemon:
        first, second = (daemon.scheduler.entries[name] for name in ("job", "second"))
        life.until(daemon, lambda: first.life.tries > 3)
        assert first.status().state is JobState.INTERRUPTED
        assert "cannot be looked after, tried again" in first.status().message
        assert (first.life.gpus, second.life.gpus) == (("GPU-a",), ())
        with pytest.raises(SchedulerError, match="job runs"):
            submit(daemon)
        with pytest.raises(SchedulerError, match="runs already"):
            daemon.api.start(me(), "job", ResumeOptions())
        StatePaths(tmp_path / "state").lock("job").rmdir()
        life.until(daemon, lambda: first.status().state is JobState.RUNNING)
        assert second.status().message == "wants 1 GPUs, 0 are free"
        daemon.api.stop(me(), "job", drain=True)
        life.until(daemon, lambda: second.status().state is JobState.RUNNING)


@pytest.mark.parametrize("trouble", [full_disk, no_lock])
def test_a_start_that_meets_a_bad_disk_is_tried_again(
    tmp_path: Path, trouble: Callable[[Any], contextlib.AbstractContextManager[None]]
) -> None:
    """The job stays in the queue and says why."""
    life = Life(directory=tmp_path)
    with life.daemon() as daemon:
        entry = submit(daemon)
        with trouble(daemon if trouble is full_disk else tmp_path):
            life.until(daemon, lambda: entry.life.tries > 3)
            assert entry.status().state is JobState.QUEUED
            assert "cannot start, tried again and again: " in entry.status().message
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert entry.status().attempt == 1


def test_a_beginning_that_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon lives, and nothing is launched before: the next one would begin a job
    anew that trains already."""
    life = Life(directory=tmp_path)
    with life.daemon() as daemon:
        begun = daemon.scheduler.book.begun

        def refuse(_name: str) -> None:
            message = "the disk is full"
            raise LedgerError(message)

        monkeypatch.setattr(daemon.scheduler.book, "begun", refuse)
        tables = {"script": "/x/train.py", "name": "job"}
        fresh = ResumeOptions(fresh=True)
        entry = daemon.api.submit(me(), tables, build_spec(tables), choice=fresh)
        life.until(daemon, lambda: entry.life.tries > 3)
        assert life.launchers[0].given == []
        monkeypatch.setattr(daemon.scheduler.book, "begun", begun)
        life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
        assert len(life.launchers[0].given) == 1


def test_the_end_of_a_run_is_written_down_late(tmp_path: Path) -> None:
    """Whoever knows how it ended is kept until the disk has room for it."""
    life = Life(directory=tmp_path, fate=Fate(looks=20))
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.RUNNING)
        supervisor = entry.supervisor
        assert supervisor is not None
        with full_disk(daemon):
            life.until(daemon, lambda: entry.status().state is JobState.FINISHED)
            for _ in range(10):
                daemon.turn()
            assert entry.supervisor is supervisor
        life.until(daemon, lambda: entry.life.phase is JobPhase.FINISHED)
        run = daemon.api.ledger.latest_run("job")
        assert run is not None
        assert run.state is JobState.FINISHED


def test_a_job_is_stopped_though_the_disk_is_full(tmp_path: Path) -> None:
    """It ends, and that it was wanted is written down as soon as that can be: the next
    daemon does not begin it again."""
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.RUNNING)
        with full_disk(daemon):
            daemon.api.stop(me(), "job", drain=True)
            life.until(daemon, lambda: entry.status().state is JobState.DRAINED)
            row = daemon.api.book.job("job")
            assert row is not None
            assert row.wanted is WantedState.RUN
        life.until(daemon, lambda: not daemon.scheduler.unwritten)
        row = daemon.api.book.job("job")
        assert row is not None
        assert row.wanted is WantedState.STOP
        assert daemon.api.audit(me())[-1].did == "drain"
    with life.daemon() as daemon:
        entry = daemon.scheduler.entries["job"]
        daemon.turn()
        assert entry.status().state is JobState.DRAINED


def test_what_cannot_be_written_down_changes_nothing(tmp_path: Path) -> None:
    """A box is not paused, nor a job handed in, that the next daemon would not know of; a
    start takes the place of a stop that was not written down yet."""
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.RUNNING)
        with full_disk(daemon):
            for refused in (
                lambda: daemon.api.pause(me(), paused=True),
                lambda: submit(daemon, "another"),
                lambda: daemon.api.restart(me(), "job"),
            ):
                with pytest.raises(LedgerError):
                    refused()
            assert daemon.scheduler.paused_by is None
            assert list(daemon.scheduler.entries) == ["job"]
            daemon.api.stop(me(), "job", drain=True)
            life.until(daemon, lambda: entry.status().state is JobState.DRAINED)
        daemon.api.start(me(), "job", ResumeOptions())
        assert not daemon.scheduler.unwritten
        row = daemon.api.book.job("job")
        assert row is not None
        assert row.wanted is WantedState.RUN


def test_a_full_disk_gets_the_ballast_for_what_people_ask(tmp_path: Path) -> None:
    """A database that may not grow stands for the disk; it may where the ballast is gone."""
    life = Life(directory=tmp_path)
    with life.daemon() as daemon:
        daemon.turn()
        ballast = daemon.scheduler.ballast
        assert ballast is not None
        assert ballast.path.exists()
        ledger, room = daemon.api.ledger, list[bool]()

        def refused() -> None:
            """Once, as a disk is full."""
            if not room:
                room.append(ballast.path.exists())
                ledger.rows(tuple, "PRAGMA query_only=ON")
            else:
                ledger.rows(tuple, "PRAGMA query_only=OFF")
            daemon.api.book.set("paused_by", "me")

        daemon.scheduler.write(refused)
        assert room == [True]
        assert not ballast.path.exists()
        assert daemon.api.book.setting("paused_by") == "me"


def test_a_restart_is_not_forgotten_with_the_daemon(tmp_path: Path) -> None:
    """Not while the attempt is drained, nor while the job waits for its turn again; and
    it happens once."""
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.RUNNING)
        daemon.api.pause(me(), paused=True)
        daemon.api.restart(me(), "job")
        life.until(daemon, lambda: entry.status().state is JobState.QUEUED)
    with life.daemon() as daemon:
        entry = daemon.scheduler.entries["job"]
        assert entry.status().state is JobState.QUEUED
        daemon.api.pause(me(), paused=False)
        life.until(daemon, lambda: entry.status().state is JobState.RUNNING)
        assert entry.status().attempt == 2
        daemon.api.stop(me(), "job", drain=True)
        life.until(daemon, lambda: entry.status().state is JobState.DRAINED)
    with life.daemon() as daemon:
        daemon.turn()
        assert daemon.scheduler.entries["job"].status().state is JobState.DRAINED
        assert daemon.api.ledger.incidents() == []


def test_a_start_that_waits_is_not_forgotten_with_the_daemon(tmp_path: Path) -> None:
    """Nor is a job that was handed in again."""
    life = Life(directory=tmp_path)
    with life.daemon() as daemon:
        entries = [submit(daemon, name) for name in ("one", "two")]
        life.until(daemon, lambda: all(entry.life.ended for entry in entries))
        daemon.api.pause(me(), paused=True)
        daemon.api.start(me(), "one", ResumeOptions(fresh=True))
        submit(daemon, "two")
    with life.daemon() as daemon:
        phases = {
            name: entry.life.phase for name, entry in daemon.scheduler.entries.items()
        }
        assert phases == {"one": JobPhase.QUEUED, "two": JobPhase.QUEUED}


def test_a_job_that_finished_while_it_was_to_be_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not begun anew: there is nothing left to do."""
    life = Life(directory=tmp_path, fate=Fate(looks=10**9))
    with life.daemon() as daemon:
        entry = submit(daemon)
        life.until(daemon, lambda: entry.status().state is JobState.RUNNING)
        attempt = life.launchers[0].made[-1]
        monkeypatch.setattr(attempt, "fate", Fate(looks=0))
        monkeypatch.setattr(attempt, "ask_drain", lambda: None)
        daemon.api.restart(me(), "job")
        life.until(daemon, lambda: entry.supervisor is None)
        assert entry.status().state is JobState.FINISHED
        assert not entry.row.again
