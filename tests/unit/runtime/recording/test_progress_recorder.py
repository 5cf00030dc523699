"""What is kept of the course of an attempt: real ledgers, a clock that is wound."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.log_scanner import LogFindings
from supervisor.core.diagnosis.result import (
    Diagnosis,
    IncidentKind,
    Remedy,
    RemedyKind,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import RecordIncident, UpdateIncident
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.oom_report import LoggedFigures
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.run_archive import KEPT, RunArchive
from supervisor.runtime.recording.progress_recorder import (
    FIRST_SECONDS,
    ProgressRecorder,
    point_of,
)
from supervisor.runtime.recording.run_history import record_of, summaries
from supervisor.wire.page import Page
from tests.support.lives import exit_record
from tests.support.long_life import WoundClock


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """With a run of ``digits`` in it."""
    with closing(Ledger(tmp_path / "ledger.sqlite")) as found:
        found.begin_run(
            run_id="digits-1",
            job="digits",
            script="/a/train.py",
            script_hash="1",
            seed=1,
            spec={"script": "train.py", "gpus": ["0", "1"]},
            now=1.0,
        )
        yield found


def recorder(ledger: Ledger, clock: WoundClock) -> ProgressRecorder:
    """Of that run."""
    return ProgressRecorder(run=1, archive=RunArchive(ledger), clock=clock)


def test_an_attempt_is_written_down_now_and_then_and_at_its_end(
    ledger: Ledger,
) -> None:
    """Not at every look; the older it is the more seldom."""
    clock, archive = WoundClock(), RunArchive(ledger)
    found = recorder(ledger, clock)
    found.see(Page(step=1))  # nothing was launched
    found.begin(1)
    written = 0
    for step in range(2000):
        clock.wind(1.0)
        found.see(Page(step=step, host_rss_bytes=100 + step))
        now = archive.series(1, 1)
        written += bool(now.points) and now.points[-1].step == step
    assert 20 < written < 120
    found.end()
    series = archive.series(1, 1)
    assert (series.points[-1].step, series.host_peak_bytes) == (1999, 2099)
    assert series.seconds == pytest.approx(2000.0)


def test_another_supervisor_goes_on_with_the_series(ledger: Ledger) -> None:
    """Its time counts from the launch, which it has not seen."""
    clock = WoundClock()  # it winds no wall clock
    ledger.put_attempt(1, AttemptHistory(number=1), now=clock.wall() - 610.0)
    first = recorder(ledger, clock)
    first.begin(1)
    clock.wind(10.0)
    first.see(Page(step=5))
    clock.wind(600.0)
    second = recorder(ledger, clock)
    second.take_over(1)
    clock.wind(1.0)
    second.see(Page(step=60))
    second.write()
    points = RunArchive(ledger).series(1, 1).points
    assert [p.step for p in points] == [5, 60]
    assert points[-1].seconds == pytest.approx(611.0, abs=20.0)


def test_a_ledger_that_cannot_be_written_holds_up_nothing(ledger: Ledger) -> None:
    """The next time is soon enough."""
    clock = WoundClock()
    found = recorder(ledger, clock)
    found.begin(1)
    with ledger.transaction() as connection:
        connection.execute("DROP TABLE progress")
    clock.wind(2 * FIRST_SECONDS)
    found.see(Page(step=1))
    found.end()


def test_old_attempts_leave_their_sum_alone(ledger: Ledger) -> None:
    """Curves of the newest, peaks and time of all."""
    clock, archive = WoundClock(), RunArchive(ledger)
    for number in range(1, KEPT + 3):
        ledger.put_attempt(
            1, AttemptHistory(number=number, last_step=number), now=clock.wall()
        )
        found = recorder(ledger, clock)
        found.begin(number)
        clock.wind(2.0)
        found.see(Page(step=number, host_rss_bytes=1000 - number))
        found.end()
    kept = [bool(one.series.points) for one in archive.attempts(1)]
    assert kept == [False, False, *[True] * KEPT]
    (run,) = summaries(ledger, lambda _: True, now=500.0)
    assert (run.host_peak_bytes, run.attempts, run.steps) == (999, KEPT + 2, KEPT + 2)
    assert run.attempt_seconds == pytest.approx(2.0 * (KEPT + 2))
    assert run.gpu_seconds == pytest.approx(4.0 * (KEPT + 2))


def test_the_peak_is_the_same_for_all_who_tell_it(ledger: Ledger) -> None:
    """The most of all attempts with the limit that it was measured against: what a page
    told, what was told between two looks, and what the allocator said as it failed."""
    clock = WoundClock()
    found = recorder(ledger, clock)
    peaks: list[tuple[int | None, int | None]] = []
    dump = MemoryFigures(peak_bytes=900)
    for number, (page, told, evidence) in enumerate(
        (
            (
                Page(memory_peak_bytes=500, memory_limit_bytes=1000),
                700,
                Evidence(exit=None),
            ),
            (Page(memory_limit_bytes=1000), None, Evidence(exit=None, dump=dump)),
            (
                Page(memory_peak_bytes=600, memory_limit_bytes=2000),
                None,
                Evidence(exit=None),
            ),
        ),
        start=1,
    ):
        found.begin(number)
        clock.wind(2.0)
        found.see(page)
        found.told_peak(told, 1000)
        found.end(evidence)
        (run,) = summaries(ledger, lambda _: True, now=500.0)
        peaks.append((run.device_peak_bytes, run.device_limit_bytes))
        assert RunArchive(ledger).device_peak(1) == peaks[-1]
        assert found.run_peak_bytes == run.device_peak_bytes
        assert recorder(ledger, clock).run_peak_bytes == run.device_peak_bytes
    assert peaks == [(700, 1000), (900, 1000), (900, 1000)]


def test_the_limit_is_known_of_an_attempt_that_came_to_no_step(ledger: Ledger) -> None:
    """By the spec, or the allocator's own words in the log: no page has told of it."""
    found = recorder(ledger, WoundClock())
    found.begin(1)
    found.see(Page())
    logged = LoggedFigures(line=3, figures=MemoryFigures(limit_bytes=1000))
    found.end(
        Evidence(
            exit=None,
            dump=MemoryFigures(peak_bytes=900),
            log=LogFindings(dumps=(logged,)),
        )
    )
    assert RunArchive(ledger).device_peak(1) == (900, 1000)
    found = replace(recorder(ledger, WoundClock()), cpu_limit_bytes=2000)
    found.begin(2)
    found.see(Page())
    found.end(Evidence(exit=None, dump=MemoryFigures(peak_bytes=1900), limited=True))
    assert RunArchive(ledger).device_peak(1) == (1900, 2000)


