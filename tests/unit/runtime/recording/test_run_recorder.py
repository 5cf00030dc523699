"""What is written down of a run at once, and what may wait: real ledgers."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from typing_extensions import override

from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.metrics.run_counters import UNKEPT_SECONDS
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.text.log_level import LogLevel
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.runtime.recording.run_recorder import SNAPSHOT_SECONDS, RunRecorder
from tests.support.lives import fresh
from tests.support.long_life import WoundClock
from tests.support.looked_at import ran_out_of_memory
from tests.support.small_disk import fill, mounted


class BothClocks(WoundClock):
    """The clock on the wall is wound with the other."""

    @override
    def wall(self) -> float:
        return 1e9 + self.now()


@dataclass
class RecordedHistory:
    """A run whose history changes, and what the ledger says of it."""

    ledger: Ledger
    row: RunRow
    clock: BothClocks = field(default_factory=BothClocks)

    def __post_init__(self) -> None:
        self.recorder = RunRecorder(
            row=self.row, ledger=self.ledger, clock=self.clock, say=_silent
        )
        first = AttemptHistory(number=1, snapshot_step=10)
        self.run = _with(fresh(), first)
        self.recorder.attempt(first)

    def becomes(self, **changes: object) -> None:
        """Its attempt changes, as a step of the loop tells the recorder."""
        last = self.run.history.last
        assert last is not None
        run = _with(self.run, replace(last, **changes))  # type: ignore[arg-type]  # by name
        with self.recorder.together():
            self.recorder.changes(self.run, run)
        self.run = run

    @property
    def known(self) -> AttemptHistory:
        """What the ledger knows of the attempt."""
        (found,) = self.ledger.attempts(self.row.id)
        return found


def _silent(*_: object, **__: object) -> None:
    """Nobody listens."""


def _with(run: RunState, attempt: AttemptHistory) -> RunState:
    return replace(run, history=History(attempts=(attempt,)))


@pytest.fixture
def written(tmp_path: Path) -> Iterator[RecordedHistory]:
    """A run of which the first snapshot is written down."""
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        row = ledger.begin_run(
            run_id="digits-1",
            job="digits",
            script="/a/train.py",
            script_hash="1",
            seed=1,
            spec={"script": "train.py"},
            now=1.0,
        )
        yield RecordedHistory(ledger, row)


def test_newer_snapshots_are_written_down_seldom(written: RecordedHistory) -> None:
    """Many snapshots make one entry: the newest, some minutes after the first of them."""
    for step in (20, 30, 40):
        written.becomes(snapshot_step=step)
        written.clock.wind(SNAPSHOT_SECONDS / 4)
        written.recorder.flush()
        assert written.known.snapshot_step == 10
    written.clock.wind(SNAPSHOT_SECONDS / 4)
    written.recorder.flush()
    assert written.known.snapshot_step == 40


def test_what_else_is_known_is_written_down_at_once(written: RecordedHistory) -> None:
    """And with it the snapshot that was waiting; it does not come back later."""
    written.becomes(snapshot_step=20)
    written.becomes(batch=64)
    assert (written.known.batch, written.known.snapshot_step) == (64, 20)
    written.becomes(snapshot_step=30)
    written.becomes(cause=Cause.DEVICE_OOM, snapshot_step=30)
    assert (written.known.cause, written.known.snapshot_step) == (Cause.DEVICE_OOM, 30)
    written.clock.wind(2 * SNAPSHOT_SECONDS)
    written.recorder.flush()
    assert written.known.cause is Cause.DEVICE_OOM


def test_time_between_attempts_goes_on_under_the_next_supervisor(
    written: RecordedHistory,
) -> None:
    """It neither falls nor climbs anew, whenever the last one was killed: what a counter
    told is told again, and the hours in which nobody looked are not in it."""
    recorder, told = written.recorder, 0.0
    for state in (JobState.WAITING, JobState.LAUNCHING, JobState.RUNNING):
        for _ in range(50):
            recorder.see(state)
            written.clock.wind(1.0)
    recorder.see(JobState.RUNNING)
    told = sum(recorder.between.seconds.values())
    assert told == pytest.approx(100.0, abs=2.0)
    for seconds in range(1, 100, 7):
        recorder.see(JobState.WAITING)
        for _ in range(seconds):
            written.clock.wind(1.0)
            recorder.see(JobState.WAITING)
        before = dict(recorder.between.seconds)
        written.clock.wind(86400.0)
        row = written.ledger.latest_run("digits")
        assert row is not None
        recorder = RunRecorder(
            row=row, ledger=written.ledger, clock=written.clock, say=_silent
        )
        recorder.see(JobState.RUNNING)
        after = recorder.between.seconds
        assert all(after[name] >= before[name] for name in before)
        assert sum(after.values()) <= sum(before.values()) + UNKEPT_SECONDS
        stored = written.ledger.latest_run("digits")
        assert stored is not None
        assert stored.between_attempts is not None
        assert stored.between_attempts.seconds == after


def _on_a_full_disk(
    disk: Path, said: list[str], ballast: Ballast | None
) -> tuple[Ledger, RunRecorder]:
    """A run whose disk is full when it ends."""

    def say(text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:  # noqa: ARG001  # Notifier
        said.append(text)

    ledger = Ledger(disk / "ledger.sqlite")
    row = ledger.begin_run(
        run_id="digits-1",
        job="digits",
        script="/a/train.py",
        script_hash="1",
        seed=1,
        spec={"script": "train.py"},
        now=1.0,
    )
    if ballast is not None:
        ballast.hold()
        assert ballast.held
    fill(disk / "hog")
    recorder = RunRecorder(
        row=row, ledger=ledger, clock=BothClocks(), say=say, ballast=ballast
    )
    before = fresh()
    incident = ran_out_of_memory()
    with recorder.together():
        recorder.effect(incident)
        recorder.changes(before, replace(before, phase=RunPhase.FINISHED))
    assert recorder.late
    return ledger, recorder


def test_the_end_of_a_run_is_written_into_the_room_of_its_ballast(
    tmp_path: Path,
) -> None:
    """Though its disk is full until then: with it all that waited. Nothing is left over."""
    said: list[str] = []
    with mounted(tmp_path / "disk", "4m") as disk:
        ballast = Ballast(disk / "ballast", size=256 * 1024)
        ledger, recorder = _on_a_full_disk(disk, said, ballast)
        with closing(ledger):
            recorder.finish(JobState.FINISHED)
            row = ledger.latest_run("digits")
            assert row is not None
            assert row.state is JobState.FINISHED
            assert len(ledger.incidents()) == 1
        assert not ballast.held
    assert ["training goes on" in one for one in said] == [True]


def test_an_end_that_cannot_be_written_down_is_told(tmp_path: Path) -> None:
    """Nobody would know of it later: it does not look as if it had ended so."""
    said: list[str] = []
    with mounted(tmp_path / "disk", "4m") as disk:
        ledger, recorder = _on_a_full_disk(disk, said, None)
        with closing(ledger):
            recorder.finish(JobState.FINISHED)
    assert "This run is finished, and that could not be written down" in said[-1]
