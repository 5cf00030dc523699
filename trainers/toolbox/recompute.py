"""Activations that are computed again in the backward pass, and not kept.

When: activations are most of the peak, and a step may take up to a third longer (its
forward pass runs twice; Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
Under ``trainwarden run`` it is ``compute.recompute = true`` of a spec.

Traps: ``keras.RematScope`` fails on TensorFlow for layers that are told whether they train,
and in mixed precision (Keras 3.15.1); a layer that draws (Dropout) or keeps an average
(BatchNormalization) would do so twice: those are left out here, and layers inside them
taken. It needs a step that is a graph: with ``run_eagerly`` nothing is saved. With
``tf.recompute_grad`` in a script of its own (``keras.RematScope`` calls it) TensorFlow 2.21
may read weights for the second forward pass when some are changed already, 4 trainings of
119 of a small model: ``tf.config.optimizer.set_experimental_options(
{"dependency_optimization": False})`` keeps the order, and is set here.
"""

import functools
from typing import Any

import keras


def recompute(model: Any, batch: Any) -> tuple[int, int]:
    """Let the layers of ``model``, which is built, be computed again: how many are, and
    how many are left out.

    ``batch``: one as ``fit`` takes it (inputs, targets), for shapes and types alone.

    Raises TypeError or ValueError, saying what to give, where ``model`` is no model, is not
    built or cannot be called on such a batch; NotImplementedError on JAX and PyTorch, which
    have their own (``jax.checkpoint`` by ``keras.RematScope``,
    ``torch.utils.checkpoint``).
    """
    if keras.backend.backend() != "tensorflow":
        message = (
            "recompute is for Keras on TensorFlow; on JAX make the layers in a"
            " keras.RematScope, on PyTorch see torch.utils.checkpoint"
        )
        raise NotImplementedError(message)
    import tensorflow as tf  # noqa: PLC0415  # not in every environment

    from trainers.backends.tensorflow import recomputation  # noqa: PLC0415  # needs it

    _check_built(model)
    if batch is None:
        message = "batch is None: give one as fit takes it, (x, y)"
        raise TypeError(message)
    specs = tf.nest.map_structure(_spec, batch)
    marked, left_out = recomputation.recompute(model, specs)
    if left_out and not marked:
        _check_called(model, specs)
    return marked, left_out


def _check_built(model: Any) -> None:
    if not isinstance(model, keras.Model):
        message = f"model is a {type(model).__name__}: give the keras.Model itself"
        raise TypeError(message)
    if not model.built or not any(one.built for one in model.layers):
        message = f"{model.name} is not built: call it once on a batch before"
        raise ValueError(message)


def _check_called(model: Any, specs: Any) -> None:
    """That no layer is taken may come from a batch that the model does not take."""
    import tensorflow as tf  # noqa: PLC0415  # not in every environment

    inputs, _, _ = keras.utils.unpack_x_y_sample_weight(specs)
    forward = tf.function(functools.partial(model, training=True), autograph=False)
    try:
        forward.get_concrete_function(inputs)
    except Exception as error:
        shapes = tf.nest.map_structure(lambda one: tuple(one.shape), inputs)
        message = (
            f"{model.name} cannot be called on inputs of shape {shapes}: give a batch as"
            " fit takes it, (x, y)"
        )
        raise ValueError(message) from error


def _spec(value: Any) -> Any:
    import tensorflow as tf  # noqa: PLC0415  # not in every environment

    if value is None:
        return None
    try:
        tensor = tf.convert_to_tensor(value)
    except (TypeError, ValueError) as error:
        message = (
            f"batch has a {type(value).__name__}: give one batch of tensors or arrays, of"
            " a dataset next(iter(dataset))"
        )
        raise TypeError(message) from error
    return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype)