def test_main_memory_is_what_the_kernel_counted(ledger: Ledger) -> None:
    """Between two looks more may have been needed."""
    found = recorder(ledger, WoundClock())
    found.begin(1)
    found.see(Page(host_rss_bytes=500))
    found.end(Evidence(exit=replace(exit_record(code=0), max_rss_bytes=800)))
    (run,) = summaries(ledger, lambda _: True, now=500.0)
    assert run.host_peak_bytes == 800


def test_whose_it_is_and_whether_it_goes_on(ledger: Ledger) -> None:
    """A run that nobody looks after, and that has not ended, was interrupted."""
    (followed,) = summaries(ledger, lambda _: True, now=61.0)
    assert (followed.state, followed.elapsed_seconds) == (JobState.WAITING, 60.0)
    (left,) = summaries(ledger, lambda _: False, now=61.0)
    assert (left.state, left.elapsed_seconds) == (JobState.INTERRUPTED, None)
    ledger.set_state(
        1, state=JobState.DRAINED, message="", overrides=None, ended_at=31.0
    )
    (over,) = summaries(ledger, lambda _: False, now=61.0)
    assert (over.state, over.exit_code, over.elapsed_seconds) == (
        JobState.DRAINED,
        75,
        30.0,
    )
    assert over.user
    record = record_of(ledger, "digits", lambda _: False, now=61.0)
    assert record is not None
    assert (record.run, record.attempts) == (over, [])
    ledger.forget("digits", now=62.0)
    assert record_of(ledger, "digits", lambda _: False, now=61.0) is None
    assert summaries(ledger, lambda _: False, now=61.0) == [over]


def test_the_time_in_which_it_had_ended_is_none_that_it_took(ledger: Ledger) -> None:
    """A run of 30 s that somebody let go on in the next morning took no night."""
    ledger.set_state(
        1, state=JobState.GAVE_UP, message="", overrides=None, ended_at=31.0
    )
    ledger.resume_run(1, script_hash="1", spec={}, now=30_031.0)
    (again,) = summaries(ledger, lambda _: True, now=30_041.0)
    assert (again.elapsed_seconds, again.paused_seconds) == (40.0, 30_000.0)
    ledger.resume_run(
        1, script_hash="1", spec={}, now=30_051.0
    )  # after a crash of ours
    (over,) = summaries(ledger, lambda _: True, now=30_061.0)
    assert (over.elapsed_seconds, over.paused_seconds) == (60.0, 30_000.0)


def test_the_page_as_a_point() -> None:
    """Six digits; a loss that is no number is none; no time before the launch."""
    point = point_of(Page(step=7, loss=nan, step_seconds=0.123456789), seconds=-0.5)
    assert (point.seconds, point.step, point.loss) == (0.0, 7, None)
    assert point.step_seconds == 0.123457


def test_a_loss_stays_with_its_step() -> None:
    """It is looked at less often than steps are done; of an older page, and of a loss that
    is no number, there is no such step."""
    points = [
        point_of(Page(step=step, loss=loss, loss_step=of_step), seconds=0.1)
        for step, loss, of_step in ((9, 0.5, 7), (12, nan, 11), (14, 0.4, 0))
    ]
    assert [one.loss_step for one in points] == [7, None, None]
    both = points[0].followed_by(points[1])
    assert (both.step, both.loss, both.loss_step) == (12, 0.5, 7)


def test_what_was_ended_at_once_is_done_again(ledger: Ledger) -> None:
    """History counts it too, where no incident tells of that end; what an incident tells
    of counts once."""
    spans = ((None, 36, ()), (35, 50, (41,)), (48, None, ()))
    for number, (restored, last, recovered) in enumerate(spans, 1):
        before = tuple(
            AttemptHistory(
                number=number, recovery=1, restored_step=restored, last_step=one
            )
            for one in recovered
        )
        attempt = AttemptHistory(
            number=number,
            restored_step=40 if recovered else restored,
            last_step=last,
            recoveries=before,
        )
        ledger.put_attempt(1, attempt, now=1.0)
    (run,) = summaries(ledger, lambda _: True, now=60.0)
    # One step of the first attempt, two of the second; the third runs.
    assert run.lost_steps == 1 + 2
    for end in ("recovered", "ended"):
        incident = RecordIncident(
            attempt=2, remedy=Remedy(kind=RemedyKind.RESTART, because=""), failed_step=50,
            diagnosis=Diagnosis(cause=Cause.DEVICE_OOM, because=()),
            happened=IncidentKind(end), recovery=int(end == "recovered"),
        )  # fmt: skip
        ledger.record_incident(1, incident, now=2.0)
    ledger.update_incident(1, UpdateIncident(attempt=2, lost_steps=2, restored_step=48))
    (run,) = summaries(ledger, lambda _: True, now=60.0)
    assert run.lost_steps == 1 + 2
