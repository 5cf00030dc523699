"""Training data that are iterated from their beginning: what comes before is read again.

That is all there is to ``tf.data``, to generators and to loaders of other libraries; data
that can be asked for any batch (``array_source``, ``py_dataset_source``) build on it.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from typing_extensions import override

from trainers.backends import finished_iterators, keras_compat, tf_data
from trainers.data import data_fingerprint
from trainers.process.script import python_random
from trainers.snapshots.tensor_image import Tensor


def _untold(_size: int) -> None:
    """Nobody asked."""


class DataSource:
    """The training data of one ``fit``: also the kind for ``tf.data``.

    ``begun`` counts how often an iterator was made (Keras makes one more at each end of
    an epoch than it uses), ``used`` how many before the present one were drawn from,
    ``drawn`` the batches taken from the present one.
    """

    kind = "tf.data"
    moves_when_glanced_at = True
    """Its shuffles count how often they were begun."""

    def __init__(self, iterator: Any) -> None:
        """``iterator``: the epoch iterator that was just constructed."""
        self.adapter = iterator.data_adapter
        self.dataset = tf_data.in_order(iterator.pipeline)
        self._strategy = iterator.strategy
        self.begun = 0
        self.used = 0
        self.drawn = 0
        self._total: int | None = None
        self.tell_batch: Callable[[int], None] = _untold
        """Called once, when the first batch shows a size that was not known before."""
        self._stated: int | None = None
        self.samples: int | None = None
        """Samples in the data; None where unknown."""
        self._seen: int | None = None
        if tf_data.is_pipeline(self.dataset):
            self._stated = tf_data.batch_of(self.dataset)
            self.samples = tf_data.samples_of(self.dataset)

    @property
    def array_bytes(self) -> int:
        """Bytes of arrays in it that a framework may copy as a whole."""
        return 0

    @property
    def in_memory(self) -> bool:
        """Whether its batches are cut from arrays in main memory, and nothing reads or
        prepares them."""
        return False

    @property
    def stated_batch(self) -> int | None:
        """Samples a step, as the data say themselves; None where they do not."""
        if self._stated is not None and self.samples:
            return min(self._stated, self.samples)
        return self._stated

    @property
    def batch(self) -> int | None:
        """The same, or else those of the first batch that this process saw: None before,
        and another number in another attempt where batches are of unlike sizes."""
        return self.stated_batch or self._seen

    @property
    def alike(self) -> bool:
        """Whether all batches are known to be of one size."""
        size = self._stated
        return bool(size and self.samples and self.samples % size == 0)

    @property
    def lengths_vary(self) -> bool:
        """Whether samples of one batch may be longer than those of another."""
        if not tf_data.is_pipeline(self.dataset):
            return False
        leaves = keras_compat.tree.flatten(self.dataset.element_spec)
        shapes = [getattr(leaf, "shape", None) for leaf in leaves]
        return any(
            shape is not None and (shape.rank is None or None in shape.as_list()[1:])
            for shape in shapes
        )

    def saw(self, size: int | None) -> None:
        """The first batch is drawn, by whichever thread."""
        if self.batch is None and size:
            self._seen = size
            self.tell_batch(size)

    def _iterate(self, dataset: Any, *, drawn: int = 0) -> Any:
        """An iterator after ``drawn`` batches, that tells what the batch is, where that is
        not known yet."""
        if self._strategy is None and drawn:
            dataset, drawn = dataset.skip(drawn), 0
        known = self.batch is not None
        told = dataset if known else tf_data.telling(dataset, self.saw)
        return tf_data.iterate(told, self._strategy, drawn=drawn)

    def glance(self) -> Any:
        """An iterator over one batch, by whose shapes Keras builds a model on several
        devices before its ``fit`` begins."""
        if self.moves_when_glanced_at:  # as without us, but never further
            one = self.dataset.take(1)
        else:
            one = tf_data.blank(self.element_spec, self._strategy)
        return tf_data.iterate(one, self._strategy)

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of a batch."""
        return self.dataset.element_spec

    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """What the data look like: compared when a run goes on with them."""
        return {"kind": self.kind, **data_fingerprint.of_pipeline(self.dataset)}

    def why_not_exact(self) -> str | None:
        """Why bits cannot be promised, in a sentence; None if they can."""
        return tf_data.why_not_exact(self.dataset)

    def why_not_begun_anew(self) -> str | None:
        """Why a second ``fit`` of this process cannot take them up where this one was, in
        half a sentence; None: it can."""
        if type(self) is DataSource and tf_data.is_pipeline(self.dataset):
            return tf_data.why_not_begun_anew(self.dataset)
        return f"the training data ({self.kind}) have a state of their own"

    def iterated(self, *, used: int, total: int | None) -> None:
        """``used`` iterators were drawn from before; ``total`` batches has a pass, where
        an earlier attempt knew."""
        self.used, self._total = used, total

    @property
    def made(self) -> int:
        """Iterators that were made of what is behind it all, a pipeline, say."""
        return self.begun

    @property
    def handed_out(self) -> int | None:
        """Batches of the present iterator that were handed out, those before a resume
        among them; None: nobody counts them."""
        return None

    def took(self, batches: int) -> None:
        """Training has taken so many from the present iterator."""
        self.drawn += batches

    def prepare(self, *, begun: int, drawn: int) -> None:
        """Know the position before Keras' ``on_epoch_begin`` may start workers."""

    def put_back(self, stored: Mapping[str, np.ndarray]) -> None:
        """Give the data the state in themselves that a snapshot has of them."""

    def pass_began(self) -> None:
        """``on_epoch_begin`` is done, and nothing drawn yet."""

    def pass_is_over(self, iterator: Any) -> None:
        """All of a pass was drawn from ``iterator``: nobody asks it for more."""
        finished_iterators.pass_is_over(iterator)

    def order(self) -> Any:
        """What else the order of this pass comes from, as it was when it began; or None."""
        return None

    def put_order_back(self, order: Any) -> None:
        """The pass that is resumed began with ``order``."""

    def state(self, *, done: bool) -> tuple[list[Tensor], list[str]]:  # noqa: ARG002  # for others
        """What to save of the data themselves, and why that is not all of it.

        ``done``: the fit is over.
        """
        return [], []

    def random_state(self) -> python_random.State | None:
        """The global generators as they belong to this step; None: as they stand now."""
        return None

    def changed_by_asking(self) -> list[Any]:
        """What of the data's own changes as they are asked for batches, ahead of training,
        and is saved as it belongs to a step."""
        return []

    def goes_on_from(self, other: "DataSource") -> None:
        """What it shuffles was begun by ``other`` before."""
        self.begun, self.used, self.drawn = other.begun, other.used, other.drawn

    def begin(self) -> Any:
        """A new iterator over the data from their beginning."""
        self.used += self.drawn > 0
        self.begun += 1
        self.drawn = 0
        return self._iterate(self.dataset)

    def resume(self, *, begun: int, drawn: int) -> Any:
        """The iterator that was the ``begun``-th, after ``drawn`` batches."""
        self.begun, self.drawn = begun, drawn
        if self._total is not None and drawn >= self._total:
            # Nobody will ask it for anything: it would not get below its shuffles.
            tf_data.replay(self.dataset, made=begun, used=self.used + 1)
            return tf_data.iterate(self.dataset.take(0), self._strategy)
        tf_data.replay(self.dataset, made=begun - 1, used=self.used)
        return self._iterate(self.dataset, drawn=drawn)

    @property
    def cut_bytes(self) -> int:
        """Bytes of arrays that a framework may hold as a whole, and that ``stream`` may cut in
        main memory instead."""
        tensors = [one for one in tf_data.tensors_of(self.dataset) if one.shape.rank]
        return sum(one.shape.num_elements() * one.dtype.size for one in tensors)

    def stream(self) -> bool:
        """Let batches be cut from arrays in main memory; whether they are now."""
        is_pipeline = tf_data.is_pipeline(self.dataset)
        return is_pipeline and tf_data.input_changes().slices_are_cut(self.dataset)

    def first_batch(self) -> Any:
        """A batch to measure with; the order of the data is left as it was."""
        batch = tf_data.a_batch(self.dataset)
        if batch is None:
            # Told by ``why_not_exact``: such a pipeline is not exact anyway.
            batch = next(iter(self.dataset))
        return batch


class GeneratorSource(DataSource):
    """A Python generator: its state is its own."""

    kind = "generator"
    moves_when_glanced_at = False

    @override
    def why_not_exact(self) -> str:
        """Why bits cannot be promised."""
        return (
            "the training data come from a Python generator, whose state cannot be"
            " saved: it is replayed from its start, which is exact only if it yields"
            " the same batches again"
        )

    @override
    def begin(self) -> Any:
        """The generator goes on where it is: Keras never starts one again."""
        self.begun += 1
        return self._iterate(self.dataset)

    @override
    def first_batch(self) -> Any:
        """The batch that Keras peeked at."""
        return keras_compat.peeked_batch(self.adapter)


class LoaderSource(DataSource):
    """A loader of another library (Grain, PyTorch): each pass iterates it anew."""

    kind = "loader"
    moves_when_glanced_at = False

    @override
    def why_not_exact(self) -> str:
        """Why bits cannot be promised."""
        name = type(self.adapter).__name__.removesuffix("Adapter")
        return (
            f"the training data come from a loader of another library ({name}), whose"
            " state cannot be saved: an epoch is iterated again from its start, which is"
            " exact only if it yields the same batches again"
        )
