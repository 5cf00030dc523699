"""Arrays that lie in the memory of another: a row of a table, a window, the same reshaped.

What is written to one of them is read from the others. So where each lies is saved with
the array that has the memory, which is saved once.
"""

import bisect
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import numpy as np

from trainers.snapshots.tensor_image import DTYPES, numpy_dtype
from trainers.state.iterator_state import NoWayBackError

MOST_TIMES = 2
"""An array that has the memory of another is saved for it alone if it is no more than so
many times as large: who keeps one row of each prediction does not want all of them saved."""
SMALL_BYTES = 1 << 20
"""One that has the memory of several is if it is no larger."""
OUTSIDE = "a part of an array is said to lie outside of it"
_WORK = 10_000
"""Steps that are taken to find out whether two arrays have memory in common; beyond them,
and beyond so many arrays that are looked at for one, it is taken for granted."""
_MOST_BESIDE = 100


def owner_of(array: Any) -> np.ndarray | None:
    """The array whose memory ``array`` lies in; None: it has its own, or is none, or it
    cannot be told where in that of the other it lies."""
    owner = array
    while isinstance(getattr(owner, "base", None), np.ndarray):
        owner = owner.base
    if owner is array or type(owner) not in (np.ndarray, np.memmap):
        return None
    whole = owner.flags.c_contiguous or owner.flags.f_contiguous
    known = owner.dtype.name in DTYPES and array.dtype.name in DTYPES
    return owner if whole and known else None


def is_saved_with(array: np.ndarray, owner: np.ndarray) -> bool:
    """Whether ``owner``, whose memory it lies in, is not too large to be saved for it."""
    return owner.nbytes <= MOST_TIMES * array.nbytes


def place_in(array: np.ndarray, owner: np.ndarray) -> dict[str, Any]:
    """Where in ``owner`` it lies, as JSON; bytes."""
    place = {
        "at": _address(array) - _address(owner),
        "shape": list(array.shape),
        "strides": list(array.strides),
        "dtype": array.dtype.name,
    }
    return place if array.flags.writeable else {**place, "fixed": True}


def at_place(owner: np.ndarray, place: Mapping[str, Any]) -> np.ndarray:
    """What ``place_in`` told the place of. Raises NoWayBackError: it is not in ``owner``."""
    memory = owner if owner.flags.c_contiguous else owner.T
    if place["dtype"] not in DTYPES:
        raise NoWayBackError(OUTSIDE)
    try:
        found: np.ndarray = np.ndarray(
            tuple(place["shape"]),
            numpy_dtype(place["dtype"]),
            memory,  # NumPy looks whether all of it lies there
            place["at"],
            tuple(place["strides"]),
        )
    except (TypeError, ValueError) as error:
        raise NoWayBackError(OUTSIDE) from error
    if place.get("fixed", False):
        found.flags.writeable = False
    return found


def are_one(array: Any, other: np.ndarray) -> bool:
    """Whether two arrays are the same part of the same memory."""
    return isinstance(array, np.ndarray) and (
        _seen_as(array) == _seen_as(other)
        and array.flags.writeable is other.flags.writeable
    )


class Parts:
    """Arrays that are saved without the one that they are a part of."""

    def __init__(self) -> None:
        self._of: dict[int, list[tuple[int, int, np.ndarray]]] = {}
        """By the ``id`` of that one: first byte, the one behind the last, array; sorted."""
        self._longest = 0

    def has_some_of(self, owner: np.ndarray) -> bool:
        """Whether a part of ``owner`` was taken up."""
        return id(owner) in self._of

    def add(self, array: np.ndarray, owner: np.ndarray) -> bool:
        """Take up ``array``, whose memory is that of ``owner``; whether it has some in
        common with another that was."""
        parts = self._of.setdefault(id(owner), [])
        first, end = _bounds(array)
        position = bisect.bisect_left(parts, end, key=itemgetter(0))
        near = bisect.bisect_left(parts, first - self._longest, key=itemgetter(0))
        beside = [one for _, behind, one in parts[near:position] if behind > first]
        place = bisect.bisect_left(parts, first, key=itemgetter(0))
        parts.insert(place, (first, end, array))
        self._longest = max(self._longest, end - first)
        return len(beside) > _MOST_BESIDE or any(_overlap(one, array) for one in beside)


def _bounds(array: np.ndarray) -> tuple[int, int]:
    """Its first byte, and the one behind its last (NumPy 1 and 2 have that elsewhere)."""
    pairs = zip(array.shape, array.strides, strict=True)
    ways = [(length - 1) * stride for length, stride in pairs if array.size]
    first = _address(array)
    behind = first + array.itemsize * bool(array.size)
    return first + sum(min(0, way) for way in ways), behind + sum(
        max(0, way) for way in ways
    )


def _overlap(array: np.ndarray, other: np.ndarray) -> bool:
    shares: Any = np.shares_memory  # whose types know no bound of this kind
    try:
        return bool(shares(array, other, max_work=_WORK))
    except np.exceptions.TooHardError:
        return True


def _seen_as(array: np.ndarray) -> tuple[Any, ...]:
    return _address(array), array.shape, array.strides, array.dtype


def _address(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
