"""Steps as the trained script tells of them: which were new after a fault, and how many."""

import itertools
import statistics
from collections.abc import Sequence
from typing import NamedTuple


class ToldStep(NamedTuple):
    """A step that was done, or a fault after it."""

    pid: int
    step: int
    at: float
    """Monotonic seconds."""
    fault: str = ""
    """Its name; empty: this is a step."""


class NewStep(NamedTuple):
    """The first step that had not been done before the fault."""

    seconds: float
    """From the fault to its end."""
    again: int
    """Steps that were done a second time before it."""
    at: float


def parse(text: str) -> list[ToldStep]:
    """Whole lines alone: the last may be half written."""
    lines = text.split("\n")[:-1]
    return [_told(line.split()) for line in lines if len(line.split()) >= 3]


def _told(parts: list[str]) -> ToldStep:
    return ToldStep(int(parts[0]), int(parts[1]), float(parts[2]), *parts[3:4])


def first_new(
    told: Sequence[ToldStep], *, since: float, killed: int | None
) -> NewStep | None:
    """None: it did not come yet. ``since``: the fault, in monotonic seconds; ``killed``:
    its process, which may tell of one more step that it was doing."""
    steps = [one for one in told if not one.fault]
    before = [one for one in steps if one.at <= since or one.pid == killed]
    reached = max((one.step for one in before), default=0)
    after = [one for one in steps if one.at > since and one.pid != killed]
    for again, one in enumerate(after):
        if one.step > reached:
            return NewStep(one.at - since, again, one.at)
    return None


def new_steps(told: Sequence[ToldStep], *, since: float, until: float) -> int:
    """How many steps in that time had not been done before."""
    reached, new = 0, 0
    for one in told:
        if one.fault or one.at > until:
            continue
        if one.step > reached:
            reached, new = one.step, new + (one.at > since)
    return new


def step_seconds(told: Sequence[ToldStep]) -> float | None:
    """What a step takes, as the median of those that followed one of the same process,
    without a fault between; None: there are none."""
    gaps = [
        later.at - one.at
        for one, later in itertools.pairwise(told)
        if (later.pid, later.step) == (one.pid, one.step + 1)
        and not (one.fault or later.fault)
    ]
    return statistics.median(gaps) if gaps else None
