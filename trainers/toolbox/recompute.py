"""Activations that are computed again in the backward pass, and not kept.

When: activations are most of the peak, and a step may take up to a third longer (its
forward pass runs twice; Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost").
Under ``trainwarden run`` it is ``compute.recompute = true`` of a spec.

Traps: ``keras.RematScope`` fails on TensorFlow for layers that are told whether they train,
and in mixed precision (Keras 3.15.1); a layer that draws (Dropout) or keeps an average
(BatchNormalization) would do so twice: those are left out here, and layers inside them
taken. It needs a step that is a graph: with ``run_eagerly`` nothing is saved.
"""

from typing import Any

import keras


def recompute(model: Any, batch: Any) -> tuple[int, int]:
    """Let the layers of ``model``, which is built, be computed again: how many are, and
    how many are left out.

    ``batch``: one as ``fit`` takes it (inputs, targets), for shapes and types alone.
    Raises NotImplementedError on JAX and PyTorch, which have their own
    (``jax.checkpoint`` by ``keras.RematScope``, ``torch.utils.checkpoint``).
    """
    if keras.backend.backend() != "tensorflow":
        message = (
            "recompute is for Keras on TensorFlow; on JAX make the layers in a"
            " keras.RematScope, on PyTorch see torch.utils.checkpoint"
        )
        raise NotImplementedError(message)
    import tensorflow as tf  # noqa: PLC0415  # not in every environment

    from trainers.backends.tensorflow import recomputation  # noqa: PLC0415  # needs it

    return recomputation.recompute(model, tf.nest.map_structure(_spec, batch))


def _spec(value: Any) -> Any:
    import tensorflow as tf  # noqa: PLC0415  # not in every environment

    tensor = tf.convert_to_tensor(value)
    return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype)
