"""A value's mark is another once the value is."""

import argparse
import hashlib
import io
import itertools
import logging
import queue
import random
import sqlite3
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainers.state.hidden import fingerprint

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
    ),
)


@given(PLAIN)
def test_a_value_that_stays_keeps_its_mark(value: Any) -> None:
    """NaN too."""
    assert fingerprint.of(value) == fingerprint.of(value)


@given(PLAIN, PLAIN)
def test_values_that_look_different_have_different_marks(one: Any, other: Any) -> None:
    """As far as their text tells."""
    if repr(one) != repr(other):
        assert fingerprint.of(one) != fingerprint.of(other)
        assert fingerprint.of([one, object]) != fingerprint.of([other, object])


class OwnObject:
    """An object of a script."""

    def __init__(self) -> None:
        self.count, self.parts, self.itself = 0, {"a": [1]}, self


class Slots:
    """One without a dictionary."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


def _next(iterator: Any) -> None:
    next(iterator)


CHANGES: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "array": (lambda: np.zeros(5), lambda one: one.__setitem__(3, 1)),
    "view": (lambda: np.zeros((6, 6))[::2, ::3], lambda one: one.fill(1)),
    "objects": (
        lambda: np.array([[1], [2]], object)[:, 0],
        lambda one: one.__setitem__(0, None),
    ),
    "bytes": (lambda: bytearray(b"ab"), lambda one: one.extend(b"c")),
    "attribute": (OwnObject, lambda one: setattr(one, "count", 1)),
    "slot": (Slots, lambda one: setattr(one, "count", 1)),
    "below": (OwnObject, lambda one: one.parts["a"].append(2)),
    "in a list": (lambda: [OwnObject(), len], lambda one: setattr(one[0], "count", 2)),
    "random": (lambda: random.Random(1), lambda one: one.random()),  # noqa: S311
    "generator": (lambda: np.random.default_rng(1), lambda one: one.random()),
    "legacy": (lambda: np.random.RandomState(1), lambda one: one.rand()),
    "frame": (lambda: (one for one in range(4)), _next),
    "list iterator": (lambda: iter([1, 2]), _next),
    "count": (itertools.count, _next),
    "islice": (lambda: itertools.islice(range(9), 8), _next),
    "zip": (lambda: zip(range(4), "abcd", strict=True), _next),
    "text in memory": (io.StringIO, lambda one: one.write("a")),
    "bytes in memory": (io.BytesIO, lambda one: one.write(b"a")),
    "hash": (hashlib.sha256, lambda one: one.update(b"a")),
    "queue": (queue.Queue, lambda one: one.put(1)),
    "database": (
        lambda: sqlite3.connect(":memory:"),
        lambda one: one.executescript("create table a (b); insert into a values (1)"),
    ),
    "weak": (
        lambda: weakref.WeakKeyDictionary({OwnObject: 1}),
        lambda one: one.pop(OwnObject),
    ),
    "of a library": (
        lambda: argparse.Namespace(a=1),
        lambda one: setattr(one, "a", 2),
    ),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_in_place_is_seen(kind: str) -> None:
    """Of each kind that scripts keep state in."""
    make, change = CHANGES[kind]
    value = make()
    before = fingerprint.of(value)
    assert fingerprint.of(value) == before
    change(value)
    assert fingerprint.of(value) != before


def test_a_tensor_is_known_by_what_is_in_it() -> None:
    """Another one may be made in its place in memory."""
    one = fingerprint.of(tf.constant([1.0, 2.0]))
    assert fingerprint.of(tf.constant([1.0, 2.0])) == one
    assert fingerprint.of(tf.constant([1.0, 3.0])) != one


def test_what_logs_is_no_state() -> None:
    """A logger counts, and caches."""
    logger = logging.getLogger("test_what_logs")
    before = fingerprint.of({"logger": logger})
    logger.isEnabledFor(10)
    assert fingerprint.of({"logger": logger}) == before


def test_large_arrays_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of all of them is seen."""
    monkeypatch.setattr(fingerprint, "WHOLE_BYTES", 1000)
    value = np.zeros(10_000)
    before = fingerprint.of(value)
    value += 1
    assert fingerprint.of(value) != before


def test_a_long_list_of_objects_is_looked_at_in_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its length is always seen."""
    monkeypatch.setattr(fingerprint, "MOST_ITEMS", 10)
    value = [Slots() for _ in range(100)]
    before = fingerprint.of(value)
    value.append(Slots())
    assert fingerprint.of(value) != before


@pytest.mark.parametrize("make", [list, tuple, lambda parts: {"kept": parts}])
def test_arrays_in_a_container_are_not_copied(make: Callable[[Any], Any]) -> None:
    """What a callback hoards may be half of the memory: a copy would take the rest."""
    hoard = make([np.ones(1_000_000) for _ in range(12)])  # 96 MB
    tracemalloc.start()
    fingerprint.of(hoard)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16_000_000


def test_of_more_arrays_than_are_saved_a_little_is_read_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So that a look at a leak takes no longer the more it holds; one more, and those
    that are read whole, are seen all the same."""
    monkeypatch.setattr(fingerprint, "ALL_BYTES", 100_000)
    hoard = [np.zeros(100_000, np.uint8) for _ in range(3)]
    before = fingerprint.of(hoard)
    hoard[2][1] = 1  # none of those that are read
    assert fingerprint.of(hoard) == before
    hoard[2][0] = 1
    assert fingerprint.of(hoard) != before
    hoard[2][0], hoard[0][1] = 0, 1
    assert fingerprint.of(hoard) != before
    hoard[0][1] = 0
    assert fingerprint.of(hoard) == before != fingerprint.of([*hoard, hoard[0]])


def test_nothing_of_many_numbers_is_left_out() -> None:
    """Also of those of NumPy: a list of losses may be long."""
    many = [np.float32(0)] * (3 * fingerprint.MOST_ITEMS)
    other = [*many]
    other[1] = np.float32(1)
    assert fingerprint.of(many) != fingerprint.of(other)
    assert fingerprint.of([many, (1,)]) != fingerprint.of([other, (1,)])


def test_containers_may_be_deep_and_hold_themselves() -> None:
    """A look at them comes to its end."""
    deep: list[Any] = []
    for _ in range(5_000):
        deep = [deep]
    knot: list[Any] = [np.ones(1)]
    knot += [knot] * 8
    assert fingerprint.of(deep) == fingerprint.of(deep)
    assert fingerprint.of(knot) == fingerprint.of(knot)
