"""What starting a job means when it ran before."""

import pytest

from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.resume_decision import (
    Earlier,
    ResumeDecision,
    StartRefusedError,
    decide_modules,
    decide_start,
    goes_on_with_other_data,
    started_by_hand,
)
from supervisor.wire.reasons import Changed


def earlier(
    state: JobState = JobState.DRAINED,
    *,
    script: str = "/a/train.py",
    script_hash: str = "1",
    has_snapshot: bool = True,
) -> Earlier:
    """An earlier run."""
    return Earlier(
        state=state, script=script, script_hash=script_hash, has_snapshot=has_snapshot
    )


def decide(
    before: Earlier | None, *, fresh: bool = False, accept: bool = False
) -> ResumeDecision:
    """The decision for ``/a/train.py``."""
    return decide_start(
        before,
        job="train",
        script="/a/train.py",
        script_hash="1",
        fresh=fresh,
        accept_changes=accept,
    )


def test_a_new_name_and_a_finished_run_begin_anew() -> None:
    """``python train.py`` twice trains twice, and so does this."""
    assert decide(None) is ResumeDecision.FRESH
    assert decide(earlier(JobState.FINISHED, script_hash="2")) is ResumeDecision.FRESH


@pytest.mark.parametrize(
    "state", [JobState.DRAINED, JobState.GAVE_UP, JobState.RUNNING, JobState.WAITING]
)
def test_an_unfinished_run_is_resumed(state: JobState) -> None:
    """The same command goes on where the last one stopped, however it stopped."""
    assert decide(earlier(state)) is ResumeDecision.RESUME


def test_fresh_gives_the_old_run_up() -> None:
    """``--fresh`` never resumes."""
    assert decide(earlier(), fresh=True) is ResumeDecision.FRESH


def test_a_name_belongs_to_one_script() -> None:
    """Two scripts of one name do not share snapshots."""
    with pytest.raises(StartRefusedError, match="--name"):
        decide(earlier(script="/b/train.py"))


def test_a_changed_script_is_told_and_refused_unless_allowed() -> None:
    """Snapshots of one script are not silently continued by another."""
    with pytest.raises(StartRefusedError, match="--accept-changes"):
        decide(earlier(script_hash="2"))
    assert decide(earlier(script_hash="2"), accept=True) is ResumeDecision.RESUME


def test_a_changed_script_without_a_snapshot_begins_anew() -> None:
    """A script that was mended before its first snapshot has nothing to contradict."""
    assert decide(earlier(script_hash="2", has_snapshot=False)) is ResumeDecision.FRESH


def modules(
    before: Earlier | None,
    start: ResumeDecision = ResumeDecision.RESUME,
    *,
    person: bool = True,
    accept: bool = False,
) -> Changed:
    """What is decided about modules that changed."""
    return decide_modules(before, start, person=person, accept_changes=accept)


def test_changed_modules_are_refused_unless_allowed() -> None:
    """As the script is, where somebody can decide; in the night they stay as they were."""
    assert modules(earlier()) is Changed.REFUSED
    assert modules(earlier(), accept=True) is Changed.AS_IT_IS
    assert modules(earlier(), person=False) is Changed.AS_KEPT
    assert modules(earlier(JobState.GAVE_UP), person=False) is Changed.AS_KEPT


def test_modules_mended_before_the_first_snapshot_are_taken_up() -> None:
    """Nothing was saved that could contradict them."""
    before = earlier(JobState.GAVE_UP, has_snapshot=False)
    assert modules(before) is Changed.NOTHING_SAVED
    assert modules(before, person=False) is Changed.NOTHING_SAVED
    running = earlier(JobState.RUNNING, has_snapshot=False)
    assert modules(running, person=False, accept=True) is Changed.NOTHING_SAVED
    assert modules(running, person=False) is Changed.AS_KEPT


def test_a_new_run_has_kept_no_modules() -> None:
    """It keeps those that it begins with."""
    assert modules(None, ResumeDecision.FRESH, accept=True) is Changed.AS_KEPT
    assert modules(earlier(), ResumeDecision.FRESH, accept=True) is Changed.AS_KEPT


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_restart_of_its_own_never_gives_up_for_other_data(by_hand: bool) -> None:  # noqa: FBT001  # a parameter of pytest
    """Only who lets a run go on by hand is asked, before it trains again; and who wants
    that says so in the spec."""
    for stop in (False, True):
        for trained in (False, True):
            goes_on = goes_on_with_other_data(
                accepted=False, stop=stop, by_hand=by_hand, trained=trained
            )
            assert goes_on is not (stop or (by_hand and not trained))
            assert goes_on_with_other_data(
                accepted=True, stop=stop, by_hand=by_hand, trained=trained
            )


def test_what_was_given_up_is_started_by_hand() -> None:
    """A daemon goes on by itself with the others; a new run goes on with nothing."""
    resumes, fresh = ResumeDecision.RESUME, ResumeDecision.FRESH
    assert started_by_hand(earlier(), resumes, person=True)
    assert started_by_hand(earlier(JobState.GAVE_UP), resumes, person=False)
    assert not started_by_hand(earlier(), resumes, person=False)
    assert not started_by_hand(earlier(JobState.GAVE_UP), fresh, person=True)
    assert not started_by_hand(None, fresh, person=True)
