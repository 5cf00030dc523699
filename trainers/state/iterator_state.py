"""Where a Python iterator stands, and one made anew brought there.

An iterator over something that is still there has no state but its place: the script
makes it again, at its beginning, and it is moved on. Generators have frames, which
nobody can save.
"""

import collections
import itertools
import warnings
from collections.abc import Callable, Iterable
from typing import Any

_SOME: tuple[Iterable[Any], ...] = (
    [], (), range(0), "", b"", {}, {}.values(), {}.items(), set(), collections.deque()
)  # fmt: skip
COUNTED = tuple(type(iter(one)) for one in _SOME)
"""Iterators that know how many items are left."""
OF_OTHERS = (zip, map, filter)
"""What has no place but that of the iterators inside."""
KINDS = (*COUNTED, *OF_OTHERS, enumerate, itertools.cycle, itertools.count)


class NoWayBackError(Exception):
    """The iterator that is there now cannot be moved to the place; the text says why."""


def _reduced(iterator: Any) -> tuple[Any, ...]:
    with warnings.catch_warnings():  # of itertools, from Python 3.12 on
        warnings.simplefilter("ignore", DeprecationWarning)
        found: tuple[Any, ...] = iterator.__reduce__()
    return found


def _of_cycle(iterator: Any) -> int:
    """How many items were drawn from it, but for whole rounds after the second."""
    _, (inner,), (saved, whole) = _reduced(iterator)
    left = inner.__length_hint__() if whole else 0
    return len(saved) * (2 if whole else 1) - left


def _of_count(iterator: Any) -> float:
    _, (value, *step) = _reduced(iterator)
    return value / step[0] if step and step[0] else value


_PLACES: dict[type, Callable[[Any], float]] = {
    **dict.fromkeys(COUNTED, lambda one: -one.__length_hint__()),
    enumerate: lambda one: _reduced(one)[1][1],
    itertools.cycle: _of_cycle,
    itertools.count: _of_count,
}


def inside(iterator: Any) -> list[Any]:
    """The iterators inside of one ``OF_OTHERS``; an argument that is none is left out."""
    return [one for one in _reduced(iterator)[1] if type(one) in KINDS]


def is_followed(iterator: Any) -> bool:
    """Whether ``place`` knows where ``iterator`` stands."""
    if type(iterator) in OF_OTHERS:
        parts = [one for one in _reduced(iterator)[1] if hasattr(one, "__next__")]
        return all(type(one) in KINDS and is_followed(one) for one in parts)
    return type(iterator) in _PLACES


def place(iterator: Any) -> Any:
    """Where ``iterator``, which ``is_followed``, stands, as JSON."""
    if type(iterator) in OF_OTHERS:
        return [place(one) for one in inside(iterator)]
    return _PLACES[type(iterator)](iterator)


def move(iterator: Any, wanted: Any) -> None:
    """Let ``iterator`` stand at the place ``wanted``.

    Raises:
        NoWayBackError: it is another kind, or further on.
    """
    if type(iterator) not in KINDS or isinstance(wanted, list) != (
        type(iterator) in OF_OTHERS
    ):
        message = f"it is a {type(iterator).__name__} now"
        raise NoWayBackError(message)
    if isinstance(wanted, list):
        for one, there in zip(inside(iterator), wanted, strict=True):
            move(one, there)
        return
    steps = round(wanted - _PLACES[type(iterator)](iterator))
    if steps < 0 and type(iterator) is itertools.cycle:
        steps %= len(_reduced(iterator)[2][0])  # a round more
    if steps < 0:
        message = "it is further on than it was"
        raise NoWayBackError(message)
    collections.deque(itertools.islice(iterator, steps), maxlen=0)
