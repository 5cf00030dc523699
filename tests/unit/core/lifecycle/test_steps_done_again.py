"""Steps done again: each incident tells of those that were really computed twice for it."""

from dataclasses import replace

import pytest

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.jobs.accounting.steps_done_again import AttemptSpan, untold_steps
from supervisor.core.lifecycle.effects import Effect, RecordIncident, UpdateIncident
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    Exited,
    GateClear,
    ProgressReported,
    RestartDue,
    Spawned,
    StepFailed,
    WentOn,
)
from supervisor.core.lifecycle.run_state import RunState
from tests.support.lives import (
    exit_record,
    fresh,
    happen,
    killed,
    out_of_memory,
)

PLANNED = "planned"
KILLED = "killed"
AT_ONCE = "Ctrl-C, twice"
Part = tuple[int, int, str]
"""An attempt: the step it goes on from, the step it ends at, and how it ends."""


def saved(step: int) -> Exited:
    """An end on request at ``step``, with the state saved."""
    evidence = Evidence(exit=exit_record(code=75), drained=True)
    return Exited(evidence=evidence, last_step=step, snapshot_step=step)


def lived(run: RunState, part: Part) -> tuple[RunState, list[Effect]]:
    """``run`` after one more attempt."""
    restored, last, how = part
    progress = [ProgressReported(restored_step=restored)]
    if last > restored:
        progress.append(ProgressReported(first_step=restored + 1))
    end = (
        (RestartDue("the resume was disproved"), saved(last))
        if how == PLANNED
        else (killed(last=last, snapshot=max(last - 2, 0)),)
    )
    asked = (DrainRequested("Ctrl-C"), DrainRequested("Ctrl-C", at_once=True))
    said = asked if how == AT_ONCE else ()
    lived, effects = happen(
        run, DeadlineExpired(), GateClear(), Spawned(8), *progress, *said, *end
    )
    if how == AT_ONCE:  # ... and the next command goes on with it
        assert not any(isinstance(one, RecordIncident) for one in effects)
        lived = replace(
            fresh(), history=lived.history, attempt=lived.attempt,
            open_incident=lived.open_incident,
        )  # fmt: skip
    return lived, effects


def told(effects: list[Effect]) -> dict[int, int]:
    """By the attempt that failed: how many steps were done again after it. From which
    step on is told with it."""
    updates = [one for one in effects if isinstance(one, UpdateIncident)]
    counted = [one for one in updates if one.lost_steps is not None]
    assert all(one.restored_step is not None for one in counted)
    return {u.attempt: u.lost_steps for u in counted if u.lost_steps is not None}


STORIES: tuple[tuple[list[Part], dict[int, int]], ...] = (
    # The ordinary one: two steps since the snapshot.
    ([(0, 26, KILLED), (24, 45, KILLED), (44, 60, KILLED)], {1: 2, 2: 1}),
    # The second falls short of the first: the third does the rest.
    ([(0, 64, KILLED), (0, 44, KILLED), (40, 90, KILLED)], {1: 44, 2: 24}),
    # Short of it twice.
    (
        [(0, 64, KILLED), (0, 20, KILLED), (10, 40, KILLED), (40, 90, KILLED)],
        {1: 20, 2: 30, 3: 24},
    ),
    # It ends where it began: nothing was done again for it yet.
    ([(0, 25, KILLED), (24, 24, KILLED), (24, 50, KILLED)], {1: 0, 2: 1}),
    # A disproved resume saves and another attempt goes on: one incident, all its steps.
    ([(0, 25, KILLED), (24, 24, PLANNED), (24, 44, KILLED)], {1: 1}),
    # ... which falls short as well.
    (
        [(0, 64, KILLED), (0, 44, PLANNED), (44, 50, KILLED), (48, 90, KILLED)],
        {1: 50, 3: 16},
    ),
    # Ended at once by a person: no incident tells of that.
    ([(0, 36, AT_ONCE), (35, 96, AT_ONCE)], {}),
    ([(0, 36, AT_ONCE), (35, 35, AT_ONCE), (35, 96, KILLED)], {}),
    # ... and the one after it fails before it has made up for that.
    ([(0, 36, AT_ONCE), (35, 35, KILLED), (35, 96, KILLED)], {2: 1}),
    ([(0, 40, AT_ONCE), (30, 33, KILLED), (32, 96, KILLED)], {2: 8}),
    # ... or it was ended in the middle of what a failure had left to be done.
    ([(0, 40, KILLED), (30, 35, AT_ONCE), (32, 96, KILLED)], {1: 10}),
    (
        [(0, 40, KILLED), (30, 35, AT_ONCE), (32, 34, KILLED), (33, 96, KILLED)],
        {1: 5, 3: 7},
    ),
    # A later snapshot than the failure had told of.
    ([(0, 30, KILLED), (30, 40, KILLED)], {1: 0}),
)


@pytest.mark.parametrize(("story", "expected"), STORIES)
def test_each_incident_tells_of_its_own(
    story: list[Part], expected: dict[int, int]
) -> None:
    """And together, with those that none tells of, they tell of all that was computed more
    than once, and no more."""
    run = fresh()
    effects: list[Effect] = []
    for part in story:
        run, more = lived(run, part)
        effects += more
    assert told(effects) == expected
    computed = sum(last - restored for restored, last, _ in story)
    furthest = max(last for _, last, _ in story)
    spans = [
        AttemptSpan(restored_step=restored, last_step=last, told=how != AT_ONCE)
        for restored, last, how in story
    ]
    assert sum(expected.values()) + untold_steps(spans) == computed - furthest


def test_a_failure_in_place_tells_what_was_done_of_the_one_before() -> None:
    """Its process goes on from a later snapshot, and does the rest."""
    start = fresh()
    start = replace(start, policy=replace(start.policy, in_place=True))
    run, effects = lived(start, (0, 64, KILLED))
    run, more = happen(
        run, DeadlineExpired(), GateClear(), Spawned(8),
        ProgressReported(restored_step=0, batch=512), ProgressReported(first_step=1),
        StepFailed(number=1, exited=out_of_memory(last=44, snapshot=40)), WentOn(1),
        ProgressReported(restored_step=40), ProgressReported(first_step=41),
    )  # fmt: skip
    assert told(effects + more) == {1: 44, 2: 24}


def test_how_far_it_came_can_stay_unknown() -> None:
    """Then what was told before stands: no number is made up."""
    run, effects = lived(fresh(), (0, 64, KILLED))
    again = (DeadlineExpired(), GateClear(), Spawned(8))
    back = ProgressReported(restored_step=60)
    run, more = happen(run, *again, back, killed(last=None))
    assert told(effects + more) == {1: 4}
    _, more = happen(run, *again, killed(last=50))
    assert told(more) == {}
