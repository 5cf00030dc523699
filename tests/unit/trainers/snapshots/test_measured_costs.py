"""What snapshots cost: counted, and as the steps beside them say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.snapshots.measured_costs import (
    MeasuredCosts,
    StepsBesideSaving,
    TierCosts,
)
from trainers.snapshots.schedule import Costs, SnapshotSchedule

SECONDS = st.floats(0.0, 10.0)


def measured(*stalls: float, cores: int = 1, busy: float = 0.0) -> MeasuredCosts:
    """Snapshots in memory that were whole after twice their stall."""
    made = MeasuredCosts(cores=cores)
    for stall in stalls:
        made.saved(made.memory, stall=stall, busy=busy, whole=2 * stall)
    return made


def test_the_first_cost_is_measured_again() -> None:
    """It finds nothing prepared: what the least of the first few costs counts, and the
    next comes soon, until three were measured."""
    cadence = SnapshotSchedule()
    plan = cadence.plan(measured(0.277).costs)
    assert plan.memory_seconds == pytest.approx(20 * 0.277)
    assert "to be measured again" in plan.because
    two = measured(0.277, 0.004)
    assert cadence.plan(two.costs).memory_seconds == pytest.approx(0.08)
    three = measured(0.277, 0.004, 0.004)
    assert cadence.plan(three.costs).memory_seconds == pytest.approx(0.4)


def test_cost_is_the_mean_of_the_last_nine_without_the_outermost() -> None:
    """Processor time of the saving thread counts by its share of the machine."""
    assert MeasuredCosts(cores=4).costs == Costs(settled=False)
    early, counted, dear = [9.0, 9.0], [0.1, 0.3] * 4, [5.0]
    made = measured(*early, *counted, *dear, cores=4, busy=0.4)
    made.saved(made.durable, stall=0.0, busy=2.0, whole=1.0)
    assert made.costs.durable == 0.5
    assert made.costs.memory == pytest.approx((3 * 0.1 + 4 * 0.3) / 7 + 0.1)


@given(counted=SECONDS, lost=st.floats(-1.0, 10.0), whole=SECONDS)
def test_what_steps_lost_counts_as_far_as_it_can_come_of_a_snapshot(
    counted: float, lost: float, whole: float
) -> None:
    """Never less than was counted, never more than twice what it took from its begin to
    its end."""
    tier = TierCosts()
    for _ in range(3):
        tier.counted.append(counted)
        tier.whole.append(whole)
    assert tier.cost == pytest.approx(counted)
    tier.lost.extend([lost] * 3)
    assert tier.cost is not None
    exactly = pytest.approx(max(counted, min(lost, 2 * whole)))
    assert tier.cost == exactly


def passed(
    steps: StepsBesideSaving, *, at: float, saving: bool = False, number: int = 1
) -> float | None:
    """A boundary, so many steps after the one before."""
    return steps.passes(at, steps=number, saving=saving)


def test_steps_beside_a_snapshot_are_compared_with_the_others() -> None:
    """All of those until it is whole, and one more, which finds the caches cold; a step
    that was slow for itself is no measure."""
    steps = StepsBesideSaving()
    now = 0.0
    for taken in (0.0, 1.0, 1.0, 7.0, 1.0):
        now += taken
        assert passed(steps, at=now) is None
    steps.begins()
    assert passed(steps, at=now + 1.5, saving=True) is None
    assert passed(steps, at=now + 2.75) is None
    assert passed(steps, at=now + 4.0) == pytest.approx(1.0)
    assert passed(steps, at=now + 5.0) is None


def test_of_what_a_step_takes_something_must_be_known() -> None:
    """Without ordinary steps there is nothing to compare with."""
    steps = StepsBesideSaving()
    assert passed(steps, at=0.0) is None
    steps.begins()
    for at in (1.0, 2.0, 3.0):
        assert passed(steps, at=at) is None


def test_boundaries_may_be_several_steps_apart() -> None:
    """Each of those took as long as the others; where training went back, or made none,
    nothing is known."""
    steps = StepsBesideSaving()
    assert passed(steps, at=0.0) is None
    for at in (2.0, 4.0, 6.0):
        assert passed(steps, at=at, number=4) is None
    steps.begins()
    assert passed(steps, at=7.0, number=0) is None
    assert passed(steps, at=9.0, number=3, saving=True) is None
    assert passed(steps, at=10.0, number=-7) is None
    assert passed(steps, at=10.75) is None
    assert passed(steps, at=11.5) == pytest.approx(2.0 + 0.75 + 0.75 - 5 * 0.5)


def test_following_a_step_is_a_share_of_the_training_time() -> None:
    """By the median: where a snapshot was taken meanwhile it took longer. However many
    steps are between two boundaries, each counts."""
    steps = StepsBesideSaving()
    assert steps.following == 0.0
    for number in range(12):
        passed(steps, at=number * 0.02, number=3)
        for _ in range(3):
            steps.followed(0.5 if number == 5 else 0.0001)
    assert steps.following == pytest.approx(0.015)
