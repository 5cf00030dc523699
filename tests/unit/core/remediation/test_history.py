"""Budgets count restarts that brought nothing."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.liveness.progress_intervals import ProgressIntervals
from supervisor.core.memory.fit_memory import SizePeaks
from supervisor.core.remediation.history import KEPT, LANDMARKS, AttemptHistory, History

OOM, KILL = Cause.DEVICE_OOM, Cause.PREEMPTED


def history(*ends: tuple[Cause, int | None], since: int = 1) -> History:
    """A history with these ends."""
    return History(
        attempts=tuple(
            AttemptHistory(number=number, cause=cause, snapshot_step=snapshot)
            for number, (cause, snapshot) in enumerate(ends, start=1)
        ),
        budget_since=since,
    )


def test_a_newer_snapshot_alone_is_told_from_other_news() -> None:
    """Only a snapshot after an earlier one, with all else as it was, is one."""
    before = AttemptHistory(number=1, snapshot_step=10, batch=64)
    assert replace(before, snapshot_step=20).only_saved_since(before)
    assert not replace(before, snapshot_step=20, batch=32).only_saved_since(before)
    assert not replace(before, number=2).only_saved_since(before)
    assert not before.only_saved_since(replace(before, snapshot_step=None))


def test_the_first_failure_is_no_restart() -> None:
    """Nothing was tried yet, so nothing was in vain."""
    assert history((OOM, 0)).fruitless(OOM) == 0
    assert History().fruitless() == 0
    assert History().unknown() == 0


def test_a_launch_that_failed_spends_nothing() -> None:
    """No process came of it: it neither counts, nor ends a row of failures."""
    failed = history((OOM, 0), (Cause.NONE, None), (OOM, 0), (Cause.NONE, None))
    unstarted = tuple(
        replace(attempt, started=attempt.cause is OOM) for attempt in failed.attempts
    )
    run = replace(failed, attempts=unstarted)
    assert (run.fruitless(OOM), run.unknown(), run.failures) == (1, 0, 2)
    assert run.unstarted() == 1
    assert run.begun(5).updated(cause=Cause.NONE, started=False).unstarted() == 2
    assert run.begun(5).unstarted() == 0
    assert replace(run, budget_since=5).unstarted() == 0


def test_a_newer_snapshot_earns_the_budget_back() -> None:
    """Only the restarts since the last progress count."""
    assert history((OOM, 0), (OOM, 0), (OOM, 0)).fruitless(OOM) == 2
    assert history((OOM, 0), (OOM, 5), (OOM, 5)).fruitless(OOM) == 1
    assert history((OOM, 0), (OOM, 5)).fruitless(OOM) == 0


def test_a_snapshot_nearer_to_the_same_failing_step_is_no_progress() -> None:
    """It fails where it failed, only after fewer steps; elsewhere it is progress."""
    first = AttemptHistory(number=1, cause=OOM, snapshot_step=20, last_step=40)
    nearer = AttemptHistory(number=2, cause=OOM, snapshot_step=38, last_step=40)
    assert History(attempts=(first, nearer)).fruitless(OOM) == 1
    third = replace(nearer, number=3)
    for attempts in ((first, nearer), (first, nearer, third)):
        assert History(attempts=attempts).same_end(OOM) == 40
    assert History(attempts=(nearer, third)).same_end(OOM) is None
    for other in (replace(nearer, last_step=41), replace(nearer, last_step=None)):
        assert History(attempts=(first, other)).fruitless(OOM) == 0
    assert History(attempts=(first, replace(nearer, cause=KILL))).fruitless() == 0


def test_another_cause_ends_the_row_of_a_cause_but_not_the_overall_row() -> None:
    """Causes that take turns are still a restart loop."""
    turns = history((OOM, 0), (KILL, 0), (OOM, 0), (KILL, 0))
    assert turns.fruitless(KILL) == 0
    assert turns.fruitless() == 3


def test_unknown_is_neither_progress_nor_none() -> None:
    """An attempt whose snapshots cannot be read is counted apart."""
    assert history((OOM, 0), (OOM, None), (OOM, 0)).fruitless(OOM) == 1
    assert history((OOM, 0), (OOM, None), (OOM, None)).fruitless(OOM) == 0
    assert history((OOM, 0), (OOM, None), (OOM, None)).unknown() == 2
    assert history((OOM, 0), (OOM, None), (OOM, 3)).unknown() == 0


def test_what_is_killed_from_outside_spends_no_budget() -> None:
    """It says nothing about training: rows of other causes go on across it."""
    ends = [(KILL, 0), (OOM, 0), (KILL, None), (KILL, 0), (OOM, 0)]
    run = history(*ends)
    kills = tuple(replace(a, outside=a.cause is KILL) for a in run.attempts)
    spared = replace(run, attempts=kills)
    assert (run.fruitless(), run.fruitless(OOM)) == (3, 0)
    assert (spared.fruitless(), spared.fruitless(OOM)) == (1, 1)
    killed = replace(spared, attempts=(kills[0], kills[3]))
    assert (killed.fruitless(KILL), killed.fruitless(KILL, outside=True)) == (0, 1)
    assert replace(spared, attempts=kills[:3]).unknown() == 0
    assert replace(run, attempts=run.attempts[:3]).unknown() == 1


def test_what_is_killed_at_the_same_step_each_time_does_so_itself() -> None:
    """Somebody outside does not know when."""
    one = AttemptHistory(
        number=1, cause=KILL, outside=True, snapshot_step=0, last_step=9
    )
    same = History(attempts=(one, replace(one, number=2), replace(one, number=3)))
    assert same.fruitless(KILL) == 2
    other = History(attempts=(one, replace(one, number=2, last_step=8)))
    assert other.fruitless(KILL) == 0
    untrained = replace(one, restored_step=9)
    assert History(attempts=(untrained, untrained)).fruitless(KILL) == 0


def test_what_is_killed_before_its_first_step_time_and_again_never_begins() -> None:
    """A few times is an accident; a step between them says that it can train."""
    kill = AttemptHistory(number=1, cause=KILL, outside=True, snapshot_step=0)
    kills = [replace(kill, number=number) for number in range(1, 11)]
    assert History(attempts=tuple(kills[:9])).fruitless(KILL) == 0
    assert History(attempts=tuple(kills)).fruitless(KILL) == 9
    kills[4] = replace(kills[4], last_step=3)
    assert History(attempts=tuple(kills)).fruitless(KILL) == 0


def test_a_person_who_starts_again_forgives() -> None:
    """Attempts before ``budget_since`` do not count, but stay known."""
    forgiven = history((OOM, 0), (OOM, 0), (OOM, 0), since=3)
    assert forgiven.fruitless(OOM) == 0
    assert len(forgiven.attempts) == 3


def test_the_newest_attempt_is_what_changes() -> None:
    """``updated`` touches the last attempt only, and nothing where there is none."""
    begun = History().begun(1).begun(2).updated(batch=32)
    assert [attempt.batch for attempt in begun.attempts] == [None, 32]
    assert begun.begun(3).batch == 32
    assert History().batch is None
    assert History().updated(batch=1) == History()
    assert History().last is None
    assert begun.last is not None
    assert begun.last.number == 2


ENDS = st.lists(
    st.tuples(st.sampled_from([OOM, KILL]), st.none() | st.integers(0, 3)), max_size=12
)


@given(ENDS)
def test_a_row_of_one_cause_is_never_longer_than_the_overall_row(
    ends: list[tuple[Cause, int | None]],
) -> None:
    """Counting fewer causes cannot count more restarts."""
    made = history(*ends)
    for cause in (OOM, KILL):
        assert 0 <= made.fruitless(cause) <= made.fruitless() <= max(len(ends) - 1, 0)


CAUSES = [OOM, KILL, Cause.HOST_OOM, Cause.NONE]
RHYTHM = ProgressIntervals(phase="training", count=2, longest=(2.0, 1.0))


def an_attempt(number: int, dice: Random) -> AttemptHistory:
    """Any; drawn by dice of our own, since a hundred of them take hypothesis seconds."""
    return AttemptHistory(
        number=number,
        cause=dice.choice(CAUSES),
        remedy=dice.choice([RemedyKind.RESTART, RemedyKind.MICROBATCH]),
        remedy_step=dice.choice([None, "restart", "smaller"]),
        snapshot_step=dice.choice([None, 0, 5, 6, 7]),
        last_step=dice.choice([None, 0, 6, 8]),
        restored_step=dice.choice([None, 0, 6]),
        batch=dice.choice([None, 32]),
        slice_size=dice.choice([None, 4, 8]),
        peak_bytes=dice.choice([None, 100, 200]),
        rss_bytes=dice.choice([None, 10, 20]),
        intervals=dice.choice([(), (RHYTHM,)]),
    )


def told(history: History) -> list[object]:
    """All that anybody asks of a history."""
    host = [a.rss_bytes for a in history.attempts if a.cause is Cause.HOST_OOM]
    sliced = [a for a in history.attempts if a.remedy is RemedyKind.MICROBATCH]
    return [
        history.last,
        history.batch,
        history.failures,
        history.trained,
        history.intervals,
        history.unknown(),
        history.fruitless(),
        *(history.fruitless(cause) for cause in CAUSES),
        *(history.tried(cause) for cause in CAUSES),
        *(history.ever_tried(cause) for cause in CAUSES),
        *([a for a in history.attempts if a.cause is c][-1:] for c in CAUSES),
        min((size for size in host if size is not None), default=None),
        sliced[-1:],
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_thinned_history_tells_the_same(seed: int) -> None:
    """Whatever the attempts were, and however often it was thinned on the way."""
    dice = Random(seed)  # noqa: S311  # no secrets
    full = thin = History(budget_since=dice.randrange(1, 50))
    for number in range(1, LANDMARKS + 40):
        attempt = an_attempt(number, dice)
        full = replace(full, attempts=(*full.attempts, attempt))
        thin = replace(thin, attempts=(*thin.attempts, attempt)).thinned(kept=3)
    assert len(thin.attempts) < len(full.attempts)
    assert told(thin) == told(full)
    assert told(full.thinned(kept=3)) == told(full)


def test_a_history_stays_small_while_there_is_progress() -> None:
    """10,000 attempts, each with a newer snapshot, take the room of a few hundred."""
    run = History()
    for number in range(1, 10_001):
        run = run.begun(number).updated(
            cause=KILL, remedy_step="restart", snapshot_step=number, last_step=number
        )
    assert len(run.attempts) <= 2 * KEPT + LANDMARKS
    assert run.failures == 0
    assert run.ever_tried(KILL)["restart"] == 10_000
    assert run.trained


def test_what_lies_behind_the_newest_progress_is_kept() -> None:
    """Budgets count it one by one, however long the row."""
    many = 4 * KEPT
    run = history((KILL, 5), *((OOM, 5) for _ in range(many)))
    assert run.thinned().fruitless() == many


def test_what_sizes_of_slices_needed_is_kept() -> None:
    """The planner draws its line through sizes that only an old attempt measured."""
    seen = SizePeaks(slice_size=4, usual_bytes=50, highest_bytes=60)
    run = History(attempts=(AttemptHistory(number=1, cause=KILL, peaks=(seen,)),))
    for number in range(2, 4 * LANDMARKS):
        run = run.begun(number).updated(
            cause=KILL, snapshot_step=number, last_step=number, peaks=()
        )
    thin = run.thinned(kept=3)
    assert len(thin.attempts) < len(run.attempts)
    assert [one.peaks for one in thin.attempts if one.peaks] == [(seen,)]
