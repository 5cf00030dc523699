"""Recomputation in a script of one's own: fewer tensors are kept, numbers stay."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainers.toolbox import recompute


def _trained(*, again: bool) -> list[np.ndarray]:
    keras.utils.set_random_seed(2)
    layers = [keras.layers.Dense(16, "gelu"), keras.layers.Dropout(0.5)]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(1)])
    x, y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
    model.compile("sgd", "mse")
    if again:
        assert recompute.recompute(model, (x, y)) == (2, 1)
    model.fit(x, y, batch_size=4, verbose=0)
    return [np.array(one) for one in model.get_weights()]


def test_same_numbers() -> None:
    """But for rounding; the layer that draws is left out."""
    for one, other in zip(_trained(again=True), _trained(again=False), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_another_framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX and PyTorch have their own, which is said."""

    def backend() -> str:
        return "jax"

    monkeypatch.setattr(keras.backend, "backend", backend)
    with pytest.raises(NotImplementedError, match=r"keras\.RematScope"):
        recompute.recompute(None, tf.zeros(1))
