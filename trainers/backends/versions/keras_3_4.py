"""Keras 3.4 to 3.6: an epoch iterator of TensorFlow's trainer has a loop of its own.

It knows nothing of batches that are left over: with ``steps_per_epoch`` its data go on
where they were, else they are begun anew, and end when they do.
"""

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from keras.src.backend.tensorflow.trainer import TFEpochIterator

from trainers.backends.epoch_iterator import FollowedEpochs, begin_epoch
from trainers.backends.versions.keras_3_7 import handed

LOOP = "enumerate_epoch"
NAMES: tuple[tuple[Any, str], ...] = (
    (TFEpochIterator, LOOP),
    (TFEpochIterator, "_get_iterator"),
)
STEPS = (
    "if not self._current_iterator:",
    "self._current_iterator = iter(self._distributed_dataset)",
    "if self.num_batches:",
    "self._steps_seen = step + 1",
)
STEPS_OF_FIT = "for step, iterator in epoch_iterator.enumerate_epoch():"
TELLS_DATA = "self.data_adapter.on_epoch_begin()"
"""Keras 3.4 does not."""


def epoch(iterator: Any, fit: FollowedEpochs) -> Iterator[Any]:
    """One epoch of training, as ``TFEpochIterator.enumerate_epoch`` has it.

    ``fit`` is told of each boundary.
    """
    tells_data = TELLS_DATA in inspect.getsource(TFEpochIterator.enumerate_epoch)
    resumed = begin_epoch(iterator, fit, tells_data=tells_data) is not None
    goes_on = iterator.steps_per_epoch and iterator._current_iterator
    if not resumed and not goes_on:
        iterator._current_iterator = fit.source.begin()
    batches, chunk = iterator._current_iterator, iterator.steps_per_execution
    if not iterator.steps_per_epoch:
        iterator._current_iterator = None
    fit.at_epoch_begin(resumed=resumed)
    total = iterator.num_batches
    start = fit.next_step
    for step in range(start, total, chunk) if total else itertools.count(start, chunk):
        if not total:
            iterator._steps_seen = step + chunk
        if not fit.steps.counts_only:
            if fit.passes_over(step, batches):
                continue
            fit.before_step()
        # Where their number is not known, these versions count from the last.
        yield handed(step if total else step + chunk - 1, chunk, batches)
        fit.after_step(step + chunk, batches)
    if total and not iterator.steps_per_epoch:
        fit.source.pass_is_over(batches)
    iterator.data_adapter.on_epoch_end()
    fit.epoch_is_over()


def keras_own(iterator: Any, own: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Keras' ``own`` loop; it begins the data itself, and asks for them only once."""
    if not (iterator.steps_per_epoch and iterator._current_iterator):
        iterator.begun += 1
    return own()


__all__ = ["handed"]
