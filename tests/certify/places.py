"""Where a run is killed: drawn, by a seed, from the places an undisturbed one passed."""

import random
from dataclasses import dataclass, replace

SLOW_START_SECONDS = 0.4
"""A first step traces and compiles for about as long; without any of that, it is shorter."""


DRAINED = 0.25
"""Share of the deaths that are drains: SIGTERM, and the state is saved first."""

MOMENTS = {
    "snapshot": "during a snapshot",
    "test": "during validation",
    "epoch_end": "at the end of an epoch",
    "epoch_begin": "between epochs",
    "first": "the first step",
    "between": "between two fits",
    "step": "in another step",
}
"""What a kind of place is called; a run of the whole table has to meet each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """One kill."""

    where: str
    """A place of the trail, or ``snapshot:N``: before its N-th file operation."""
    delay_seconds: float = 0.0
    how: str = "KILL"
    at_latest: str = ""
    """A place that comes after ``where``, and may come before a snapshot."""

    @property
    def text(self) -> str:
        """The place, how much later, and how."""
        later = f"+{1000 * self.delay_seconds:.1f}ms" if self.delay_seconds else ""
        drained = " drained" if self.how == "TERM" else ""
        return f"{self.where}{later}{drained}"


def kind(place: str) -> str:
    """``step`` of ``step:0:1:5``."""
    return place.partition(":")[0]


def deaths(
    trail: list[str],
    *,
    seed: str,
    kills: int,
    slow_start: float = SLOW_START_SECONDS,
) -> list[Death]:
    """``kills`` deaths in the order in which a run meets them; that of the first step comes
    within ``slow_start`` seconds, while it still lasts.

    One of each kind of place first (the first step, in a step, in validation, at the
    end of an epoch, between two epochs, between two fits), as far as they go, the rest
    anywhere in a step; one of them, never the last, hits a snapshot.
    """
    draw = random.Random(seed)  # noqa: S311  # drawn to be drawn again
    at = {place: index for index, place in enumerate(trail)}
    by_kind: dict[str, list[str]] = {}
    for place in trail[1:]:
        by_kind.setdefault(kind(place), []).append(place)
    steps = by_kind["step"]
    kinds = sorted(set(by_kind) - {"step", "begin"})
    draw.shuffle(kinds)
    places = {draw.choice(by_kind[one]) for one in kinds[: kills - 2]}
    while len(places) < kills - 1:
        places.add(draw.choice(steps))
    if draw.random() < 0.5:  # the first step of all instead of the first of these
        places = {steps[0], *sorted(places, key=at.__getitem__)[1:]}
    ordered = sorted(places, key=at.__getitem__)
    starts = min(slow_start, SLOW_START_SECONDS)
    found = [
        _death(place, starts=starts if place == steps[0] else None, draw=draw)
        for place in ordered
    ]
    index = draw.randrange(len(found))
    where, latest = f"snapshot:{draw.randint(1, 14)}", found[index].where
    return [
        *found[:index],
        Death(where=where, at_latest=latest),
        *found[index:],
    ]


def reachable(ahead: list[Death], passed: set[str]) -> list[Death]:
    """``ahead`` without those that a run does not meet any more.

    A drained attempt saves its state at the next boundary: what it passed on its way
    there is over for good.
    """
    left = [death for death in ahead if death.where not in passed]
    if left and left[0].at_latest in passed:
        later = [death.where for death in left[1:]]
        left[0] = replace(left[0], at_latest=later[0] if later else "")
    return left


def _death(place: str, *, starts: float | None, draw: random.Random) -> Death:
    if starts is not None:
        return Death(where=place, delay_seconds=draw.uniform(0.001, starts))
    how = "TERM" if draw.random() < DRAINED else "KILL"
    inside = kind(place) == "step"
    later = draw.uniform(1e-4, 4e-3) if inside else 0.0
    return Death(where=place, delay_seconds=later, how=how)


def moment(reached: str, *, first_step: str) -> str | None:
    """Which of ``MOMENTS`` the place is at which a run died; None: none of them."""
    if reached == first_step:
        return "the first step"
    return MOMENTS.get(kind(reached))
