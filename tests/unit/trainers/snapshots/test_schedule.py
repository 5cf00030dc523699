"""When snapshots are due: two rules, and their bounds."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.snapshots.schedule import (
    Costs,
    Due,
    Interval,
    IntervalPlan,
    SnapshotSchedule,
)

costs = st.floats(1e-5, 1e3)
means = st.floats(10, 1e8)
budgets = st.floats(0.001, 0.5)
NEVER = (0, 0.0)


@given(memory=costs, durable=costs, mean=means, budget=budgets)
def test_both_tiers_together_stay_within_the_budget(
    memory: float, durable: float, mean: float, budget: float
) -> None:
    """Unless what may be lost is at its bound."""
    cadence = SnapshotSchedule(budget=budget, between_failures=mean)
    plan = cadence.plan(Costs(memory=memory, durable=durable))
    assert plan.memory_seconds is not None
    assert plan.durable_seconds is not None
    share = memory / plan.memory_seconds + durable / plan.durable_seconds
    bounded = (plan.memory_seconds, plan.durable_seconds)
    longest = (cadence.memory_bounds[1], cadence.durable_bounds[1])
    assert share <= budget * 1.000001 or any(map(float.__eq__, bounded, longest))


@given(memory=costs, durable=costs, budget=budgets, part=st.floats(0.0, 1.0))
def test_following_the_steps_is_part_of_the_budget(
    memory: float, durable: float, budget: float, part: float
) -> None:
    """A quarter of the budget is the snapshots' whatever else is done a step."""
    cadence, following = SnapshotSchedule(budget=budget), part * budget
    plan = cadence.plan(Costs(memory=memory, durable=durable, following=following))
    assert plan.memory_seconds is not None
    assert plan.durable_seconds is not None
    longest = cadence.memory_bounds[1]
    share = memory / plan.memory_seconds
    disk = durable / plan.durable_seconds
    most = max(budget - following - disk, budget / 4)
    assert share <= most * 1.000001 or plan.memory_seconds == longest


@given(cost=costs, mean=means, budget=budgets)
def test_intervals_are_within_their_bounds_and_follow_their_causes(
    cost: float, mean: float, budget: float
) -> None:
    """A dearer snapshot is never taken more often, nor one that is needed less."""
    cadence = SnapshotSchedule(budget=budget, between_failures=mean)
    durable, memory = cadence.durable_seconds(cost), cadence.memory_seconds(cost)
    assert cadence.durable_bounds[0] <= durable <= cadence.durable_bounds[1]
    assert cadence.memory_bounds[0] <= memory <= cadence.memory_bounds[1]
    assert cadence.durable_seconds(cost * 2) >= durable
    assert cadence.memory_seconds(cost * 2) >= memory
    seldom = SnapshotSchedule(budget=budget, between_failures=mean * 2)
    assert seldom.durable_seconds(cost) >= durable


@given(cost=st.floats(1e-3, 1), mean=st.floats(1e4, 1e6), other=st.floats(0.1, 10))
def test_no_other_interval_loses_less_than_youngs(
    cost: float, mean: float, other: float
) -> None:
    """The expected loss a second, C/T + T/2M, is least where the budget and the bounds
    leave the interval alone."""
    cadence = SnapshotSchedule(
        budget=0.5, between_failures=mean, durable_bounds=(0.0, math.inf)
    )
    planned = cadence.durable_seconds(cost)
    if planned == 2 * cost / 0.5:
        return

    def loss(interval: float) -> float:
        return cost / interval + interval / (2 * mean)

    assert loss(planned) <= loss(planned * other) * (1 + 1e-9)


@given(cost=costs, budget=budgets, mean=means)
def test_without_memory_the_disk_has_the_whole_budget(
    cost: float, budget: float, mean: float
) -> None:
    """Then it is what a crashed process goes on from."""
    cadence = SnapshotSchedule(memory=None, budget=budget, between_failures=mean)
    plan = cadence.plan(Costs(durable=cost))
    assert plan.memory_seconds is None
    assert plan.durable_seconds is not None
    assert cost / plan.durable_seconds <= budget * 1.000001 or (
        plan.durable_seconds == cadence.durable_bounds[1]
    )
    assert "no snapshots there" in plan.because


def test_first_snapshot_comes_at_once_and_none_without_a_step() -> None:
    """The random initial weights cannot be had again; a state that did not change is
    not saved twice."""
    cadence = SnapshotSchedule()
    plan = cadence.plan(Costs())
    assert cadence.due(plan, memory=(1, 0.0), durable=(1, 0.0)) == Due(
        memory=True, durable=True
    )
    late = (0, 1e9)
    assert cadence.due(plan, memory=late, durable=late) == Due(
        memory=False, durable=False
    )


@pytest.mark.parametrize(
    ("since", "due"), [((9, 4.0), False), ((10, 0.0), True), ((1, 5.0), True)]
)
def test_given_intervals_are_kept(
    since: tuple[int, float],
    due: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    """By steps or by time, whichever comes first, whatever a snapshot costs; each tier
    has its own."""
    asked = Interval(steps=10, seconds=5)
    plan = SnapshotSchedule(durable=asked, memory=asked).plan(
        Costs(memory=99, durable=99)
    )
    cadence = SnapshotSchedule(durable=asked, memory=asked)
    assert cadence.due(plan, memory=since, durable=since) == Due(
        memory=due, durable=due
    )
    other = SnapshotSchedule(durable=asked, memory=None)
    assert other.due(other.plan(Costs()), memory=since, durable=since) == Due(
        memory=False, durable=due
    )


def test_plan_says_why() -> None:
    """In figures that a person can check."""
    cadence = SnapshotSchedule(between_failures=7200, memory=Interval(steps=20))
    plan = cadence.plan(Costs(memory=0.01, durable=0.04))
    assert plan == IntervalPlan(
        memory_seconds=None,
        durable_seconds=24.0,
        because=(
            "memory: every 20 steps, as asked for; disk: one costs 40 ms, a failure is"
            " expected every 2 h; by Young's formula that loses least"
        ),
    )
    slow = SnapshotSchedule().plan(Costs(memory=10.0, durable=30.0))
    assert slow.because.count("not more seldom than that") == 2
