"""``keras.utils.PyDataset``: asked for batches by index, in our order."""

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import keras
import numpy as np
from typing_extensions import override

from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.data import followed_py_dataset
from trainers.data.data_source import DataSource
from trainers.data.sample_order import permutation
from trainers.process.script import python_random
from trainers.snapshots.tensor_image import Tensor


class _Reordered:
    """A ``PyDataset`` whose batches come in our order, from where we stand."""

    asked_by: "weakref.ref[PyDatasetSource] | None" = None
    """Hears of each question; not in worker processes. Not kept alive: TensorFlow keeps
    the functions of Python that a pipeline calls, and with them us, for ever."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.order = np.arange(inner.num_batches)

    def __getitem__(self, index: int) -> Any:
        source = None if self.asked_by is None else self.asked_by()
        with nullcontext() if source is None else source.asking(index):
            return self.inner[int(self.order[index])]

    @property
    def num_batches(self) -> int:
        """Batches that are left of this pass."""
        return len(self.order)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while being unpickled in a worker process
            raise AttributeError(name)
        return getattr(self.inner, name)


def _of_all_threads() -> python_random.State:
    """What eager operations of TensorFlow draw their seeds from. Keras has a generator for
    each thread, and makes it anew for each question, with a seed of Python's generator."""
    return {"eager": backend.random.state()["eager"]}


class PyDatasetSource(DataSource):
    """``keras.utils.PyDataset``: asked by index, in our order."""

    kind = "PyDataset"
    moves_when_glanced_at = False

    def __init__(self, iterator: Any, *, seed: int, fit: int) -> None:
        super().__init__(iterator)
        self._seed, self._fit = seed, fit
        self._shuffle = self.adapter.shuffle
        self._reordered = _Reordered(self.adapter.py_dataset)
        self.adapter.py_dataset = self._reordered
        self.adapter.shuffle = False
        if self.adapter.enqueuer is not None:
            self.adapter.enqueuer.py_dataset = self._reordered
            self.adapter.enqueuer.shuffle = False
        inner = self._reordered.inner
        whole = iterator.steps_per_epoch in (None, inner.num_batches)
        self._followed = followed_py_dataset.Followed(inner, whole_passes=whole)
        self._ahead = python_random.Ahead(_of_all_threads)
        self._first = 0
        if self.adapter.enqueuer is None:  # else nobody knows who draws when
            self._reordered.asked_by = weakref.ref(self)

    @contextmanager
    def asking(self, index: int) -> Iterator[None]:
        """Around the question for the batch ``index`` of what is left of the pass."""
        number = self._first + index
        own = self._followed.asked.asked(number, trained=self.drawn)
        with own, self._ahead.asked(number, trained=self.drawn):
            yield

    @override
    def random_state(self) -> python_random.State | None:
        """Before the batch that comes next was asked for, if asking changes them."""
        return self._ahead.at(self.drawn)

    @override
    def changed_by_asking(self) -> list[Any]:
        """What of the dataset's own changes as it is asked for batches."""
        return self._followed.changed_by_asking()

    @override
    def begin(self) -> Any:
        """A new pass: nothing was asked for yet."""
        self._ahead.begin()
        self._followed.asked.begin()
        return super().begin()

    @override
    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """Give the dataset's own attributes back."""
        self._followed.put_back(stored)

    @override
    def pass_began(self) -> None:
        """Keep the attributes with which this pass began."""
        self._followed.pass_began()

    @override
    def state(self, *, done: bool) -> tuple[list[Tensor], list[str]]:
        """The dataset's own attributes."""
        saved = self._followed.tensors(drawn=self.drawn, done=done)
        told = self._followed.why_not_exact()
        if self._ahead.shared:
            told.append(
                python_random.SHARED.format(type(self._reordered.inner).__name__)
            )
        return saved, told

    @override
    def why_not_exact(self) -> str | None:
        """Why bits cannot be promised."""
        if self.adapter.enqueuer is None:
            return None
        return (
            "a PyDataset with workers may draw random numbers in any order: its batches"
            " are neither repeated nor skipped, but may differ if they are random"
        )

    @override
    def prepare(self, *, begun: int, drawn: int) -> None:
        """Set the order of the pass that comes next."""
        n = self._reordered.inner.num_batches
        order = np.arange(n)
        if self._shuffle:
            order = permutation(n, seed=self._seed, fit=self._fit, begun=begun)
        self._reordered.order = order[drawn:]
        self._first = drawn
        self._ahead.begin()
        self._followed.asked.begin()

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """The rest of the ``begun``-th pass; ``prepare`` has set its order."""
        self.begun, self.drawn = begun, drawn
        return self._iterate(self.dataset)

    @override
    def first_batch(self) -> Any:
        """The batch at index 0."""
        with python_random.untouched():
            batch = keras_compat.standardized(self.adapter, self._reordered.inner[0])
        return keras_compat.tree.map_structure(keras.ops.convert_to_tensor, batch)
