"""The script's own train step for each of several smaller batches, on TensorFlow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import tensorflow as tf

from trainers.backends import slicing
from trainers.backends.tensorflow.functions import tracing


class ReducedStep:
    """Takes the place of ``model.train_step``. One instance serves one ``fit``."""

    def __init__(
        self,
        model: Any,
        *,
        size: tf.Variable,
        seen: tf.Variable,
        exponent: float,
        rates: Sequence[Any],
    ) -> None:
        """``size`` and ``seen``: as in ``train_step.SlicedStep``; ``rates``: learning
        rates, divided by this power of the slices."""
        self._seen = seen
        self._size = size
        self._exponent = exponent
        self._rates = rates
        self._step = tracing.compiled(model, model.train_step)

    def __call__(self, data: Any) -> Any:
        """The script's step for each part of the batch ``data``; the last one's logs."""
        total = tf.shape(slicing.leaves(data)[0])[0]
        self._seen.assign(tf.maximum(self._seen, total))
        size = self._size.value()
        with self._lowered(-(-total // size)):
            first = self._part(data, 0, size)

            def body(start: Any, logs: Any) -> Any:
                del logs
                return start + size, self._part(data, start, start + size)

            _, logs = tf.while_loop(
                lambda start, _: start < total,
                body,
                (size, first),
                parallel_iterations=1,
            )
        return logs

    def _part(self, data: Any, start: Any, stop: Any) -> Any:
        logs = self._step(slicing.cut(data, start, stop))
        return tf.nest.map_structure(tf.convert_to_tensor, logs)

    @contextmanager
    def _lowered(self, parts: Any) -> Iterator[None]:
        """The learning rates by the rule; callbacks and snapshots see the script's."""
        kept = [rate.value + 0 for rate in self._rates] if self._exponent else []
        divisor = tf.cast(parts, "float32") ** self._exponent
        for rate, value in zip(self._rates, kept, strict=False):
            rate.assign(value / tf.cast(divisor, value.dtype))
        yield
        for rate, value in zip(self._rates, kept, strict=False):
            rate.assign(value)
