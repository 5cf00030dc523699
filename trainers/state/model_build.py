"""The build of a model's variables without a step, so that a restore has where to go.

Keras' own ``fit`` never builds a model before its first step: it leaves that to the
tracing of the train function. A model whose ``train_step`` is all there is (no ``call``:
a VAE) or that has optimizers of its own (a GAN) can be built in no other way. Tracing
runs no step and asks for no data (but for an eager model that cannot be traced, and makes
one of zeros); what it draws from random states is given back by the
restore that follows.
"""

import contextlib
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from trainers.backends import keras_compat, model_listing
from trainers.backends.selected import backend
from trainers.process import allocation_subject

BuildWay = Callable[[Any, Any], None]
"""Makes variables of a model for batches of an element spec."""
MOST_STEPS = 12
"""Of zeros, for an eager model with a step of its own: its optimizers may take turns (a
critic that is trained five times as often, say), and each makes its variables in its own."""


class UnbuildableError(Exception):
    """The variables cannot be made without a step; the text says why."""


def takes_steps(model: Any) -> bool:
    """Whether ``build`` may run the script's own steps, which change more than variables."""
    return bool(model.run_eagerly) or not backend.traces.TRACES


def build(
    model: Any, element_spec: Any, *, whole: Callable[[], bool] = lambda: True
) -> None:
    """Make the variables of the model, its metrics and its optimizers.

    ``element_spec``: shapes and dtypes of a batch. One way after the other is tried
    until ``whole()``: each makes variables that another does not, and none takes any
    away, so the way that the model itself takes in training comes first.

    Raises:
        UnbuildableError: no way went through.
        tf.errors.ResourceExhaustedError: memory ran out for a variable: the model is
            made in part, and nobody may look at it.
    """
    failures: dict[BuildWay, Exception] = {}
    went: set[BuildWay] = set()
    ways = _ways(model)
    for way in ways:
        done = way in went and not model_listing.unused_optimizers(model)
        if way in failures or done:
            continue
        noted = allocation_subject.watch.count
        try:
            way(model, element_spec)
        except Exception as error:  # noqa: BLE001  # the script's code may do anything
            _refuse_half(noted, error)
            failures[way] = error
        else:
            _refuse_half(noted, None)
            went.add(way)
            if whole():
                return
    if failures.keys() == set(ways):
        first = failures[ways[0]]
        raise UnbuildableError(str(first)) from first


def build_for_slices(model: Any, element_spec: Any) -> None:
    """As ``build``, for batches of any size where the model allows that.

    A model that takes its shapes from the first batch would else be one for batches of
    exactly that size. Raises as ``build``.
    """
    if not model.built:
        with contextlib.suppress(UnbuildableError):
            return build(model, backend.fit.of_any_size(element_spec))
    return build(model, element_spec)


def _refuse_half(noted: int, error: Exception | None) -> None:
    """Stop where an allocation failed in between, be it that Keras went on after it."""
    failed = allocation_subject.watch.last
    if allocation_subject.watch.count == noted or failed is None:
        return
    raise backend.fit.out_of_memory(failed.text) from error


def _ways(model: Any) -> list[BuildWay]:
    if not backend.traces.TRACES:  # its ``fit`` has built what it can before
        first_uses = model_listing.build_own_optimizers
        steps = [_step_of_zeros] * MOST_STEPS  # of a batch that there is
        return [keras_compat.build_optimizers, *steps, first_uses]
    if keras_compat.is_built_by_fit(model):
        first = [
            keras_compat.build,
            backend.traces.trace_train,
            backend.traces.trace_test,
        ]
    elif backend.fit.has_own_train_step(model):
        # A validation's step may have made more: compiled metrics, say.
        first = [
            backend.traces.trace_train,
            backend.traces.trace_test,
            keras_compat.build,
        ]
    else:
        first = [keras_compat.build, backend.traces.trace_train]
    if not model.run_eagerly:
        return [*first, keras_compat.build_optimizers]
    if backend.fit.has_own_train_step(model):  # Keras would build an unused optimizer
        steps = [_step_of_zeros, _step_of_numbers] * (MOST_STEPS // 2)
        return [*steps, *first, keras_compat.build_optimizers]
    return [*first, _step_of_zeros, keras_compat.build_optimizers]


def _step_of_zeros(model: Any, element_spec: Any) -> None:
    """What is not traced, or cannot be, as its losses look at numbers, say, makes its
    variables in a step. What that changes is given back, as all is that steps change."""
    model.train_step(backend.fit.zeros_of(element_spec))


def _step_of_numbers(model: Any, element_spec: Any) -> None:
    """The loss of zeros may be no number (they have no direction, and no deviation), and
    the step passes over such a batch."""
    zeros = backend.fit.zeros_of(element_spec)
    model.train_step(keras.tree.map_structure(_rising, zeros))


def _rising(zeros: Any) -> Any:
    """Numbers from 0.1 to 1 where any are allowed: whole ones are labels, or places."""
    if not keras.backend.is_float_dtype(keras.backend.standardize_dtype(zeros.dtype)):
        return zeros
    numbers = np.linspace(0.1, 1.0, math.prod(zeros.shape)).reshape(zeros.shape)
    return keras.ops.convert_to_tensor(numbers, zeros.dtype)
