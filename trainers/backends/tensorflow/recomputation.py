"""Recomputation of activations in the backward pass, of layers that may be called twice.

``keras.RematScope`` is the same for layers that are made inside it, so a script has to be
changed for it; and on TensorFlow it fails for each layer whose call is told whether it
trains, as a ``Dense`` is, and in mixed precision (Keras 3.15.1): ``tf.recompute_grad``
takes no keywords in a graph, and the second call is outside of Keras' autocast scope. Here
the call of the layer itself is replaced, with both in it.

The outermost layers are taken, as what is inside one needs not be kept then. A layer whose
state changes with a call (moving averages of a BatchNormalization, the generator of a
Dropout) would change it twice, and draw another mask than the forward pass had: of such a
layer those inside are taken that have no such state. What a layer holds does not tell all of
it, as a call may draw from a generator that is not its own: calls are looked at, too
(``repeatable_calls``); one that takes rows of a table of its own, as an Embedding does, is
left out as well. Whole models are not taken either: one that is computed again at once
keeps as much at once.

Weights are read again, too, and have to be before the optimizer changes them. TensorFlow's
dependency optimizer takes that order out of the graph (seen with 2.21: of 44 reads of a
model of five layers, 5 were free to come later, and 4 of 119 trainings ended with
other weights), so it is told not to run in a process that computes activations again.
"""

import functools
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf
from keras.src.backend.common.variables import AutocastScope, get_autocast_scope

from trainers.backends.tensorflow.functions import graph_effects, repeatable_calls

_MARK = "_trainwarden_recomputed"
ADDS_LOSS = (
    "the layer {} adds a loss in its call, whose gradient would be lost where activations"
    " are computed again: leave compute.recompute out"
)
NOT_AGAIN = (
    "a call of the layer {} draws or changes something ({}), and would do so once more where"
    " activations are computed again: leave compute.recompute out"
)


def recompute(model: Any, element_spec: Any) -> tuple[int, int]:
    """Let the layers of ``model``, which is built, be computed again: how many are, and how
    many are left out. Those that were marked before stay as they are.

    ``element_spec``: shapes and dtypes of a batch, as ``fit`` takes it. Training raises a
    RuntimeError where a call turns out to be none that may be repeated.
    """
    marked = left_out = 0
    repeatable = repeatable_calls.found(model, element_spec)
    for layer, whole in _chosen(model, repeatable):
        if not whole:
            left_out += 1
        elif _MARK not in vars(layer):
            layer.call = _again(layer, layer.call)
            vars(layer)[_MARK] = True
            marked += 1
    if marked:
        tf.config.optimizer.set_experimental_options({"dependency_optimization": False})
    return marked, left_out


def _chosen(layer: Any, repeatable: set[int]) -> Iterator[tuple[Any, bool]]:
    """The outermost layers below ``layer``, and whether each may be called twice."""
    for inner in _inside(layer):
        if isinstance(inner, keras.layers.InputLayer):
            continue
        if isinstance(inner, keras.Model):
            yield from _chosen(inner, repeatable)
        elif id(inner) in repeatable and not _keeps_state(inner):
            yield inner, True
        elif _inside(inner):
            yield from _chosen(inner, repeatable)
        else:
            yield inner, False


def _inside(layer: Any) -> list[Any]:
    """The layers that it holds itself, each once."""
    return list({id(one): one for one in layer._layers}.values())


def _keeps_state(layer: Any) -> bool:
    """Whether a call in training may change anything in it, or ask for a loss that
    gradients have to come from, too."""
    return any(
        part.non_trainable_variables
        or part._seed_generators
        or part.activity_regularizer is not None
        for part in _parts(layer)
    )


def _parts(layer: Any) -> list[Any]:
    return list(layer._flatten_layers(include_self=True))


def _again(layer: Any, call: Any) -> Any:
    """``call`` of ``layer``, whose tensors are not kept but computed again."""

    @functools.wraps(call)
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        if tf.executing_eagerly():  # nobody could see what the call does
            return call(*args, **kwargs)
        scope, losses = get_autocast_scope(), _losses(layer)
        seen = graph_effects.Seen()
        given = tf.nest.flatten((args, kwargs))
        where = [number for number, one in enumerate(given) if tf.is_tensor(one)]

        def computed(*tensors: Any) -> Any:
            for number, one in zip(where, tensors, strict=True):
                given[number] = one
            these, named = tf.nest.pack_sequence_as((args, kwargs), given)
            with AutocastScope(None if scope is None else scope.dtype):
                return call(*these, **named)

        result = tf.recompute_grad(computed)(*(given[number] for number in where))
        if _losses(layer) != losses:
            raise RuntimeError(ADDS_LOSS.format(layer.name))
        if (effect := seen.effect()) is not None:
            raise RuntimeError(NOT_AGAIN.format(layer.name, effect))
        return result

    return recomputed


def _losses(layer: Any) -> int:
    return sum(len(part._losses) for part in _parts(layer))
