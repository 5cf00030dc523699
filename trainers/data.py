# ruff: noqa: SLF001  # the private names of Keras: see the table in seams_fit
"""Where the data of a ``fit`` continue, and in which order they come.

What each kind costs to take up in the middle, and what it promises:

| kind | order | to continue |
| --- | --- | --- |
| arrays | ours | O(1): the rest of the permutation |
| ``PyDataset`` | ours | O(1): the rest of the indices |
| ``tf.data`` | its own: iterated as often as before | reads what comes before, once |
| generator | its own: replayed from its start | runs it up to the position |
| loader (Grain, PyTorch) | its own: iterated anew each epoch | reads what comes before, once |

**Arrays.** A script that set a global seed gets exactly the order it gets without
supervision: Keras then draws one permutation and repeats it in every epoch. (So a
supervised run of a seeded script equals an unsupervised one bit for bit.) Without a seed
Keras draws a new permutation each epoch that nobody can draw again; ours are new each
epoch as well, from the job's own seed, the call of ``fit`` and how often the data were
begun. Seeding the script globally instead would freeze its reshuffling.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from trainers import (
    data_fingerprint,
    data_pipelines,
    data_random,
    data_sizes,
    data_state,
    seams_values,
)
from trainers import seams_fit as seams
from trainers.frameworks import deterministic_seed
from trainers.tensors import Tensor

tf = seams.tf


as_written = tf.autograph.experimental.do_not_convert
"""AutoGraph looks for modules by name: ours may be hidden behind the script's own."""


def _untold(_size: int) -> None:
    """Nobody asked."""


def permutation(n: int, *, seed: int, fit: int, begun: int) -> np.ndarray:
    """The order (n,) int64 of samples; one for each way in which they differ."""
    generator = np.random.Generator(np.random.PCG64([seed, fit, begun]))
    return generator.permutation(n)


class Source:
    """The training data of one ``fit``: also the kind for ``tf.data``.

    ``begun`` counts how often an iterator was made (Keras makes one more at each end of
    an epoch than it uses), ``used`` how many before the present one were drawn from,
    ``drawn`` the batches taken from the present one.
    """

    kind = "tf.data"

    def __init__(self, iterator: Any) -> None:
        """``iterator``: the epoch iterator that was just constructed."""
        self.adapter = iterator.data_adapter
        self.dataset = data_pipelines.in_order(iterator._distributed_dataset)
        self.begun = 0
        self.used = 0
        self.drawn = 0
        self.total: int | None = None
        """Batches of one pass, where an earlier attempt knew."""
        self.tell_batch: Callable[[int], None] = _untold
        """Called once, when the first batch shows a size that was not known before."""
        self._stated: int | None = None
        self._samples: int | None = None
        self._seen: int | None = None
        if isinstance(self.dataset, tf.data.Dataset):
            self._stated = data_sizes.batch_of(self.dataset)
            self._samples = data_sizes.samples_of(self.dataset)

    @property
    def batch(self) -> int | None:
        """Samples a step; None where that is not known before the first is drawn."""
        if self._stated is not None and self._samples:
            return min(self._stated, self._samples)
        return self._stated or self._seen

    def saw(self, size: int | None) -> None:
        """The first batch is drawn, by whichever thread."""
        if self.batch is None and size:
            self._seen = size
            self.tell_batch(size)

    def _iterate(self, dataset: Any) -> Any:
        """An iterator that tells what the batch is, where that is not known yet."""
        known = self.batch is not None
        return iter(dataset if known else data_sizes.telling(dataset, self.saw))

    @property
    def samples(self) -> int | None:
        """Samples in the data; None where unknown."""
        return self._samples

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of a batch."""
        return self.dataset.element_spec

    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """What the data look like: compared when a run goes on with them."""
        return {"kind": self.kind, **data_fingerprint.of_pipeline(self.dataset)}

    def why_not_exact(self) -> str | None:
        """Why bits cannot be promised, in a sentence; None if they can."""
        return data_pipelines.why_not_exact(self.dataset)

    def prepare(self, *, begun: int, drawn: int) -> None:
        """Know the position before Keras' ``on_epoch_begin`` may start workers."""

    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """Give the data the state in themselves that a snapshot has of them."""

    def pass_began(self) -> None:
        """``on_epoch_begin`` is done, and nothing drawn yet."""

    def state(self, *, done: bool) -> tuple[list[Tensor], list[str]]:  # noqa: ARG002  # for others
        """What to save of the data themselves, and why that is not all of it.

        ``done``: the fit is over.
        """
        return [], []

    def random_state(self) -> data_random.State | None:
        """The global generators as they belong to this step; None: as they stand now."""
        return None

    def begin(self) -> Any:
        """A new iterator over the data from their beginning."""
        self.used += self.drawn > 0
        self.begun += 1
        self.drawn = 0
        return self._iterate(self.dataset)

    def resume(self, *, begun: int, drawn: int) -> Any:
        """The iterator that was the ``begun``-th, after ``drawn`` batches."""
        self.begun, self.drawn = begun, drawn
        if self.total is not None and drawn >= self.total:
            # Nobody will ask it for anything: it would not get below its shuffles.
            data_pipelines.replay(self.dataset, made=begun, used=self.used + 1)
            return iter(self.dataset.take(0))
        data_pipelines.replay(self.dataset, made=begun - 1, used=self.used)
        return self._iterate(self.dataset.skip(drawn) if drawn else self.dataset)

    def first_batch(self) -> Any:
        """A batch to measure with; the order of the data is left as it was."""
        batch = data_pipelines.a_batch(self.dataset)
        if batch is None:
            # Told by ``why_not_exact``: such a pipeline is not exact anyway.
            batch = next(iter(self.dataset))
        return batch


