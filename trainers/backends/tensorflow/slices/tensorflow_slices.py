"""Slices on TensorFlow: what ``backends.slices`` asks of it."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from trainers.backends import keras_losses
from trainers.backends.memory.allocator_figures import Figures, PeakReading
from trainers.backends.slices.slice_loss import LossRules
from trainers.backends.tensorflow import fit_compat, memory_compat
from trainers.backends.tensorflow.allocator import native_ops, peak_readings
from trainers.backends.tensorflow.data import data_compat
from trainers.backends.tensorflow.functions import tracing
from trainers.backends.tensorflow.randomness import random_state
from trainers.backends.tensorflow.slices import slice_draws
from trainers.backends.tensorflow.slices.reduced_step import ReducedStep
from trainers.backends.tensorflow.slices.train_step import SlicedStep

computed_by = tracing.compiled
limit_bytes = memory_compat.gpu_limit_bytes


def own_variable(value: int) -> Any:
    """One on the CPU, whatever the strategy."""
    return data_compat.own_variable(np.int32(value), shape=[])


def step(model: Any, *, rules: LossRules, wide_products: bool) -> Callable[..., Any]:
    """Makes the step of the sums over its slices."""
    return functools.partial(
        SlicedStep, model, rules=rules, wide_products=wide_products
    )


def reduced_step(
    model: Any, *, exponent: float, rates: Sequence[Any]
) -> Callable[..., Any]:
    """Makes the script's own step for each slice."""
    return functools.partial(ReducedStep, model, exponent=exponent, rates=rates)


def why_not_on_devices(model: Any) -> str | None:
    """Devices work through their slices without waiting for each other."""
    if tf.distribute.in_cross_replica_context():
        return (
            "fit is called inside the scope of its strategy: call it after that block"
        )
    if fit_compat.replicas_of(model) == 1:
        return None
    if fit_compat.has_own_train_step(model):
        return (
            f"{type(model).__name__} has a train_step of its own, and several devices"
            " cannot make an update for each part of a batch"
        )
    for layer in keras_losses.all_layers(model):
        if getattr(layer, "synchronized", False):
            return f"the layer {layer.name} adds up over all devices within a step"
    return None


def is_sparse(leaf: Any) -> bool:
    """Ragged ones, too."""
    return isinstance(leaf, (tf.SparseTensor, tf.RaggedTensor))


def compiles_less(_model: Any) -> str | None:
    """A slice is compiled as the step was."""
    return None


def changed_by_steps(_model: Any) -> list[str]:
    """Sums are rounded once, as for a whole batch (``float32_accumulation``)."""
    return []


@contextlib.contextmanager
def kept(_model: Any) -> Iterator[None]:
    """A model of Keras' on TensorFlow keeps all in its variables.

    On a GPU products are not rounded to TensorFloat-32 within: by the size of a batch cuDNN
    chooses algorithms that do so and others that do not, which would look as if the
    samples of a batch knew of each other (seen on an H100). A CPU knows no such rounding,
    and what XLA compiles there is kept, for which no setting may change meanwhile.
    """
    with random_state.random_states_kept(), contextlib.ExitStack() as after:
        if tf.config.list_logical_devices("GPU"):
            asked: Any = tf.config.experimental
            rounds = asked.tensor_float_32_execution_enabled()
            after.callback(asked.enable_tensor_float_32_execution, rounds)
            asked.enable_tensor_float_32_execution(enabled=False)
        yield


def stirred_beside(
    _model: Any,
) -> contextlib.AbstractContextManager[list[tuple[Any, bool]]]:
    """None, as above."""
    return contextlib.nullcontext([])


def drawn_as_whole(
    model: Any, few: Any, spans: Sequence[tuple[int, int]], before: dict[int, Any]
) -> list[tuple[Any, Any]] | None:
    """By the counters of the generators that Keras draws from."""
    states = slice_draws.seeds(model)
    slice_draws.rewind(states, [before[id(state)] for state in states])
    return slice_draws.follow(model, few, spans)


def peak() -> PeakReading | None:
    """None of a CPU's own allocator."""
    return peak_readings.read()


def reset_peak() -> None:
    """Where there is one."""
    peak_readings.reset_peak()


def figures(*, needed: bool) -> Figures | None:
    """By our operations, where they are built."""
    return native_ops.figures(needed=needed)


def wait(results: Any) -> None:
    """Reading a value waits for it."""
    for value in tf.nest.flatten(results):
        value.numpy()
