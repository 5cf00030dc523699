"""The private names of Keras that slicing a train step leans on: losses, metrics, masks.

All backends of Keras share them. ``keras_compat`` has those of ``fit``.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras.src import backend as keras_backend
from keras.src.losses import loss as loss_module
from keras.src.trainers.trainer import Trainer

HALF = frozenset({"float16", "bfloat16"})


def takes_training(model: Any) -> bool:
    """Whether the model's ``call`` has a ``training`` argument."""
    return bool(model._call_has_training_arg)


def loss_tracker(model: Any) -> Any:
    """The Mean metric behind the log ``loss``."""
    return model._loss_tracker


def of_one_replica(loss: Any) -> Any:
    """The loss of this replica's samples, of its share in that of all replicas."""
    unscaled = getattr(loss_module, "unscale_loss_for_distribution", None)
    return loss if unscaled is None else unscaled(loss)


def compiled_loss(model: Any) -> Any | None:
    """``CompileLoss`` of the model; None without a ``loss`` in ``compile``."""
    return model._compile_loss


def compiled_metrics(model: Any) -> Any | None:
    """``CompileMetrics`` of the model; None without metrics in ``compile``."""
    return model._compile_metrics


def flat_losses(model: Any) -> list[Any]:
    """The loss objects of the outputs, in order; empty before they are built."""
    compiled = compiled_loss(model)
    if compiled is None or not compiled.built:
        return []
    if hasattr(compiled, "flat_losses"):  # Keras 3.4 to 3.6
        return [loss for loss in compiled.flat_losses if loss is not None]
    return [entry.loss for entry in compiled._flat_losses or []]


def added_losses(model: Any) -> list[Any]:
    """What the last call added by ``add_loss`` and regularisers, each a scalar."""
    # Keras 3.4 to 3.6 has no method for it.
    total = getattr(model, "_aggregate_additional_loss", _as_one)
    return [total(loss) for loss in model.losses]


def added_by_weights(model: Any) -> int:
    """How many of the added losses, the last ones, are regularisers of weights: they are
    the same for each slice."""
    return sum(one.regularizer is not None for one in model.trainable_weights)


@contextlib.contextmanager
def losses_of_call(model: Any, losses: list[Any]) -> Iterator[None]:
    """Let ``model.losses`` be what a stateless call returned as such."""
    model._losses_override = list(losses)
    try:
        yield
    finally:
        model._losses_override = []


def _as_one(loss: Any) -> Any:
    return keras.ops.sum(keras.ops.cast(loss, keras.config.floatx()))


def total_loss(model: Any, **arguments: Any) -> Any:
    """``compute_loss``, also where a subclass overrides it without ``training``."""
    return model._compute_loss(**arguments, training=True)


@contextlib.contextmanager
def output_losses_into(model: Any, recorders: list[Any]) -> Iterator[None]:
    """Let ``CompileLoss`` update ``recorders`` instead of its per-output metrics."""
    compiled = compiled_loss(model)
    if compiled is None:
        yield
        return
    kept, compiled._metrics = compiled._metrics, recorders
    try:
        yield
    finally:
        compiled._metrics = kept


def output_loss_metrics(model: Any) -> list[Any]:
    """The Mean metrics of the per-output losses; empty for a single output."""
    compiled = compiled_loss(model)
    return [] if compiled is None else list(compiled._metrics)


@contextlib.contextmanager
def without_jit(model: Any) -> Iterator[None]:
    """Let Keras build its train function without XLA around the whole step."""
    kept, model._jit_compile = model._jit_compile, False
    try:
        yield
    finally:
        model._jit_compile = kept


def own_compute_loss(model: Any) -> bool:
    """Whether the user's class has a ``compute_loss`` of its own."""
    return type(model).compute_loss is not Trainer.compute_loss


def own_compute_metrics(model: Any) -> bool:
    """Whether the user's class has a ``compute_metrics`` of its own."""
    return type(model).compute_metrics is not Trainer.compute_metrics


def mask_of(tensor: Any) -> Any | None:
    """The Keras mask that travels with a tensor."""
    return keras_backend.get_keras_mask(tensor)


def set_mask(tensor: Any, mask: Any) -> None:
    """Let ``mask`` travel with ``tensor``."""
    keras_backend.set_keras_mask(tensor, mask)


def logits_of(tensor: Any) -> Any | None:
    """The logits that Keras' softmax and sigmoid leave for the cross-entropies."""
    return getattr(tensor, "_keras_logits", None)


def set_logits(tensor: Any, logits: Any) -> None:
    """Let ``logits`` travel with ``tensor``."""
    tensor._keras_logits = logits


def all_layers(model: Any) -> list[Any]:
    """Every layer inside the model, itself included."""
    return list(model._flatten_layers())


def layers_below(layer: Any) -> list[Any]:
    """Every layer inside of it."""
    return list(layer._flatten_layers(include_self=False))


def given_to_compile(model: Any) -> list[Any]:
    """The losses and metrics that ``compile`` was given."""
    loss, metrics = compiled_loss(model), compiled_metrics(model)
    return [
        *([] if loss is None else [loss._user_loss]),
        *([] if metrics is None else [metrics._user_metrics]),
    ]


@contextlib.contextmanager
def given_losses_kept(model: Any) -> Iterator[None]:
    """Put back the numbers and variables in the losses given to ``compile``: some count
    their calls."""
    kept: list[tuple[Any, str, Any]] = []
    variables: list[tuple[Any, Any]] = []
    compiled = compiled_loss(model)
    given = None if compiled is None else compiled._user_loss
    for one in keras.tree.flatten(given):
        own = getattr(one, "__dict__", {})
        kept += [(own, name, value) for name, value in own.items() if _is_plain(value)]
        found = [two for two in own.values() if isinstance(two, keras.Variable)]
        variables += [(two, np.array(keras.ops.convert_to_numpy(two))) for two in found]
    try:
        yield
    finally:
        for own, name, value in kept:
            own[name] = value
        for variable, value in variables:
            variable.assign(value)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float))


def given_rate(optimizer: Any) -> Any:
    """The learning rate as the optimizer keeps it: a variable or a schedule."""
    return getattr(optimizer, "_learning_rate", None)


def layers_own_variables(layer: Any) -> list[Any]:
    """The non-trainable variables of this layer alone, not of those inside it."""
    return list(layer._non_trainable_variables)


def seed_states(layer: Any) -> list[Any]:
    """The state variables of this layer's own seed generators."""
    return [generator.state for generator in layer._seed_generators]


def computes_in_half(model: Any) -> bool:
    """Whether layers with weights compute in half precision."""
    return any(
        layer.compute_dtype in HALF and layer.trainable_variables
        for layer in all_layers(model)
    )


def narrow_variables(model: Any) -> set[int]:
    """``id`` of the variables whose gradients pass through float16 (autocast)."""
    return {
        id(variable)
        for layer in all_layers(model)
        if layer.compute_dtype == "float16"
        for variable in layer._trainable_variables
        if variable._autocast
    }
