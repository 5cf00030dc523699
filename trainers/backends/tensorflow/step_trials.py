"""Steps on TensorFlow's allocator, tried for their memory.

Each trial is the model's own train function on one batch, again and again: nothing is read
ahead, so what a step adds is its own.
"""

import gc
import time
from typing import Any

import numpy as np
import tensorflow as tf

from trainers.backends import keras_compat, slicing
from trainers.backends.tensorflow import fit_compat, replicas
from trainers.backends.tensorflow.allocator import peak_readings
from trainers.backends.trial_support import SteppedTrial, StepTrial, TrialPlan

COMPILES = False
WHY_NOT: str | None = None
WHY_NOT_STEPPED: str | None = None
LOSS = "loss"


def device() -> str:
    """What steps are computed on: ``CPU`` or ``GPU``."""
    return peak_readings.device().partition(":")[0]


def stepped(model: Any, batches: Any) -> SteppedTrial | None:
    """Call the train function of ``model`` once, on what it draws from ``batches``; None:
    these are over."""
    model.reset_metrics()  # the loss is of these steps alone
    peak_readings.reset_peak()
    began = time.perf_counter()
    try:
        result = model.train_function(batches)
    except (StopIteration, tf.errors.OutOfRangeError):
        return None
    logs = fit_compat.logs_of(result)
    told = logs.get(LOSS) if isinstance(logs, dict) else None
    loss = None if told is None else float(told)
    for value in tf.nest.flatten(result):
        if hasattr(value, "numpy"):
            value.numpy()  # waits until the step is over
    took = time.perf_counter() - began
    after = peak_readings.read()
    return SteppedTrial(
        seconds=took,
        loss=loss,
        peak_bytes=None if after is None else after.peak_bytes,
    )


def in_use() -> int | None:
    """Bytes in use in the allocator now; None: it keeps no figures."""
    reading = peak_readings.read()
    return None if reading is None else reading.current_bytes


def peak() -> int | None:
    """Bytes in use there at most since ``reset_peak``; None: it keeps no figures."""
    reading = peak_readings.read()
    return None if reading is None else reading.peak_bytes


def reset_peak() -> None:
    """Let the peak start again from what is in use now."""
    peak_readings.reset_peak()


def kept(batch: Any) -> Any:
    """``batch`` as arrays of NumPy; what is no plain tensor stays what it is."""

    def array(leaf: Any) -> Any:
        return leaf.numpy() if isinstance(leaf, tf.Tensor) else leaf

    return slicing.map_leaves(array, batch)


def whole(batch: Any) -> Any:
    """``batch`` with what each replica has of it put together."""

    def joined(leaf: Any) -> Any:
        parts = replicas.copies(leaf)
        return leaf if len(parts) == 1 else tf.concat(parts, axis=0)

    return slicing.map_leaves(joined, batch)


def sized(batch: Any, size: int) -> Any:
    """``size`` samples of ``batch``, some of them again where it has fewer."""

    def cut(leaf: Any) -> Any:
        samples = leaf.shape[0]
        if samples == size:
            return leaf
        chosen = np.arange(size) % samples
        return leaf[chosen] if isinstance(leaf, np.ndarray) else tf.gather(leaf, chosen)

    return slicing.map_leaves(cut, batch)


def tried(model: Any, batch: Any, short: Any | None, plan: TrialPlan) -> StepTrial:
    """Train ``model`` on ``batch`` by the ``plan``. ``short``: a batch of another size or
    shape, as the data have, too; None: they do not.

    The allocator hands out a free block whole where it is not twice what was asked for:
    once a short batch has left its blocks behind, a whole one gets larger ones than
    before, here a tenth more in all.
    """
    model.make_train_function()
    batches = iter(_again_and_again(model, batch, plan.element_spec))
    first = last = _seconds_of_step(model, batches)
    added: list[int] = []
    gc.collect()
    gc.freeze()  # to look through all of a framework again takes longer than most steps
    try:
        until = time.perf_counter() + plan.seconds
        for number in range(plan.most):
            if number >= plan.least and time.perf_counter() > until:
                break
            if short is not None and number == plan.least // 2:
                _seconds_of_step(
                    model, iter(_again_and_again(model, short, plan.element_spec))
                )
            gc.collect()  # what the steps before left is not of this one
            peak_readings.reset_peak()
            before = peak_readings.read()
            last = _seconds_of_step(model, batches)
            after = peak_readings.read()
            if before is not None and after is not None:
                between = max(before.current_bytes, after.current_bytes)
                added.append(after.peak_bytes - between)
    finally:
        gc.unfreeze()
    return StepTrial(added_bytes=tuple(added), first_seconds=first, step_seconds=last)


def trained_once(_model: Any) -> None:
    """A trial has made all variables there are."""


def _seconds_of_step(model: Any, batches: Any) -> float:
    began = time.perf_counter()
    for value in tf.nest.flatten(model.train_function(batches)):
        if hasattr(value, "numpy"):
            value.numpy()  # waits until the step is over
    return time.perf_counter() - began


def _again_and_again(model: Any, batch: Any, element_spec: Any) -> Any:
    """A pipeline of ``batch`` alone, whose elements look like those of any size: all sizes
    share one trace."""
    flat = keras_compat.tree.flatten(element_spec)
    samples = slicing.leaves(batch)[0].shape[0]
    shapes = [_of_any_size(one, samples) for one in flat]

    def as_any_size(*elements: Any) -> Any:
        whole = elements if len(elements) > 1 else elements[0]
        leaves = keras_compat.tree.flatten(whole)
        if len(leaves) != len(shapes):
            return whole
        widened = [
            leaf
            if shape is None
            else tf.compat.v1.placeholder_with_default(leaf, shape)
            for leaf, shape in zip(leaves, shapes, strict=True)
        ]
        return keras_compat.tree.pack_sequence_as(whole, widened)

    data = tf.data.Dataset.from_tensors(batch)
    if len(flat) == len(keras_compat.tree.flatten(data.element_spec)):
        data = data.map(as_any_size)
    strategy = replicas.strategy_of(model)
    data = data.repeat()
    return data if strategy is None else strategy.experimental_distribute_dataset(data)


def _of_any_size(spec: Any, samples: int) -> list[int | None] | None:
    """Its shape for any number of samples; None: it is no plain tensor.

    Where the script's own is for one number, that very number is traced for it alone.
    """
    if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
        return None
    fixed = spec.shape[0] == samples
    return [samples if fixed else None, *spec.shape[1:]]
