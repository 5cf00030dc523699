"""The arithmetic of slices, for both sides: who plans them, measures them and works
through them.

A batch of n samples is worked through as ``ceil(n / size)`` slices of ``size``
samples; the last one may be shorter.

Steps of one size need now more and now less, by which operations happen to run at once.
So a size counts as fitting only if the highest peak seen of it, and as much again as
that lies above the usual one, stay below the limit. In few steps the highest is not
among them yet: then the ``PRIOR`` holds.

Measured (two cores; 80 to 120 steps of each size; highest over median of what a step
adds): convolutions 1.28 to 1.40 at four sizes, another such network 1.13, a transformer
1.12, an mlp 1.09 and 1.20; with XLA 1.05 to 1.09. From a dozen steps on, the highest
and as much again as it lies above the median bounded the highest of all the steps, but
for one size, where it was 7 % short.
"""

PRIOR = 1.4
"""The highest over the usual one, at most, as measured."""

TIGHT_PART = 0.98
"""A size whose steps need more than this part of the limit is too large: where a step came
nearer a run takes smaller slices, and no trial is said to fit."""

ENOUGH_STEPS = 12
"""So many steps of a size, and what they showed is taken for how it varies."""


def count(*, batch: int, size: int) -> int:
    """How many slices of ``size`` samples a ``batch`` has; at least 1."""
    return max(1, -(-batch // max(1, size)))


def balanced(*, batch: int, size: int) -> int:
    """The smallest size with as many slices as ``size`` has: ``batch`` shared out evenly.

    What costs time is the number of slices; larger ones than these only need memory.
    """
    return -(-batch // count(batch=batch, size=size))


def fewest(*, batch: int, at_least: int) -> int | None:
    """The fewest slices, ``at_least`` so many (2 or more), that share out ``batch`` evenly;
    None: it has not so many samples. Ten samples are 5 or 10 slices, and never 8."""
    if at_least > batch:
        return None
    return count(batch=batch, size=-(-batch // (at_least - 1)) - 1)


def worst(*, usual: float, highest: float, steps: int) -> float:
    """What steps of a size may need at worst, in the unit of what was seen.

    ``usual``: the median of its ``steps``, ``highest``: their most.
    """
    seen = highest + max(0.0, highest - usual)
    return seen if steps >= ENOUGH_STEPS else max(seen, PRIOR * usual)
