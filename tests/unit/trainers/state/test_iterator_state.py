"""Iterators of Python: where they stand, and others brought there."""

import collections
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainers.state import iterator_state

MAKERS: dict[str, Callable[[], Iterator[Any]]] = {
    "list": lambda: iter([1, 2, 3, 4, 5]),
    "tuple": lambda: iter((1, 2, 3)),
    "range": lambda: iter(range(2, 30, 3)),
    "text": lambda: iter("abc"),
    "bytes": lambda: iter(b"abc"),
    "keys": lambda: iter({"a": 1, "b": 2}),
    "values": lambda: iter({"a": 1, "b": 2}.values()),
    "items": lambda: iter({"a": 1, "b": 2}.items()),
    "deque": lambda: iter(collections.deque([1, 2, 3])),
    "enumerate": lambda: iter(enumerate("abcd", 5)),
    "count": lambda: itertools.count(3),
    "count by": lambda: itertools.count(10, -2),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "zip": lambda: zip(range(9), itertools.cycle("ab"), strict=False),
    "map": lambda: map(str, range(9)),
    "filter": lambda: filter(None, [0, 1, 2, 0, 3]),
    "nested": lambda: zip(enumerate("abc"), map(str, itertools.count()), strict=False),
}


@pytest.mark.parametrize("kind", MAKERS)
@given(drawn=st.integers(0, 14), ahead=st.integers(0, 3))
def test_one_made_anew_goes_on_where_the_other_stood(
    kind: str, drawn: int, ahead: int
) -> None:
    """However many were drawn, to the end and beyond; also of one that has been drawn
    from itself, by no more."""
    saved, anew = MAKERS[kind](), MAKERS[kind]()
    assert iterator_state.is_followed(saved)
    list(itertools.islice(saved, drawn))
    list(itertools.islice(anew, min(ahead, drawn)))
    iterator_state.move(anew, iterator_state.place(saved))
    rest = list(itertools.islice(saved, 7))
    assert list(itertools.islice(anew, 7)) == rest


@pytest.mark.parametrize(
    ("anew", "why"),
    [
        (lambda: iter([1, 2]), "further on"),
        (lambda: zip([1], strict=False), "zip"),
        (lambda: (one for one in ""), "generator"),
    ],
)
def test_one_that_cannot_be_brought_there_is_told(
    anew: Callable[[], Iterator[Any]], why: str
) -> None:
    """It is shorter, or another kind."""
    with pytest.raises(iterator_state.NoWayBackError, match=why):
        iterator_state.move(anew(), iterator_state.place(iter([1, 2, 3, 4])))


def test_what_has_frames_or_parts_that_have_is_not_followed() -> None:
    """Generators, and what draws from them."""
    frames = (one for one in "ab")
    assert not iterator_state.is_followed(frames)
    assert not iterator_state.is_followed(zip(frames, "ab", strict=False))
    assert not iterator_state.is_followed(itertools.islice("abc", 2))
