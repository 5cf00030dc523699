"""The time in each phase: it is counted while the phase lasts, and never goes back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.page import Phase
from trainers.process.phase_times import PhaseTimes

SECOND = 10**9
PHASES = st.sampled_from(list(Phase))
TIMES = st.floats(0.0, 1e4)
"""In seconds."""


def test_the_phase_that_lasts_is_counted() -> None:
    """A validation of twenty minutes is told of while it lasts, and once."""
    times = PhaseTimes(now_ns=0)
    times.enter(Phase.VALIDATING, now_ns=5 * SECOND)
    told = times.tell(now_ns=605 * SECOND)
    assert (told[Phase.STARTING], told[Phase.VALIDATING]) == (5.0, 600.0)
    times.enter(Phase.TRAINING, now_ns=1205 * SECOND)
    told = times.tell(now_ns=1206 * SECOND)
    assert (told[Phase.VALIDATING], told[Phase.TRAINING]) == (1200.0, 1.0)


def test_steps_of_another_phase() -> None:
    """A step of a loop of the script's own is no time between fits, neither while it goes
    on nor when it is done; what lies between two of them is."""
    times = PhaseTimes(now_ns=0)
    times.enter(Phase.BETWEEN, now_ns=0)
    assert times.tell(now_ns=3 * SECOND)[Phase.BETWEEN] == 3.0
    times.spend_in(Phase.TRAINING, 1.0, now_ns=5 * SECOND)
    assert times.tell(now_ns=7 * SECOND)[Phase.BETWEEN] == 4.0
    times.spend_in(Phase.TRAINING, 2.0, now_ns=8 * SECOND)
    told = times.tell(now_ns=8 * SECOND)
    assert (told[Phase.BETWEEN], told[Phase.TRAINING]) == (5.0, 3.0)
    times.enter(Phase.FINISHED, now_ns=18 * SECOND)
    assert times.tell(now_ns=18 * SECOND)[Phase.BETWEEN] == 15.0


@given(st.lists(st.tuples(TIMES, st.booleans(), PHASES, TIMES), max_size=40))
def test_what_is_told_never_goes_back(
    story: list[tuple[float, bool, Phase, float]],
) -> None:
    """Whatever follows what, however long a step says that it took."""
    now, times = 0, PhaseTimes(now_ns=0)
    before = times.tell(now_ns=now)
    for passed, enters, phase, seconds in story:
        now += int(passed * SECOND)
        if enters:
            times.enter(phase, now_ns=now)
        else:
            times.spend_in(phase, seconds, now_ns=now)
        told = times.tell(now_ns=now)
        assert all(one >= was for one, was in zip(told, before, strict=True))
        before = told


@given(st.lists(st.tuples(TIMES, PHASES, st.booleans()), max_size=40))
def test_all_time_is_counted_once(story: list[tuple[float, Phase, bool]]) -> None:
    """Whether somebody looked between or not."""
    now, times = 0, PhaseTimes(now_ns=0)
    for passed, phase, looks in story:
        now += int(passed * SECOND)
        if looks:
            times.tell(now_ns=now)
        times.enter(phase, now_ns=now)
    assert sum(times.tell(now_ns=now)) == pytest.approx(now / SECOND)
