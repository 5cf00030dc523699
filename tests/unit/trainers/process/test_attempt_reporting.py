"""What an attempt counts of its steps and phases."""

import itertools
import time
from pathlib import Path

import pytest
from typing_extensions import override

from supervisor.core.lifecycle.events import NoticeReceived
from supervisor.host.telemetry.attempt_news import NO_STEP_SEEN, heard
from supervisor.wire.event_file import EventReader, RecordKind
from supervisor.wire.files import read_json
from supervisor.wire.page import ErrorStage, Phase, read_page
from tests.support.attempts import Attempts
from trainers.process.attempt_reporting import PAUSE, Attempt, PageReporter
from trainers.process.script import unseen_steps
from trainers.process.training_process import report_failure


@pytest.mark.parametrize("steps", [1, 5])
def test_a_pause_between_steps_is_none_of_them(tmp_path: Path, steps: int) -> None:
    """An evaluation of an hour makes no step of an hour; slow steps are what they are."""
    directive = Attempts(tmp_path).directive(Path("x.py"))
    Path(directive.attempt_directory).mkdir()
    attempt = Attempt(directive)
    for number in range(4):
        attempt.count_own_step(seconds=0.1, steps=1, done=number + 1)
    slow = 0.9 * PAUSE * 0.1
    attempt.count_own_step(seconds=3600.0, steps=steps, done=4 + steps)
    attempt.count_own_step(seconds=slow, steps=1, done=5 + steps)
    attempt.publish_times()
    page = read_page(attempt.paths.page)
    assert page is not None
    assert page.step_seconds_sum == pytest.approx(0.1 * (4 + steps) + slow)
    assert page.phase_seconds[Phase.TRAINING] == pytest.approx(page.step_seconds_sum)
    assert sum(page.step_counts) == 5 + steps


def test_a_phase_is_counted_while_it_lasts(tmp_path: Path) -> None:
    """With each heartbeat: what a scrape sees of a long validation, and what stays of it
    where the attempt is killed in it."""
    reporter = PageReporter(tmp_path / "page")
    reporter.enter(Phase.VALIDATING)
    told = [0.0]
    for _ in range(3):
        time.sleep(0.01)
        reporter.beat()
        page = read_page(tmp_path / "page")
        assert page is not None
        told.append(page.phase_seconds[Phase.VALIDATING])
    assert all(after - before >= 0.01 for before, after in itertools.pairwise(told))
    reporter.enter(Phase.TRAINING)
    page = read_page(tmp_path / "page")
    assert page is not None
    assert told[-1] <= page.phase_seconds[Phase.VALIDATING] < told[-1] + 10.0


@pytest.mark.parametrize("move", ["step", "tick"])
def test_when_training_moved_is_on_the_page(tmp_path: Path, move: str) -> None:
    """A step, or a batch of a validation; a heartbeat is none, nor a step told again."""
    reporter, page = PageReporter(tmp_path / "page"), tmp_path / "page"
    reporter.beat()
    before = read_page(page)
    assert before is not None
    assert before.progress_ns is None
    began = time.monotonic_ns()
    if move == "tick":
        reporter.tick()
    else:
        reporter.set(step=1)
    moved = read_page(page)
    reporter.beat()
    if move == "step":
        reporter.set(step=1)
    after = read_page(page)
    assert moved is not None
    assert after is not None
    assert began <= (moved.progress_ns or 0) <= time.monotonic_ns()
    assert after.progress_ns == moved.progress_ns


def test_that_no_step_is_seen_reaches_who_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sentence with what to do, an attempt; none of a script that makes steps."""
    monkeypatch.setattr(unseen_steps, "UNSEEN_SECONDS", 0.0)
    directive = Attempts(tmp_path).directive(Path("x.py"))
    Path(directive.attempt_directory).mkdir()
    attempt = Attempt(directive)
    attempt.watch()
    attempt.watch()
    told = [
        event
        for one in EventReader(attempt.paths.events).poll()
        for event in heard(one)
    ]
    assert told == [NoticeReceived(NO_STEP_SEEN)]
    assert "trainers.session" in NO_STEP_SEEN
    attempt.makes_own_steps()
    later = Attempt(directive)
    later.makes_own_steps()
    later.watch()
    records = EventReader(later.paths.events).poll()
    assert [one.kind for one in records].count(RecordKind.NO_STEP_SEEN) == 1


def test_what_goes_on_from_an_earlier_step_has_no_loss_yet(tmp_path: Path) -> None:
    """That of the step that failed lies ahead, perhaps in another epoch."""
    directive = Attempts(tmp_path).directive(Path("x.py"))
    Path(directive.attempt_directory).mkdir()
    attempt = Attempt(directive)
    attempt.set(step=52, loss=0.5, loss_step=52)
    attempt.goes_on(directive, failed_step=52)
    page = read_page(attempt.paths.page)
    assert page is not None
    assert (page.loss, page.loss_step) == (None, None)


def stage_on(path: Path) -> int | None:
    """What the page there says is done after an error."""
    page = read_page(path)
    assert page is not None
    return page.after_error


def failing(tmp_path: Path) -> Attempt:
    """An attempt whose script is about to end by an error."""
    directive = Attempts(tmp_path).directive(Path("x.py"))
    Path(directive.attempt_directory).mkdir()
    return Attempt(directive)


@pytest.mark.parametrize(
    ("error", "stage"),
    [
        (RuntimeError("OOM when allocating tensor"), ErrorStage.MEMORY),
        (ValueError("no such column"), ErrorStage.REPORTING),
    ],
)
def test_who_looks_sees_that_an_error_ended_the_script(
    tmp_path: Path, error: Exception, stage: ErrorStage
) -> None:
    """What is done since may take ten seconds, in the phase between two calls of fit."""
    attempt, seen = failing(tmp_path), list[int | None]()
    attempt.end.say(lambda _: seen.append(stage_on(attempt.paths.page)))
    assert stage_on(attempt.paths.page) is None
    assert report_failure(attempt, error) == 1
    assert seen == [stage]
    assert stage_on(attempt.paths.page) == ErrorStage.ENDING


class SpeechlessError(Exception):
    """One whose text cannot be asked for while memory is short, once."""

    asked = 0

    @override
    def __str__(self) -> str:
        """Fail the first time."""
        type(self).asked += 1
        if self.asked == 1:
            raise MemoryError
        return "no such column"


def test_an_error_is_reported_though_the_page_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is what counts, whatever becomes of the words for who looks."""

    def broken(**_values: object) -> None:
        message = "the page is gone"
        raise ValueError(message)

    attempt = failing(tmp_path)
    monkeypatch.setattr(attempt, "set", broken)
    assert report_failure(attempt, SpeechlessError()) == 1
    crash = read_json(attempt.paths.crash)
    assert crash is not None
    assert crash["message"] == "no such column"
