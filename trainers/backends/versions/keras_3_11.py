"""Keras 3.11 and newer: a step is handed out with its first number and its last."""

from collections.abc import Callable, Iterator
from typing import Any

from keras.src.trainers.epoch_iterator import EpochIterator

from trainers.backends import epoch_iterator

LOOP = "_enumerate_iterator"
"""The method of the epoch iterator that ``fit`` takes its steps from."""
NAMES: tuple[tuple[Any, str], ...] = (
    (EpochIterator, LOOP),
    (EpochIterator, "_get_iterator"),
    (EpochIterator, "_interrupted_warning"),
    (EpochIterator, "reset"),
)
STEPS = (
    "self.data_adapter.on_epoch_begin()",
    "self._steps_seen += self.steps_per_execution",
    "if self._num_batches and self._steps_seen >= self._num_batches:",
)
"""Lines of it that ``epoch`` mirrors."""
STEPS_OF_FIT = "for begin_step, end_step, iterator in epoch_iterator:"

epoch = epoch_iterator.epoch


def handed(step: int, chunk: int, batches: Any) -> Any:
    """What ``fit`` is given for the ``chunk`` steps that begin with ``step``."""
    return step, step + chunk - 1, batches


def keras_own(_iterator: Any, own: Callable[[], Iterator[Any]]) -> Iterator[Any]:
    """Keras' ``own`` loop; it asks for the data right before each ``iter``."""
    return own()
