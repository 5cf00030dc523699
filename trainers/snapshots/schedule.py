"""The snapshot schedule: when the next is due, in which tier; two rules and their grounds.

**Durable**: what is lost when the machine is, against what it costs to lose less. For
failures that come every M seconds and a cost of C, the interval sqrt(2 C M) loses least
(J. W. Young, A first order approximation to the optimum checkpoint interval, CACM
17(9), 1974; J. Daly refined it in 2006 for a C that is not small against M, where the
budget decides here anyway). It takes at most half of the budget.

**Memory**: as often as the rest of the budget allows: an interval of C / rest. The rest is
what the disk and following the steps leave, which for steps of some milliseconds is as
much as a snapshot a second; a quarter of the budget at least.

Without a memory tier the durable one does both: the whole budget is its own.

What a snapshot costs is measured (``measured_costs``).
"""

import math
from dataclasses import dataclass, field

FEW = 20
"""Until then one comes after so many times its cost at the latest."""
LEAST = 0.25
"""Share of the budget that snapshots have in any case."""
YOUNG = "by Young's formula that loses least"
FIRST = "the first snapshot is taken at once; from its cost the next are planned"


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """What a person asked for. Both None: nothing."""

    seconds: float | None = None
    steps: int | None = None

    @property
    def given(self) -> bool:
        """Whether it was asked for, not planned."""
        return self.steps is not None or self.seconds is not None

    def over(self, *, steps: int, seconds: float) -> bool:
        """Whether it is over, ``steps`` and ``seconds`` after it began."""
        by_steps = self.steps is not None and steps >= self.steps
        by_time = self.seconds is not None and seconds >= self.seconds
        return by_steps or by_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """Seconds of training that a snapshot takes. None: not known yet."""

    memory: float | None = None
    durable: float | None = None
    """Beside that of the copy in memory, if there is one."""
    settled: bool = True
    """Whether that in memory was measured often enough."""
    following: float = 0.0
    """Share of the training time that it takes to follow the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalPlan:
    """The intervals to keep. None: no such tier, or counted in steps."""

    memory_seconds: float | None
    durable_seconds: float | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """Which tiers are to have a snapshot now."""

    memory: bool
    durable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSchedule:
    """The rules with their parameters."""

    memory: Interval | None = field(default_factory=Interval)
    """None: there is no such tier."""
    durable: Interval = field(default_factory=Interval)
    budget: float = 0.01
    """Share of the training time that planned snapshots, and following the steps, may take
    together."""
    between_failures: float = 86400.0
    """Mean seconds from one failure to the next."""
    memory_bounds: tuple[float, float] = (0.05, 120.0)
    durable_bounds: tuple[float, float] = (2.0, 900.0)
    """Shortest and longest planned interval, in seconds. The longest wins over the
    budget: what may be lost is bounded."""

    @property
    def by_steps(self) -> bool:
        """Whether an interval was asked for in steps, which is kept to the step."""
        inside = self.memory is not None and self.memory.steps is not None
        return inside or self.durable.steps is not None

    def durable_seconds(self, cost: float, *, other_share: float = 0.0) -> float:
        """The planned interval of durable snapshots that cost so many seconds; the
        ``other_share`` of the training time goes elsewhere."""
        if self.memory is None:
            return _within(cost / self._rest(other_share), self.durable_bounds)
        young = math.sqrt(2 * cost * self.between_failures)
        return _within(max(young, 2 * cost / self.budget), self.durable_bounds)

    def memory_seconds(self, cost: float, *, other_share: float = 0.0) -> float:
        """The planned interval of snapshots in memory that cost so many seconds; the
        ``other_share`` of the training time goes elsewhere."""
        return _within(cost / self._rest(other_share), self.memory_bounds)

    def _rest(self, other_share: float) -> float:
        return max(self.budget - other_share, self.budget * LEAST)

    def plan(self, costs: Costs) -> IntervalPlan:
        """The intervals for snapshots of these costs."""
        durable, of_durable = self._durable_plan(costs)
        share = (costs.durable or 0.0) / durable if durable else 0.0
        memory, of_memory = self._memory_plan(costs, share + costs.following)
        return IntervalPlan(
            memory_seconds=memory,
            durable_seconds=durable,
            because=f"memory: {of_memory}; disk: {of_durable}",
        )

    def due(
        self,
        plan: IntervalPlan,
        *,
        memory: tuple[int, float],
        durable: tuple[int, float],
    ) -> Due:
        """What is due; for each tier the steps and seconds since its last snapshot."""
        return Due(
            memory=self.memory is not None
            and _over(self.memory, plan.memory_seconds, memory),
            durable=_over(self.durable, plan.durable_seconds, durable),
        )

    def _memory_plan(
        self, costs: Costs, other_share: float
    ) -> tuple[float | None, str]:
        if self.memory is None:
            return None, "no snapshots there"
        if self.memory.given:
            return self.memory.seconds, _asked(self.memory)
        cost = costs.memory
        if cost is None:
            return 0.0, FIRST
        seconds = self.memory_seconds(cost, other_share=other_share)
        because = f"one costs {_short(cost)}, the budget is {self.budget:.1%}"
        soon = _within(FEW * cost, self.memory_bounds)
        if not costs.settled and soon < seconds:
            return soon, f"one cost {_short(cost)}, which is to be measured again"
        return seconds, because + _bounded(seconds, self.memory_bounds)

    def _durable_plan(self, costs: Costs) -> tuple[float | None, str]:
        cost = costs.durable
        if self.durable.given:
            return self.durable.seconds, _asked(self.durable)
        if cost is None:
            return 0.0, FIRST
        seconds = self.durable_seconds(cost, other_share=costs.following)
        because = f"one costs {_short(cost)}, "
        if self.memory is None:
            because += f"the budget is {self.budget:.1%}"
        else:
            between = _short(self.between_failures)
            because += f"a failure is expected every {between}; {YOUNG}"
        return seconds, because + _bounded(seconds, self.durable_bounds)


def _over(asked: Interval, planned: float | None, since: tuple[int, float]) -> bool:
    steps, seconds = since
    if steps < 1:
        return False
    if asked.given:
        return asked.over(steps=steps, seconds=seconds)
    return planned is not None and seconds >= planned


def _within(seconds: float, bounds: tuple[float, float]) -> float:
    return min(max(seconds, bounds[0]), bounds[1])


def _asked(interval: Interval) -> str:
    if interval.steps is not None:
        return f"every {interval.steps} steps, as asked for"
    return "as asked for"


def _bounded(seconds: float, bounds: tuple[float, float]) -> str:
    if seconds == bounds[0]:
        return ", not more often than that"
    return ", not more seldom than that" if seconds == bounds[1] else ""


def _short(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 600 else f"{seconds / 3600:.3g} h"
