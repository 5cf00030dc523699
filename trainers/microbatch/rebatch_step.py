"""The rebatched step: a script's own ``train_step`` for each of several smaller batches.

Nobody knows what such a step does with its batch (a contrast between samples, several
optimizers), so its gradients cannot be added up over slices. Where the spec allows it,
each batch becomes k smaller ones, and the script's step is done for each. Epochs,
steps, callbacks, data order and snapshots stay what they were; what changes is what is
computed: k updates where there was one, each from fewer samples. So the spec says as
well what becomes of the learning rate:

- ``keep``: it stays.
- ``linear``: it is divided by k (Goyal et al. 2017, arXiv:1706.02677, section 2.1,
  read downwards).
- ``sqrt``: it is divided by the root of k (Krizhevsky 2014, arXiv:1404.5997, section
  5, which keeps the variance of an update).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from trainers.backends import keras_compat, slicing
from trainers.backends.tensorflow.functions import tracing

EXPONENTS = {"keep": 0.0, "sqrt": 0.5, "linear": 1.0}
"""The learning rate is divided by this power of k, by the spec's rule."""


class ReducedStep:
    """Takes the place of ``model.train_step``. One instance serves one ``fit``."""

    def __init__(
        self, model: Any, *, size: tf.Variable, seen: tf.Variable, rule: str
    ) -> None:
        """``size`` and ``seen``: as in ``train_step.SlicedStep``; ``rule``: a key
        of ``EXPONENTS``."""
        self._seen = seen
        self._size = size
        self._exponent = EXPONENTS[rule]
        self._rates = rates(model)
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


def deviations(model: Any, rule: str) -> tuple[str, ...]:
    """What is not as it would have been, as sentences for the incident."""
    own = (
        f"{type(model).__name__} has a train_step of its own: each batch became several"
        f" smaller ones, each with an update of its own (learning rate: {rule})"
    )
    told = [own]
    if len(rates(model)) < len(_optimizers(model)):
        told.append(
            "a learning rate follows a schedule, which counts those updates and was"
            " not changed"
        )
    return tuple(told)


def rates(model: Any) -> list[Any]:
    """The learning rates of the model's optimizers, as far as they are variables."""
    found = [keras_compat.learning_rate(one) for one in _optimizers(model)]
    return [rate for rate in found if rate is not None]


def _optimizers(model: Any) -> list[Any]:
    """Those that ``compile`` was given, and those in attributes; inner ones too."""
    outer = [
        one
        for one in vars(model).values()
        if isinstance(one, keras.optimizers.Optimizer)
    ]
    found = {id(one): one for one in [model.optimizer, *outer] if one is not None}
    return [getattr(one, "inner_optimizer", one) for one in found.values()]
