"""Layers whose calls give the same however often they are made, found by traces.

Two traces of the model in training, of which no step is run. A call that draws, or changes
a variable, has an operation for it, whoever's generator that is. One that draws in Python
puts another number into its second trace. A call that adds a loss, and a layer that is not
called at all, are none of these either. Nor is one that takes rows of a variable, as an
Embedding does: computed again, its gradient would be that of the whole table, which
optimizers such as Adam work with otherwise (Keras squares rows that came twice apart).
"""

import contextlib
import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from trainers.backends.tensorflow.functions.graph_effects import Seen

Content = tuple[tuple[str, bytes], ...]


def found(model: Any, element_spec: Any) -> set[int]:
    """The ``id`` of each layer in ``model`` whose calls may be repeated; none where the
    model cannot be traced for ``element_spec``, shapes and dtypes of a batch."""
    layers: list[Any] = model._flatten_layers(include_self=False)
    try:
        first, second = (_traced(model, layers, element_spec) for _ in range(2))
    except Exception:  # noqa: BLE001  # the script's code; training tells what is wrong
        return set()
    return {one for one, calls in first.items() if calls and second.get(one) == calls}


def _traced(
    model: Any, layers: list[Any], element_spec: Any
) -> dict[int, list[Content]]:
    """What the calls of each layer are made of; empty: one may not be repeated."""
    inputs, _, _ = keras.utils.unpack_x_y_sample_weight(element_spec)
    calls = defaultdict[int, list[Content]](list)
    never = set[int]()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_losses_kept(model))
        for layer in layers:
            stack.enter_context(_losses_kept(layer))
            stack.enter_context(_watched(layer, calls, never))
        forward = functools.partial(model, training=True)
        tf.function(forward, autograph=False).get_concrete_function(inputs)
    return {one: [] if one in never else contents for one, contents in calls.items()}


@contextlib.contextmanager
def _watched(
    layer: Any, calls: dict[int, list[Content]], never: set[int]
) -> Iterator[None]:
    """Note the calls of ``layer`` meanwhile."""
    held, original = vars(layer).get("call"), layer.call
    _set_call(layer, _noting(layer, original, calls, never))
    try:
        yield
    finally:
        _set_call(layer, held)


def _noting(
    layer: Any,
    call: Callable[..., Any],
    calls: dict[int, list[Content]],
    never: set[int],
) -> Callable[..., Any]:
    @functools.wraps(call)
    def noted(*args: Any, **kwargs: Any) -> Any:
        seen, losses = Seen(), _losses(layer)
        result = call(*args, **kwargs)
        changes = seen.effect() is not None or _losses(layer) != losses
        if changes or seen.gathers():
            never.add(id(layer))
        calls[id(layer)].append(seen.content())
        return result

    return noted


def _set_call(layer: Any, call: Any) -> None:
    """Past Keras, which notes what is set; None: that of the class."""
    if call is None:
        vars(layer).pop("call", None)
    else:
        vars(layer)["call"] = call


def _losses(layer: Any) -> int:
    return sum(len(one._losses) for one in layer._flatten_layers(include_self=True))


@contextlib.contextmanager
def _losses_kept(layer: Any) -> Iterator[None]:
    """What is added meanwhile belongs to a graph that nobody runs."""
    losses, names = list(layer._losses), set(layer._loss_ids)
    try:
        yield
    finally:
        layer._losses[:] = losses
        layer._loss_ids.clear()
        layer._loss_ids.update(names)
