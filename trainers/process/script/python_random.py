"""Data that draw from the global generators of Python, NumPy and the framework as they are
asked.

Many a ``PyDataset`` augments its samples with ``np.random``, or ``tf.image.random_...``. It
is asked for batches ahead of training, so the generators stand further than the step of a
snapshot; how far depends on timing. What belongs to a step is their state before the batch
that comes next was asked for: it is kept for each batch that was asked for and not trained
yet.
"""

import collections
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trainers.process.script import run_entropy

LOOKED_AT = 32
"""Batches of a pass after which it is taken for one that draws nothing: to look takes
50 µs a batch."""

SHARED = (
    "a global generator of random numbers (Python's, NumPy's or the framework's) is drawn"
    " from as the PyDataset {} is asked for batches, ahead of training, and by something"
    " else meanwhile, or so it seems: who comes first depends on timing, so what is drawn"
    " after a restart may differ"
)

State = dict[str, Any]
"""Of both generators, and of what seeds others, by the names that a snapshot has."""


def state() -> State:
    """How both global generators stand now, and how often others asked for a seed."""
    return {
        "python": random.getstate(),
        "numpy": np.random.get_state(legacy=False),  # noqa: NPY002  # the global one
        "entropy": run_entropy.counts(),
    }


def put_back(kept: State) -> None:
    """Let both global generators stand as they stood."""
    random.setstate(kept["python"])
    np.random.set_state(kept["numpy"])  # noqa: NPY002  # the global one
    run_entropy.put_back(kept.get("entropy"))


def same(one: State, other: State) -> bool:
    """Whether nothing was drawn between the two."""
    ours, theirs = one["numpy"], other["numpy"]
    if ours["bit_generator"] != theirs["bit_generator"]:
        return False
    if one["entropy"] != other["entropy"]:
        return False
    if "key" not in ours["state"]:  # another bit generator than the usual one
        return one["python"] == other["python"] and repr(ours) == repr(theirs)
    return (
        one["python"] == other["python"]
        and ours["state"]["pos"] == theirs["state"]["pos"]
        and ours["has_gauss"] == theirs["has_gauss"]
        and np.array_equal(ours["state"]["key"], theirs["state"]["key"])
    )


@contextmanager
def untouched() -> Iterator[None]:
    """What is drawn within is drawn again after it."""
    before = state()
    try:
        yield
    finally:
        put_back(before)


class Ahead:
    """The generators as one pass over the data is asked for, batch by batch.

    Whether asking draws is judged by the first question of each pass, at which training
    waits (many augment from some epoch on): at later ones a callback may draw meanwhile, and
    what has changed may be either's doing. Of the framework's generators those first questions
    alone tell: a step may draw from them.
    """

    def __init__(self, framework: Callable[[], State] = dict) -> None:
        """``framework``: how those of the framework stand now that all threads share, by
        their names."""
        self._framework = framework
        self._names: frozenset[str] = frozenset()
        """Of the framework's generators, those that the first batch of a pass has changed."""
        self._lock = threading.Lock()
        self._before: collections.OrderedDict[int, State] = collections.OrderedDict()
        self._after: State | None = None
        self._looks = LOOKED_AT
        self._was_asked = False
        self._asking = False
        self.draws = False
        """Whether the first batch of a pass has changed them."""
        self.shared = False
        """Whether they have changed otherwise as well, or by nobody knows whom."""

    def begin(self) -> None:
        """A pass begins: nothing of it was asked for yet."""
        with self._lock:
            self._before.clear()
            self._after, self._looks, self._was_asked = None, LOOKED_AT, False

    @contextmanager
    def asked(self, number: int, *, trained: int) -> Iterator[None]:
        """Around asking for batch ``number`` of the pass; ``trained`` were used up."""
        if not self._has_drawn and self._looks == 0:
            yield
            return
        judged = self._framework() if not self._was_asked else {}
        with self._lock:
            before = self._state()
            while self._before and next(iter(self._before)) < trained:
                self._before.popitem(last=False)
            self._before[number] = before
            self._asking, first = True, not self._was_asked
            self._was_asked = True
        if self._after is not None and not self._is_as(self._after, before):
            self.shared = True
        after: State | None = None
        try:
            yield
            if judged:
                self._judge(judged, before)
            after = self._state() if self._looks or self._has_drawn else None
        finally:
            with self._lock:
                self._asking, self._after = False, after
        with self._lock:
            looked, self._looks = self._looks > 0, max(0, self._looks - 1)
            if (
                looked
                and after is not None
                and not self.draws
                and not same(before, after)
            ):
                self.draws, self.shared = first, self.shared or not first

    @property
    def _has_drawn(self) -> bool:
        return self.draws or bool(self._names)

    def _state(self) -> State:
        """Of Python's and NumPy's, and of those of the framework that are drawn from."""
        if not self._names:
            return state()
        ours = self._framework()
        return {**state(), **{name: ours[name] for name in self._names}}

    def _judge(self, framework: State, before: State) -> None:
        """Find those of the ``framework`` that the first batch has changed."""
        now = self._framework()
        self._names |= {name for name in framework if framework[name] != now[name]}
        before.update({name: framework[name] for name in self._names})

    def _is_as(self, one: State, other: State) -> bool:
        """Whether what the data draw from stands in ``one`` as it does in ``other``."""
        return (not self.draws or same(one, other)) and all(
            one[name] == other[name] for name in self._names
        )

    def at(self, trained: int) -> State | None:
        """How those stood before batch ``trained`` that the data draw from, or stand where it
        was not asked for yet; None: they draw from none."""
        with self._lock:
            if not self._has_drawn:
                return None
            found = self._before.get(trained)
            now = self._state()  # nothing begins to be asked meanwhile
            after = None if self._asking else self._after
            if found is not None and after is not None:
                # Or training itself has drawn since.
                self.shared = self.shared or not self._is_as(after, now)
            found = now if found is None else found
            return found if self.draws else {name: found[name] for name in self._names}