class GeneratorSource(Source):
    """A Python generator: its state is its own."""

    kind = "generator"

    def why_not_exact(self) -> str:
        """Why bits cannot be promised."""
        return (
            "the training data come from a Python generator, whose state cannot be"
            " saved: it is replayed from its start, which is exact only if it yields"
            " the same batches again"
        )

    def begin(self) -> Any:
        """The generator goes on where it is: Keras never starts one again."""
        self.begun += 1
        return self._iterate(self.dataset)

    def first_batch(self) -> Any:
        """The batch that Keras peeked at."""
        return self.adapter._first_batches[0]


class LoaderSource(Source):
    """A loader of another library (Grain, PyTorch): each pass iterates it anew."""

    kind = "loader"

    def why_not_exact(self) -> str:
        """Why bits cannot be promised."""
        name = type(self.adapter).__name__.removesuffix("Adapter")
        return (
            f"the training data come from a loader of another library ({name}), whose"
            " state cannot be saved: an epoch is iterated again from its start, which is"
            " exact only if it yields the same batches again"
        )


class ArraySource(Source):
    """NumPy arrays and tensors: our permutation, Keras' way of taking the slices."""

    kind = "arrays"

    def __init__(self, iterator: Any, *, seed: int, fit: int) -> None:
        super().__init__(iterator)
        self._seed, self._fit = seed, fit
        adapter = self.adapter
        self._n, self._batch = adapter._num_samples, adapter._batch_size
        self._shuffle = adapter._shuffle
        self._repeated = self._keras_order(seed) if self._shuffle else None
        self._order = np.arange(self._n)
        self._spec = self.dataset.element_spec
        self.dataset = self._make_dataset()

    @property
    def batch(self) -> int:
        """Samples a step."""
        return self._batch

    @property
    def samples(self) -> int:
        """Samples in the arrays."""
        return self._n

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of a batch, as Keras' own pipeline has them."""
        return self._spec

    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """Shapes, dtypes and some of the rows."""
        return {"kind": self.kind, **data_fingerprint.of_arrays(self.adapter._inputs)}

    def why_not_exact(self) -> None:
        """Arrays are exact."""
        return

    def _keras_order(self, seed: int) -> np.ndarray | None:
        """The order Keras repeats in each epoch of a seeded script; None without."""
        if seams_values.global_seed() in (None, deterministic_seed(seed)):
            return None
        # A permutation of all does not depend on the batch; shuffled batches do.
        batch = self._batch if self._shuffle == "batch" else self._n
        indices = seams.ArrayDataAdapter(
            np.arange(self._n), batch_size=batch, shuffle=self._shuffle
        )
        batches = [seams.tree.flatten(b)[0] for b in indices.get_tf_dataset()]
        return np.concatenate([batch.numpy() for batch in batches])

    def order(self, begun: int) -> np.ndarray:
        """The samples (n,) int64 in the order of the ``begun``-th time."""
        if not self._shuffle:
            return np.arange(self._n)
        if self._repeated is not None:
            return self._repeated
        if self._shuffle != "batch":
            return permutation(self._n, seed=self._seed, fit=self._fit, begun=begun)
        order = np.arange(self._n)
        mixed = permutation(self._n, seed=self._seed, fit=self._fit, begun=begun)
        for start in range(0, self._n, self._batch):
            part = order[start : start + self._batch]
            part[:] = start + np.argsort(mixed[start : start + self._batch])
        return order

    def begin(self) -> Any:
        """An iterator over a new permutation."""
        return self._from(begun=self.begun + 1, drawn=0)

    def resume(self, *, begun: int, drawn: int) -> Any:
        """An iterator over the rest of the ``begun``-th permutation."""
        return self._from(begun=begun, drawn=drawn)

    def _from(self, *, begun: int, drawn: int) -> Any:
        self.begun, self.drawn = begun, drawn
        # Read when the new iterator is first asked; an older one has read its own.
        self._order = self.order(begun)[drawn * self._batch :]
        return iter(self.dataset)

    def first_batch(self) -> Any:
        """The first samples, in their own order."""
        inputs = self._sliceable()
        return _gather(inputs, tf.range(min(self._batch, self._n), dtype=tf.int64))

    def _sliceable(self) -> Any:
        inputs = seams.array_slicing.convert_to_sliceable(
            self.adapter._inputs, target_backend="tensorflow"
        )
        return seams.tree.lists_to_tuples(inputs)

    def _make_dataset(self) -> Any:
        """Keras' pipeline (``ArrayDataAdapter.get_tf_dataset``) with our indices."""
        data = tf.data.Dataset
        indices = data.range(1).map(
            as_written(
                lambda _: tf.ensure_shape(
                    tf.numpy_function(lambda: self._order, [], tf.int64), [None]
                )
            )
        )
        batches = indices.flat_map(as_written(self._in_batches))
        pairs = data.zip((batches, data.from_tensors(self._sliceable()).repeat()))
        dataset = pairs.map(
            as_written(lambda i, inputs: _gather(inputs, i)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        options = tf.data.Options()
        options.experimental_optimization.apply_default_optimizations = False
        return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)

    def _in_batches(self, order: Any) -> Any:
        full = tf.shape(order, out_type=tf.int64)[0] // self._batch
        shaped = tf.reshape(order[: full * self._batch], [full, self._batch])
        dataset = tf.data.Dataset.from_tensor_slices(shaped)
        if self._n % self._batch:
            rest = tf.data.Dataset.from_tensors(order[full * self._batch :])
            dataset = dataset.concatenate(rest)
        return dataset


def _gather(inputs: Any, indices: Any) -> Any:
    wrapper = seams.array_slicing.TensorflowSparseWrapper

    def take(value: Any) -> Any:
        if isinstance(value, wrapper):
            return seams.array_slicing.slice_tensorflow_sparse_wrapper(value, indices)
        if isinstance(value, (list, tuple, dict)):
            return None  # goes on inside
        if tf.is_tensor(value):
            return tf.gather(value, indices, axis=0)
        # NumPy arrays are tensors only inside of a dataset.
        return value[np.asarray(indices)] if isinstance(value, np.ndarray) else value

    return seams.tree.traverse(take, inputs)


class _Reordered:
    """A ``PyDataset`` whose batches come in our order, from where we stand."""

    asking: Callable[[int], AbstractContextManager[None]] | None = None
    """Around each question, with the number of the batch; not in worker processes."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.order = np.arange(inner.num_batches)

    def __getitem__(self, index: int) -> Any:
        if self.asking is None:
            return self.inner[int(self.order[index])]
        with self.asking(index):
            return self.inner[int(self.order[index])]

    @property
    def num_batches(self) -> int:
        """Batches that are left of this pass."""
        return len(self.order)

    def __getattr__(self, name: str) -> Any:
        if name == "inner":  # while being unpickled in a worker process
            raise AttributeError(name)
        return getattr(self.inner, name)


class PyDatasetSource(Source):
    """``keras.utils.PyDataset``: asked by index, in our order."""

    kind = "PyDataset"

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
        self._followed = data_state.Followed(inner, whole_passes=whole)
        self._ahead = data_random.Ahead()
        self._first = 0
        if self.adapter.enqueuer is None:  # else nobody knows who draws when
            self._reordered.asking = self._asking

    def _asking(self, index: int) -> AbstractContextManager[None]:
        return self._ahead.asked(self._first + index, trained=self.drawn)

    def random_state(self) -> data_random.State | None:
        """Before the batch that comes next was asked for, if asking changes them."""
        return self._ahead.at(self.drawn)

    def begin(self) -> Any:
        """A new pass: nothing was asked for yet."""
        self._ahead.begin()
        return super().begin()

    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """Give the dataset's own attributes back."""
        self._followed.put_back(stored)

    def pass_began(self) -> None:
        """Keep the attributes with which this pass began."""
        self._followed.pass_began()

    def state(self, *, done: bool) -> tuple[list[Tensor], list[str]]:
        """The dataset's own attributes."""
        saved = self._followed.tensors(drawn=self.drawn > 0, done=done)
        told = self._followed.why_not_exact()
        if self._ahead.shared:
            told.append(data_random.SHARED.format(type(self._reordered.inner).__name__))
        return saved, told

    def why_not_exact(self) -> str | None:
        """Why bits cannot be promised."""
        if self.adapter.enqueuer is None:
            return None
        return (
            "a PyDataset with workers may draw random numbers in any order: its batches"
            " are neither repeated nor skipped, but may differ if they are random"
        )

    def prepare(self, *, begun: int, drawn: int) -> None:
        """Set the order of the pass that comes next."""
        n = self._reordered.inner.num_batches
        order = np.arange(n)
        if self._shuffle:
            order = permutation(n, seed=self._seed, fit=self._fit, begun=begun)
        self._reordered.order = order[drawn:]
        self._first = drawn
        self._ahead.begin()

    def resume(self, *, begun: int, drawn: int) -> Any:
        """The rest of the ``begun``-th pass; ``prepare`` has set its order."""
        self.begun, self.drawn = begun, drawn
        return self._iterate(self.dataset)

    def first_batch(self) -> Any:
        """The batch at index 0."""
        with data_random.untouched():
            batch = self.adapter._standardize_batch(self._reordered.inner[0])
        return seams.tree.map_structure(tf.convert_to_tensor, batch)


def source_of(iterator: Any, *, seed: int, fit: int) -> Source:
    """The source for a training iterator, by its data adapter."""
    adapter = iterator.data_adapter
    if type(adapter) is seams.ArrayDataAdapter:
        return ArraySource(iterator, seed=seed, fit=fit)
    finite = getattr(getattr(adapter, "py_dataset", None), "num_batches", None)
    if isinstance(adapter, seams.PyDatasetAdapter) and finite is not None:
        return PyDatasetSource(iterator, seed=seed, fit=fit)
    if isinstance(adapter, seams.TFDatasetAdapter):
        return Source(iterator)
    if isinstance(adapter, (seams.GeneratorDataAdapter, seams.PyDatasetAdapter)):
        return GeneratorSource(iterator)
    return LoaderSource(iterator)
