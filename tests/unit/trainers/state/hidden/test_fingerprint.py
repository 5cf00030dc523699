"""A value's mark is another once the value is."""

import argparse
import hashlib
import io
import itertools
import logging
import queue
import random
import sqlite3
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
