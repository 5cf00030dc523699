"""Mixed precision set rightly, loss scaling included.

When: activations are most of the peak; they take half. bfloat16 needs no loss scaling;
float16 does, as gradients below 6e-8 are 0 in it. Weights stay float32, and so does the
optimizer's state: nothing is saved there, and each layer makes a half copy of its weights.

Traps, each found by ``precision_faults``: a policy that is set after layers were made
changes none of them; "float16" (without "mixed_") trains weights in half precision, where
small updates are lost; a softmax or a sigmoid, or a loss, in half precision; float16 in a
loop of one's own without scaling; a scale that never changes.
"""

from collections.abc import Iterator
from typing import Any, Literal

import keras

HALVES = ("float16", "bfloat16")
_PROBABILITIES = ("softmax", "sigmoid", "log_softmax")
_NEVER_STEPS = 10**6
"""A loss scale that may grow once in so many steps is a fixed one."""


def use_mixed_precision(dtype: Literal["bfloat16", "float16"] = "bfloat16") -> None:
    """Let all layers that are made from now on compute in ``dtype``, with weights in
    float32. Raises ValueError for another type."""
    if dtype not in HALVES:
        message = f"expected 'bfloat16' or 'float16', got {dtype!r}"
        raise ValueError(message)
    keras.config.set_dtype_policy(f"mixed_{dtype}")


def scaling_optimizer(optimizer: Any) -> Any:
    """``optimizer``, with a loss scale that adapts where the policy in force is
    ``mixed_float16``: for a loop of one's own (``compile`` does that by itself)::

        optimizer = scaling_optimizer(keras.optimizers.Adam())
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
            scaled = optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    ``apply_gradients`` divides by the scale, leaves a step out whose gradients overflowed
    and halves the scale then. Raises TypeError for anything but an optimizer of Keras.
    """
    _check_optimizer(optimizer)
    if keras.config.dtype_policy().name != "mixed_float16" or _scales(optimizer):
        return optimizer
    return keras.optimizers.LossScaleOptimizer(optimizer)


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        message = (
            f"optimizer is {optimizer!r}: give one of Keras, as keras.optimizers.Adam()"
        )
        raise TypeError(message)


def precision_faults(model: Any, optimizer: Any = None) -> list[str]:
    """What is wrong with the precision of ``model``, a sentence each; none: nothing was
    found. ``optimizer``: that of one's own loop; without it the one of ``compile``.

    Raises TypeError for anything but a model, ValueError where its weights, which are
    looked at, are not made yet.
    """
    if not isinstance(model, keras.Model):
        message = f"model is a {type(model).__name__}: give the keras.Model itself"
        raise TypeError(message)
    if not model.built:
        message = f"{model.name} is not built: call it once on a batch before"
        raise ValueError(message)
    if optimizer is not None:
        _check_optimizer(optimizer)
    optimizer = getattr(model, "optimizer", None) if optimizer is None else optimizer
    layers = list(_innermost(model))
    found = [
        _unchanged(layers),
        _half_weights(layers),
        _half_probabilities(model, layers),
        _scale_fault(optimizer, layers),
    ]
    return [one for one in found if one is not None]


def _innermost(layer: Any) -> Iterator[Any]:
    inside = [one for one in getattr(layer, "layers", ()) if one is not layer]
    if not inside:
        yield layer
    for one in inside:
        yield from _innermost(one)


def _unchanged(layers: list[Any]) -> str | None:
    policy = keras.config.dtype_policy()
    computing = {layer.compute_dtype for layer in layers}
    if policy.compute_dtype not in HALVES or policy.compute_dtype in computing:
        return None
    return (
        f"the policy is {policy.name}, and no layer computes in {policy.compute_dtype}:"
        " set it before the layers are made"
    )


def _half_weights(layers: list[Any]) -> str | None:
    names = [
        layer.name
        for layer in layers
        if any(str(weight.dtype) in HALVES for weight in layer.trainable_weights)
    ]
    if not names:
        return None
    return (
        f"weights of {_several(names)} are in half precision, in which small updates are"
        " lost: use mixed_bfloat16 or mixed_float16"
    )


def _half_probabilities(model: Any, layers: list[Any]) -> str | None:
    """Last layers whose probabilities are in half precision as they reach the loss."""
    ends = set(getattr(model, "output_names", None) or ())
    last = [layer for layer in layers if layer.name in ends] or layers[-1:]
    names = [
        layer.name
        for layer in last
        if layer.compute_dtype in HALVES and _activation(layer) in _PROBABILITIES
    ]
    if not names:
        return None
    return (
        f"{_several(names)} gives probabilities in half precision: give the last layer"
        " dtype='float32'"
    )


def _scale_fault(optimizer: Any, layers: list[Any]) -> str | None:
    if optimizer is None or all(one.compute_dtype != "float16" for one in layers):
        return None
    if (fixed := getattr(optimizer, "loss_scale_factor", None)) is not None:
        return (
            f"the loss scale is fixed at {fixed:g}, so that gradients may overflow: leave"
            " loss_scale_factor out, and take scaling_optimizer(optimizer)"
        )
    if not _scales(optimizer):
        return (
            "float16 without a loss scale: gradients below 6e-8 are 0. Take"
            " scaling_optimizer(optimizer), and scale_loss in the loop, or mixed_bfloat16"
        )
    if optimizer.dynamic_growth_steps >= _NEVER_STEPS:
        return (
            "the loss scale cannot grow again once it was halved: leave"
            " dynamic_growth_steps at its default, 2000"
        )
    return None


def _scales(optimizer: Any) -> bool:
    return isinstance(optimizer, keras.optimizers.LossScaleOptimizer)


def _activation(layer: Any) -> str | None:
    return getattr(getattr(layer, "activation", None), "__name__", None) or (
        "softmax" if isinstance(layer, keras.layers.Softmax) else None
    )


def _several(names: list[str]) -> str:
    shown = ", ".join(names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"
