"""The life of a run, whatever happens in it and in whichever order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import End, Launch
from supervisor.core.lifecycle.events import (
    DeadlineExpired,
    DrainRequested,
    Event,
    Exited,
    GateClear,
    GateHeld,
    ProgressReported,
    Spawned,
    SpawnFailed,
)
from supervisor.core.lifecycle.table import TABLE, step
from tests.support.lives import drained, finished, fresh, happen, killed, out_of_memory

STEPS = st.none() | st.integers(0, 50)
EVENTS = st.one_of(
    st.builds(Spawned, st.integers(1, 99)),
    st.just(SpawnFailed("x")),
    st.builds(
        ProgressReported,
        batch=st.none() | st.integers(1, 600),
        slice_size=st.none() | st.integers(1, 600),
        restored_step=STEPS,
        first_step=STEPS,
        snapshot_step=STEPS,
    ),
    st.builds(killed, STEPS, STEPS),
    st.builds(out_of_memory, STEPS, STEPS),
    st.just(finished()),
    st.just(drained()),
    st.builds(
        DrainRequested,
        st.just("SIGTERM"),
        at_once=st.booleans(),
        repeats=st.booleans(),
    ),
    st.just(DeadlineExpired()),
    st.just(GateClear()),
    st.just(GateHeld("pid 1")),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=60))
def test_no_sequence_of_events_breaks_the_rules(events: list[Event]) -> None:
    """One attempt at a time, targets as the table says, and an end is the end."""
    run, alive, now = fresh(), False, 0.0
    for event in events:
        now += 1.0
        before = run
        run, effects = step(run, event, now=now)
        row = TABLE.get((before.phase, type(event)))
        if row is None:
            assert (run, effects) == (before, ())
            continue
        assert run.phase in row.targets
        launches = [effect for effect in effects if isinstance(effect, Launch)]
        assert not (launches and alive)
        alive = (alive or bool(launches)) and not isinstance(
            event, Exited | SpawnFailed
        )
        assert any(isinstance(effect, End) for effect in effects) == run.state.ended


@settings(max_examples=100)
@given(st.lists(st.sampled_from(["kill", "oom"]), min_size=20, max_size=20))
def test_without_progress_every_run_gives_up(ends: list[str]) -> None:
    """No mix of causes restarts a run for ever when no snapshot gets newer."""
    run, _ = happen(fresh(), DeadlineExpired())
    for number, end in enumerate(ends):
        exited = killed(5, 0) if end == "kill" else out_of_memory(5, 0)
        run, _ = happen(
            run,
            GateClear(),
            Spawned(number + 1),
            ProgressReported(batch=512),
            exited,
            DeadlineExpired(),
        )
        if run.state.ended:
            break
    assert run.state is JobState.GAVE_UP
    assert run.attempt <= 10


@settings(max_examples=30)  # each is a life of some hundred events
@given(st.lists(st.booleans(), min_size=30, max_size=60))
def test_with_progress_a_run_never_gives_up(kill: list[bool]) -> None:
    """A crash a day for a year is no reason to stop a run that moves on."""
    run, _ = happen(fresh(), DeadlineExpired())
    for number, by_kill in enumerate(kill):
        step_now = 10 * (number + 1)
        exited = (
            killed(step_now, step_now) if by_kill else killed(step_now + 3, step_now)
        )
        run, _ = happen(run, GateClear(), Spawned(1), exited, DeadlineExpired())
        assert run.state is JobState.WAITING
