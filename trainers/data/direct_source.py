"""Training data on a backend that takes the batches of Keras' data adapters as they are.

There is no pipeline of TensorFlow's between the adapter and the train function: nothing
is read ahead, and each batch that is handed out is counted.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

from typing_extensions import override

from trainers.backends import keras_compat, tf_data
from trainers.backends.selected import backend
from trainers.data import data_fingerprint
from trainers.data.data_source import DataSource, GeneratorSource, LoaderSource
from trainers.data.py_dataset_source import PyDatasetSource
from trainers.process.script import python_random


class DirectSource(DataSource):
    """Iterated from the beginning; what comes before the position is drawn again."""

    def __init__(self, iterator: Any, **more: Any) -> None:
        """``iterator``: the epoch iterator that was just constructed."""
        super().__init__(iterator, **more)
        self._ahead_of = iterator.ahead
        self._given = 0

    @property
    @override
    def made(self) -> int:
        """Adapters begin their data when the first batch is asked for."""
        return self.used + (self.drawn > 0)

    @property
    @override
    def handed_out(self) -> int | None:
        """As many as were drawn."""
        return self._given

    @property
    @override
    def element_spec(self) -> Any:
        """Nothing is traced for it; where a step has to be run, a batch is asked for."""
        return None if backend.traces.TRACES else self.first_batch

    @override
    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """How many batches there are, where that is known."""
        return {"kind": self.kind, "count": self.adapter.num_batches}

    @override
    def _iterate(self, dataset: Any, *, drawn: int = 0) -> Any:
        assert not drawn  # noqa: S101  # ``resume`` draws itself
        self._given = self.drawn
        return self._counted(self._ahead_of(iter(dataset)))

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            self._given += 1
            self.saw(keras_compat.samples_in(batch))
            yield batch

    @override
    def why_not_exact(self) -> str | None:
        """Each kind says for itself."""
        return None

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """The iterator that was the ``begun``-th, after ``drawn`` batches."""
        self.begun, self.drawn = begun, drawn
        batches = iter(self.dataset)
        for _ in islice(batches, drawn):
            pass
        return self._iterate(batches)


class DirectPipelineSource(DirectSource):
    """``tf.data``: its shuffles are begun as often as they were."""

    kind = "tf.data"

    def __init__(self, iterator: Any) -> None:
        super().__init__(iterator)
        self.pipeline = tf_data.in_order(keras_compat.pipeline_of(self.adapter))
        keras_compat.replace_pipeline(self.adapter, self.pipeline)
        self._stated = tf_data.batch_of(self.pipeline)
        self.samples = tf_data.samples_of(self.pipeline)

    @override
    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """Shapes and dtypes of its elements, and how many there are."""
        return {"kind": self.kind, **data_fingerprint.of_pipeline(self.pipeline)}

    @override
    def why_not_exact(self) -> str | None:
        """Why bits cannot be promised."""
        return tf_data.why_not_exact(self.pipeline)

    @override
    def first_batch(self) -> Any:
        """As the adapter would hand it out; the order is left as it was where it can be."""
        batch = tf_data.a_batch(self.pipeline)
        if batch is None:  # told by ``why_not_exact``: it is not exact anyway
            batch = next(iter(self.pipeline))
        return keras_compat.tree.map_structure(
            lambda leaf: leaf.numpy() if hasattr(leaf, "numpy") else leaf, batch
        )

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """Begun anew, and read up to there; iterators that nobody drew from were never
        begun: the adapter asks TensorFlow for one at the first batch."""
        over = self._total is not None and drawn >= self._total
        used = self.used + over
        tf_data.replay(self.pipeline, made=used, used=used)
        if not over:
            return super().resume(begun=begun, drawn=drawn)
        self.begun, self.drawn = begun, drawn
        return self._iterate(iter(()))


class DirectArraySource(DirectSource):
    """Arrays: in the order that Keras draws from NumPy's global generator."""

    kind = "arrays"

    def __init__(self, iterator: Any) -> None:
        super().__init__(iterator)
        given = keras_compat.array_data(self.adapter)
        self._inputs, self.samples, self._stated, self._shuffle = given
        self._began_with: python_random.State | None = None

    @override
    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """Shapes, dtypes and some of the rows."""
        return {"kind": self.kind, **data_fingerprint.of_arrays(self._inputs)}

    @override
    def first_batch(self) -> Any:
        """The first samples, in their own order: nothing is drawn for it."""
        return keras_compat.first_of_arrays(self.adapter)

    @override
    def order(self) -> Any:
        """The generators as they were before the first batch of this pass."""
        return self._began_with

    @override
    def put_order_back(self, order: Any) -> None:
        """They are put there for the order of what is left of it."""
        self._began_with = order

    @override
    def begin(self) -> Any:
        """A new pass."""
        self._began_with = None
        return super().begin()

    @override
    def _iterate(self, dataset: Any, *, drawn: int = 0) -> Any:
        return super()._iterate(self._noted(dataset), drawn=drawn)

    def _noted(self, batches: Any) -> Iterator[Any]:
        """Keras draws the order with the first batch."""
        if self._shuffle and self._began_with is None:
            self._began_with = python_random.state()
        yield from batches

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """The rest of the pass; the generators stand where they did right after what
        was drawn of it, and are put back by who restores."""
        self.begun, self.drawn = begun, drawn
        if self._shuffle and self._began_with is None:
            return self._iterate(self.dataset)  # nothing was drawn yet
        if self._began_with is not None:
            python_random.put_back(self._began_with)
        return self._iterate(keras_compat.array_batches(self.adapter, after=drawn))


class DirectPyDatasetSource(DirectSource, PyDatasetSource):
    """``keras.utils.PyDataset``: asked by index, in our order."""

    kind = "PyDataset"
    why_not_exact = PyDatasetSource.why_not_exact
    _glance_forgotten = False

    @override
    def prepare(self, *, begun: int, drawn: int) -> None:
        """Set the order of the pass that comes next."""
        if not self._glance_forgotten:
            keras_compat.forget_glance(self.adapter)
            self._glance_forgotten = True
        super().prepare(begun=begun, drawn=drawn)

    resume = PyDatasetSource.resume


class DirectGeneratorSource(DirectSource, GeneratorSource):
    """A Python generator."""

    why_not_exact = GeneratorSource.why_not_exact


class DirectLoaderSource(DirectSource, LoaderSource):
    """A loader of another library."""

    why_not_exact = LoaderSource.why_not_exact

    @override
    def first_batch(self) -> Any:
        """One of a pass of its own."""
        return next(iter(self.dataset))
