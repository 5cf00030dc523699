"""What snapshots cost training, measured: what was counted, and what the steps say.

Counted is how long training stood still for a snapshot, and what the saving thread took
from it: the time that it held the interpreter's lock, and the rest of its processor time,
shared by the machine's cores. Not counted is what it costs to hand the lock over and
back, which a step of Python pays some forty times a snapshot (twice what was counted, for
a small model that trains eagerly): the steps beside which a snapshot is saved take so much
longer than the others.
"""

import math
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from trainers.snapshots.schedule import Costs

OBSERVED = 9
"""Snapshots that tell what one costs: their mean, without the dearest and the cheapest,
which may have met a busy moment or been a moment's rest."""
SETTLED = 3
"""So many tell what one costs: the first finds nothing prepared (memory to map, modules to
import), and may cost fifty times as much as the next."""
USUAL = 9
"""Steps whose median is what a step takes that nothing is saved beside."""


def _observed() -> deque[float]:
    return deque(maxlen=OBSERVED)


@dataclass(slots=True)
class TierCosts:
    """Seconds that snapshots in one tier cost; told and asked by different threads."""

    counted: deque[float] = field(default_factory=_observed)
    whole: deque[float] = field(default_factory=_observed)
    """From the moment that training stood still until the snapshot was whole."""
    lost: deque[float] = field(default_factory=_observed)
    """By the steps beside which it was saved."""

    @property
    def settled(self) -> bool:
        """Whether it was measured often enough."""
        return len(self.counted) >= SETTLED

    @property
    def cost(self) -> float | None:
        """What one costs now; None: there was none.

        What steps lost counts as far as it can come of a snapshot: all of the time until
        it is whole, and as much again for what follows (it is told, and training finds its
        caches cold). Steps differ for other reasons, too.
        """
        if not self.settled:
            return min(self.counted, default=None)
        counted = _usual(self.counted)
        if len(self.lost) < SETTLED:
            return counted
        return max(counted, min(_usual(self.lost), 2 * _usual(self.whole)))


@dataclass(slots=True, kw_only=True)
class MeasuredCosts:
    """The costs of the last snapshots in both tiers."""

    cores: int
    memory: TierCosts = field(default_factory=TierCosts)
    durable: TierCosts = field(default_factory=TierCosts)
    """Beside those of the copy in memory, if there is one."""

    def saved(
        self, tier: TierCosts, *, stall: float, busy: float, whole: float
    ) -> None:
        """A snapshot is in ``tier``, ``whole`` seconds after training stood still for it:
        for ``stall`` seconds, and ``busy`` more of processor time beside it."""
        tier.counted.append(stall + busy / max(self.cores, 1))
        tier.whole.append(whole)

    @property
    def costs(self) -> Costs:
        """What a snapshot costs now."""
        return Costs(
            memory=self.memory.cost,
            durable=self.durable.cost,
            settled=self.memory.settled,
        )


@dataclass(slots=True)
class StepsBesideSaving:
    """Compares the steps beside which a snapshot is saved with the others."""

    _usual: deque[float] = field(default_factory=lambda: deque[float](maxlen=USUAL))
    _following: deque[float] = field(default_factory=lambda: deque[float](maxlen=USUAL))
    """Share of the time between two boundaries that it took to follow the steps."""
    _followed: float = 0.0
    """Seconds, since the boundary before."""
    _before: float | None = None
    """When the boundary before was passed."""
    _beside: float | None = None
    """What the steps took since a snapshot was taken that is not whole yet; None: there is
    none."""
    _steps_beside: int = 0
    _is_whole: bool = False
    """Whether that snapshot is: what follows it is counted, too, until the next boundary."""

    def followed(self, seconds: float) -> None:
        """It took so long to follow a step."""
        self._followed += seconds

    @property
    def following(self) -> float:
        """Share of the training time that following the steps takes; 0 until it is
        known."""
        if len(self._following) < SETTLED:
            return 0.0
        return min(_median(self._following), 1.0)

    def begins(self) -> None:
        """A snapshot is taken at the boundary that was passed last."""
        self._beside, self._steps_beside, self._is_whole = 0.0, 0, False

    def passes(self, now: float, *, steps: int, saving: bool) -> float | None:
        """A boundary is passed at ``now`` (monotonic seconds), ``steps`` steps after the
        one before.

        ``saving``: the snapshot is not whole yet. Returns the seconds that steps lost to
        it, at the second boundary after it is; None: nothing is known.
        """
        before, self._before = self._before, now
        followed, self._followed = self._followed, 0.0
        if before is None or steps < 1:  # training began, or went back
            return None
        took = now - before
        if took > 0.0:
            self._following.append(followed / took)
        if self._beside is None:
            self._usual.append(took / steps)
            return None
        self._beside += took
        self._steps_beside += steps
        if saving or not self._is_whole:
            self._is_whole = not saving
            return None
        beside, self._beside = self._beside, None
        if len(self._usual) < SETTLED:
            return None
        return beside - self._steps_beside * _median(self._usual)


def _usual(values: Collection[float]) -> float:
    """The mean without the outermost two."""
    inner = sorted(values)[1:-1]
    return math.fsum(inner) / len(inner)


def _median(values: Collection[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
