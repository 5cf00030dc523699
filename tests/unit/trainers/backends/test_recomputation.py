"""Activations that are computed again: the same training, of layers that allow it."""

from typing import Any

import keras
import numpy as np
import pytest

from trainers.backends.tensorflow.recomputation import recompute

draw = np.random.default_rng(0)
X = draw.normal(size=(32, 8, 6)).astype("float32")
Y = draw.normal(size=(32, 1)).astype("float32")


@keras.saving.register_keras_serializable("recomputation")
class Block(keras.layers.Layer):
    """A layer with layers in it, told by keyword whether it trains."""

    def __init__(self, *, dropout: float = 0.0, adds: bool = False) -> None:
        super().__init__()
        self.attention = keras.layers.MultiHeadAttention(2, 3)
        self.wide = keras.layers.Dense(16, activation="gelu")
        self.narrow = keras.layers.Dense(6)
        self.dropout = keras.layers.Dropout(dropout) if dropout else None
        self.adds = adds

    def build(self, shape: Any) -> None:
        """All variables, before the first step."""
        self.attention.build(shape, shape)
        self.wide.build(shape)
        self.narrow.build((*shape[:-1], 16))
        self.built = True

    def call(self, x: Any, *, training: bool = False) -> Any:
        """Attention over itself, then two layers."""
        x = self.attention(x, x, training=training)
        x = self.wide(x)
        if self.dropout is not None:
            x = self.dropout(x, training=training)
        if self.adds:
            self.add_loss(keras.ops.mean(x))
        return self.narrow(x)


def model_of(*layers: Any, policy: str = "float32") -> Any:
    """One that is built and compiled, from the same start each time."""
    keras.utils.set_random_seed(3)
    keras.config.set_dtype_policy(policy)
    try:
        made = [layer() for layer in layers]
        model = keras.Sequential(
            [
                keras.Input((8, 6)),
                *made,
                keras.layers.Flatten(),
                keras.layers.Dense(1, dtype="float32"),
            ]
        )
    finally:
        keras.config.set_dtype_policy("float32")
    # Adam would make a step of what is left of gradients that are 0 but for rounding.
    model.compile(keras.optimizers.SGD(0.05), "mse", jit_compile=False)
    return model


def weights_after(model: Any) -> list[np.ndarray]:
    """Of a short training."""
    model.fit(X, Y, batch_size=8, epochs=2, shuffle=False, verbose=0)
    weights: list[np.ndarray] = model.get_weights()
    return weights


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_training_is_the_same(policy: str) -> None:
    """Whatever a layer's call is told, in half precision too, and only once for each."""
    kinds = (Block, lambda: keras.layers.Conv1D(6, 3, padding="same"), Block)
    plain, again = (model_of(*kinds, policy=policy) for _ in range(2))
    assert recompute(again) == (5, 0)
    assert recompute(again) == (0, 0)
    for one, other in zip(weights_after(plain), weights_after(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_what_a_second_call_would_change_is_left_out() -> None:
    """Moving averages and draws; of a layer that holds such a one, those beside it are
    taken. They are drawn, and averaged, once a step, as without."""
    kinds = (lambda: Block(dropout=0.5), keras.layers.BatchNormalization)
    plain, again = (model_of(*kinds) for _ in range(2))
    marked, left_out = recompute(again)
    assert marked > 2
    assert left_out >= 2
    for one, other in zip(weights_after(plain), weights_after(again), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_a_loss_that_a_call_adds_is_not_lost_in_silence() -> None:
    """Its gradient would be."""
    model = model_of(lambda: Block(adds=True))
    recompute(model)
    with pytest.raises(RuntimeError, match="adds a loss in its call"):
        weights_after(model)
