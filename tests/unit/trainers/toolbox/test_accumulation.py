"""Gradients in slices are those of the whole batch, in less memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainers.toolbox.accumulation import gradients_in_slices

SAMPLES = 10
KINDS = ("eager", "graph", "xla", "open shape")


def _wrapped(step: Callable[..., Any], kind: str) -> Any:
    if kind == "eager":
        return step
    if kind == "open shape":
        spec = [tf.TensorSpec((None, 8)), tf.TensorSpec((None,), tf.int32)]
        return tf.function(step, input_signature=spec)
    return tf.function(step, jit_compile=kind == "xla")


class SmallLoss(NamedTuple):
    """The mean loss of a small model, and its variables."""

    of: Callable[..., Any]
    variables: list[Any]
    """The last is of no use."""


@pytest.fixture
def small() -> SmallLoss:
    """Of a small model that has a weight of no use, as well."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def of(x: Any, y: Any) -> Any:
        return loss(y, model(x, training=True))

    return SmallLoss(of, [*model.trainable_variables, tf.Variable([1.0, 2.0])])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("slices", [1, 4, 12])
def test_same_as_the_whole(small: SmallLoss, kind: str, slices: int) -> None:
    """With a last slice that is shorter, and with more slices than samples."""
    loss_of, variables = small
    x = tf.random.stateless_normal((SAMPLES, 8), [1, 2])
    y = tf.constant([0, 1, 2, 2, 2, 1, 0, 0, 1, 2])
    with tf.GradientTape() as tape:
        loss = loss_of(x, y)
    expected = tape.gradient(loss, [one.value for one in variables[:-1]])

    def step(x: Any, y: Any) -> Any:
        return gradients_in_slices(loss_of, variables, (x, y), slices=slices)

    found_loss, found = _wrapped(step, kind)(x, y)
    np.testing.assert_allclose(found_loss, loss, rtol=1e-5)
    for one, other in zip(found, expected, strict=False):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_array_equal(found[-1], [0.0, 0.0])
    assert len(found) == len(variables)


def test_mean_of_means_would_be_wrong() -> None:
    """Slices count by their samples: of three and one, not alike."""
    weight = tf.Variable(0.0)
    x = tf.constant([1.0, 1.0, 1.0, 9.0])

    def loss_of(x: Any) -> Any:
        return tf.reduce_mean(x * weight)

    _, (gradient,) = gradients_in_slices(loss_of, [weight], [x], slices=2)
    assert float(gradient) == 3.0
    _, (gradient,) = gradients_in_slices(loss_of, [weight], [x[:3]], slices=2)
    assert float(gradient) == 1.0


def test_embeddings_get_dense_gradients() -> None:
    """Rows that a slice does not ask for get nothing."""
    table = tf.Variable(tf.ones((5, 2)))
    _, (gradient,) = gradients_in_slices(
        lambda ids: tf.reduce_mean(tf.gather(table, ids)),
        [table],
        [tf.constant([0, 0, 3])],
        slices=2,
    )
    expected = np.zeros((5, 2))
    expected[0], expected[3] = 1 / 3, 1 / 6
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


@pytest.mark.parametrize(("batch", "slices"), [([], 2), ([[1.0]], 0)])
def test_nothing_to_do(batch: list[list[float]], slices: int) -> None:
    """No slice, or no tensor, is a mistake of the caller."""
    with pytest.raises(ValueError, match="expected one slice or more"):
        gradients_in_slices(tf.reduce_mean, [], batch, slices=slices)
