"""The state of a ``PyDataset`` that changes as it is asked for batches.

Many draw from a generator of their own. They are asked ahead of training, how far depends on
timing. What belongs to a step is their state before the batch that comes next was asked for:
it is kept for each batch that was asked for and not trained yet.
"""

import collections
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Protocol

from trainers.data.py_dataset_state import PyDatasetState, changed_names

MOST_TEXT_BYTES, MOST_ARRAY_BYTES = 64 << 10, 1 << 20
"""Of a state that is looked at twice for each batch: some milliseconds."""


class Capture(Protocol):
    """How a dataset's state is copied."""

    def __call__(self, only: Collection[str] | None = None) -> PyDatasetState:
        """As it is now; ``only``: of these attributes."""
        ...


class AskedState:
    """The states of one dataset through a pass, batch by batch.

    Whether asking changes it is judged by the first question of a pass, at which training
    waits: what changes at later ones a callback may have changed.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._lock = threading.Lock()
        self._before: collections.OrderedDict[int, PyDatasetState] = (
            collections.OrderedDict()
        )
        self._after: PyDatasetState | None = None
        self._first = True
        self.names: frozenset[str] = frozenset()
        """Its attributes that asking changes, and that can be followed."""
        self.is_lost = False
        """Whether asking changes what is not saved, or too much of it, or something else
        changes it as well."""

    def begin(self) -> None:
        """A pass begins, or goes on: nothing of it was asked for yet."""
        with self._lock:
            self._before.clear()
            self._after, self._first = None, True

    @contextmanager
    def asked(self, number: int, *, trained: int) -> Iterator[None]:
        """Around asking for batch ``number`` of the pass; ``trained`` were used up."""
        judged, self._first = self._first, False
        if self.is_lost or not (judged or self.names):
            yield
            return
        whole = self._capture() if judged else None
        with self._lock:
            before = self._capture(self.names)
            while self._before and next(iter(self._before)) < trained:
                self._before.popitem(last=False)
            self._before[number] = before
        others = self._after is not None and not self._after.same(before)
        if others or not _is_small(before):
            self.is_lost = True
        yield
        if whole is not None:
            self._judge(number, whole)
        self._after = self._capture(self.names) if self.names else None

    def _judge(self, number: int, before: PyDatasetState) -> None:
        """Find what the question for batch ``number`` has changed."""
        after = self._capture()
        changed = changed_names(before, after)
        if not changed <= self.names:
            self.names |= changed
            with self._lock:
                self._before[number] = PyDatasetState()  # what the pass began with
        self.is_lost = self.is_lost or before.seen != after.seen

    def at(self, trained: int) -> PyDatasetState:
        """Those ``names`` before batch ``trained``, or now, where that was not asked for."""
        with self._lock:
            found = self._before.get(trained)
            return self._capture(self.names) if found is None else found

    def is_ahead_of(self, trained: int) -> bool:
        """Whether batches were asked for that will not be trained, as these were all."""
        return bool(self.names) and any(one >= trained for one in self._before)


def _is_small(state: PyDatasetState) -> bool:
    return len(state.text) <= MOST_TEXT_BYTES and state.array_bytes <= MOST_ARRAY_BYTES
