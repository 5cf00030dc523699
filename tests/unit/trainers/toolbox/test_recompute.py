"""Recomputation in a script of one's own: fewer tensors are kept, numbers stay."""

from typing import Any

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


class Branched(keras.Model):
    """One that is built by its first call."""

    def __init__(self) -> None:
        """Not built."""
        super().__init__()
        self.first = keras.layers.Dense(4)

    def call(self, x: Any) -> Any:
        """One layer."""
        return self.first(x)


def test_not_built() -> None:
    """No layer could be looked at; ``build`` makes none of a model of its own kind."""
    with pytest.raises(ValueError, match="is not built: call it once on a batch"):
        recompute.recompute(Branched(), np.ones((2, 4)))
    model = keras.Sequential([keras.layers.Dense(4)])
    with pytest.raises(ValueError, match="is not built: call it once on a batch"):
        recompute.recompute(model, np.ones((2, 4)))


def _built() -> Any:
    model = Branched()
    model(np.ones((2, 4)))
    return model


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (np.ones((2, 5)), r"inputs of shape \(None, 5\): give a batch"),
        (None, "batch is None: give one"),
        (tf.data.Dataset.from_tensors(1), "Dataset: give one batch of tensors"),
    ],
)
def test_no_batch(batch: Any, why: str) -> None:
    """A model that cannot be traced is no model without layers to take."""
    with pytest.raises((TypeError, ValueError), match=why):
        recompute.recompute(_built(), batch)


@pytest.mark.parametrize("model", [None, "model.keras", keras.layers.Dense(3)])
def test_no_model(model: Any) -> None:
    """A path is none."""
    with pytest.raises(TypeError, match=r"give the keras\.Model itself"):
        recompute.recompute(model, np.ones((2, 4)))


def test_a_model_of_its_own_kind() -> None:
    """Layers that are attributes are taken; sample weights may be None."""
    assert recompute.recompute(_built(), (np.ones((2, 4)), np.ones(2), None)) == (1, 0)


def test_only_layers_that_draw() -> None:
    """None is taken then, and that is no mistake in the batch."""
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dropout(0.5)])
    assert recompute.recompute(model, np.ones((2, 4))) == (0, 1)
