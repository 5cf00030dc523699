"""Custom training loops that end as if they had never crashed.

``Model.fit`` needs none of this. A loop of your own says what its state is, and iterates
through the session::

    import keras, tensorflow as tf
    from trainers.session import session

    keras.utils.set_random_seed(1)
    model, optimizer = build_model(), keras.optimizers.Adam()
    mean = keras.metrics.Mean()
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)

    @tf.function
    def train_step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    with session(model=model, optimizer=optimizer, mean=mean) as run:
        for epoch in run.epochs(10):
            for x, y in run.batches(data):
                loss = train_step(x, y)
                run.log(loss=loss)
            run.kept["best"] = min(run.kept.get("best", 1e9), validate(model))

``for step, batch in run.steps(data, epochs=10)`` does the same where nothing happens
between epochs. Under ``trainwarden run`` each ``next`` is a step boundary: heartbeat,
snapshot, drain. After a crash the script runs from its top again; the session gives the
state back, and the loop goes on with the step after the snapshot. Without a supervisor
all of this does nothing.

**State**: whatever has ``variables`` (models, optimizers, metrics, ``tf.Module``),
variables, and what can be given back in place (lists, dictionaries, sets, deques, arrays,
random generators). Everything else goes into ``run.kept``, a dictionary of your own.
Random states of Python, NumPy, Keras and TensorFlow's eager operations are included;
operations of ``tf.random`` inside a ``tf.function`` keep a state that nobody can read:
use ``tf.random.stateless_*`` or ``keras.random``. Build models and optimizers before the
session: a variable made in the loop is not known when the state is given back.

**Data**: a ``tf.data`` pipeline (taken up in O(1) plus reading up to the position), or
anything that can be iterated again. One call of ``batches`` in an epoch, of one pipeline
or of such as are made alike of one shuffle; validation data are iterated as they are. Several loops in one session are told apart by their order.
"""

import collections
import random
import sys
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from trainers.process import attempt_reporting as attempts
from trainers.process.script import isolation

IN_PLACE = (
    list, dict, set, collections.deque, np.ndarray, np.random.Generator, random.Random,
)  # fmt: skip
"""What is given back in place."""

OUTSIDE = "batches() belongs into a loop over epochs(), or use steps()"
OTHER_BACKENDS = {
    "keras.src.backend.jax.trainer": "JAX",
    "keras.src.backend.torch.trainer": "PyTorch",
}
ELSEWHERE = "the backend is {}: the loops of a session are watched and restarted, but not resumed"
TWICE = "batches() was called twice in an epoch: only one pass can be taken up again"


class Run:
    """What ``with session(...) as run`` gives; by itself it only iterates."""

    def __init__(self) -> None:
        self.epoch = 0
        """The epoch that is running, from 0."""
        self._step = 0
        self._kept: dict[str, Any] = {}

    @property
    def step(self) -> int:
        """Steps done in this session."""
        return self._step

    @property
    def kept(self) -> dict[str, Any]:
        """Values of your own that are part of the state: JSON, arrays, containers."""
        return self._kept

    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left of ``count``."""
        for self.epoch in range(count):
            yield self.epoch

    def batches(self, data: Any) -> Iterator[Any]:
        """The batches that are left of this epoch's pass through ``data``."""
        for batch in data:
            yield batch
            self._step += 1

    def steps(self, data: Any, *, epochs: int = 1) -> Iterator[tuple[int, Any]]:
        """Number and batch of each step that is left, over all epochs."""
        for _ in self.epochs(epochs):
            for batch in self.batches(data):
                yield self.step, batch

    def log(self, **values: Any) -> None:
        """Tell of the step, ``loss`` above all: shown while it runs."""

    def slices(self, *tensors: Any) -> Iterator[tuple[tuple[Any, ...], float]]:
        """The batch in the slices that memory allows, each with its share of it.

        Add up the gradients of ``share * loss`` and update once: the same step, if the
        loss is a mean over samples.
        """
        yield tensors, 1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the session."""


def has_variables(value: Any) -> bool:
    """Whether it is a model, an optimizer, a metric or a ``tf.Module``."""
    return hasattr(value, "variables") and not isinstance(value, IN_PLACE)


def is_variable(value: Any) -> bool:
    """Whether it is a variable itself."""
    return hasattr(value, "assign") and hasattr(value, "shape")


def build_optimizers(holders: Mapping[str, Any]) -> None:
    """Optimizers make their variables at their first step: too late to be given back."""
    models = [
        value for value in holders.values() if hasattr(value, "trainable_variables")
    ]
    trainable = [v for model in models for v in model.trainable_variables]
    for value in holders.values():
        if hasattr(value, "apply_gradients") and not value.built and trainable:
            value.build(trainable)


def session(**state: Any) -> Run:
    """A session over ``state``, by names of your own (see the module's text).

    Raises:
        TypeError: something that can be neither saved nor given back in place.
    """
    for name, value in state.items():
        known = has_variables(value) or is_variable(value)
        if not known and not isinstance(value, IN_PLACE):
            message = (
                f"{name} is a {type(value).__name__}, which cannot be given back in"
                " place: keep it in run.kept"
            )
            raise TypeError(message)
    attempt = attempts.current()
    if attempt is None:
        return Run()
    for module_name, title in OTHER_BACKENDS.items():
        if module_name in sys.modules:
            attempt.notice(ELSEWHERE.format(title))
            return Run()
    if attempt.directive.estimate_seconds is not None:
        measuring = isolation.load("trainers.estimate.measured_session")
        measured: Run = measuring.MeasuredSession(attempt, state)
        return measured
    module = isolation.load("trainers.fit.supervised_session")
    supervised: Run = module.SupervisedRun(attempt, state)
    return supervised
