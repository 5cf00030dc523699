"""Slices draw the random numbers that the whole batch draws for their samples."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from trainers.backends.tensorflow.slices import slice_draws
from trainers.microbatch import prepare as microbatch

BATCH, SIZE = 32, 7
X = np.random.default_rng(0).random((2 * BATCH, 10, 8)).astype("float32")
Y = np.random.default_rng(1).random((2 * BATCH, 1)).astype("float32")


def model_with(body: Callable[[Any], Any], *, jit: bool) -> Any:
    """One that draws in the middle, from the same seeds each time."""
    keras.utils.set_random_seed(3)
    given = keras.Input((10, 8))
    model = keras.Model(given, layers.Dense(1)(layers.Flatten()(body(given))))
    model.compile(keras.optimizers.SGD(0.005), "mse", jit_compile=jit)
    return model


def trained(model: Any, *, size: int | None) -> tuple[list[Any], list[str]]:
    """Weights and seeds after some epochs in slices of ``size``, or whole; what was told."""
    told: list[str] = []
    prepared = microbatch.prepare(
        model,
        slice_size=size,
        calibrate=False,
        slice_ceiling=None,
        memory_limit_bytes=None,
        allow_inexact=True,
        first_batch=lambda: (tf.constant(X[:BATCH]), tf.constant(Y[:BATCH])),
        report=lambda _kind, **fields: told.extend(fields["deviations"]),
    )
    model.fit(X, Y, batch_size=BATCH, epochs=3, verbose=0, shuffle=False)
    prepared.restore()
    return [np.asarray(variable) for variable in model.variables], told


def attention(given: Any) -> Any:
    """Draws by sample, head, query and key."""
    seen = layers.MultiHeadAttention(2, 4, dropout=0.3)(given, given)
    return layers.Dropout(0.2)(layers.LayerNormalization()(seen))


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_masks_of_slices_are_those_of_the_batch(*, jit: bool) -> None:
    """The same weights up to rounding, the same seeds to come, and nothing to tell."""

    def body(given: Any) -> Any:
        return attention(layers.Dropout(0.4)(layers.SpatialDropout1D(0.3)(given)))

    whole, _ = trained(model_with(body, jit=jit), size=None)
    sliced, told = trained(model_with(body, jit=jit), size=SIZE)
    assert told == []
    for one, two in zip(whole, sliced, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=2e-6)
        assert one.dtype.kind == "f" or (one == two).all()


def noisy(given: Any) -> Any:
    """Normal numbers are added; the layer takes its seed when it is made."""
    return layers.GaussianNoise(0.3)(given)


@pytest.mark.slow
def test_normal_numbers_without_xla() -> None:
    """XLA draws them in another order: there they are told, and here they agree."""
    whole, _ = trained(model_with(noisy, jit=False), size=None)
    sliced, told = trained(model_with(noisy, jit=False), size=SIZE)
    assert told == []
    for one, two in zip(whole, sliced, strict=True):
        np.testing.assert_allclose(one, two, rtol=0, atol=2e-6)
    _, told = trained(model_with(noisy, jit=True), size=SIZE)
    assert "draws random numbers" in told[0]


class SharedMask(layers.Layer):
    """One mask for all samples of a batch."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = keras.random.SeedGenerator(7)

    def call(self, inputs: Any, training: bool = False) -> Any:  # noqa: FBT001, FBT002  # Keras' signature
        """The inputs, some features of them dropped for everybody."""
        if not training:
            return inputs
        shape = (1, 10, 8)
        return keras.random.dropout(inputs, 0.5, noise_shape=shape, seed=self.generator)


def test_what_is_not_drawn_by_sample_is_told() -> None:
    """Where it is cut nobody could say: slices draw as they come, and that is told."""
    model = model_with(SharedMask(), jit=False)
    _, told = trained(model, size=SIZE)
    assert "draws random numbers" in told[0]


class DroppedResidual(layers.Layer):
    """Stochastic depth: some samples go past a branch of the network."""

    def __init__(self, rate: float, *, seed: int) -> None:
        super().__init__()
        self.branch, self.rate = layers.Dense(8, "tanh"), rate
        self.generator = keras.random.SeedGenerator(seed)

    def call(self, inputs: Any, training: bool = False) -> Any:  # noqa: FBT001, FBT002  # Keras' signature
        """The branch beside what it was given, where it is not dropped."""
        if not training:
            return inputs + self.branch(inputs)
        shape = (keras.ops.shape(inputs)[0], 1, 1)
        kept = keras.random.uniform(shape, seed=self.generator) >= self.rate
        return inputs + keras.ops.cast(kept, inputs.dtype) * self.branch(inputs)


def as_images(given: Any) -> Any:
    """The samples as small pictures."""
    return layers.Reshape((10, 8, 1))(given)


AUGMENTED: dict[str, Callable[[Any, int], Any]] = {
    "flips": lambda given, seed: layers.RandomFlip(seed=seed)(as_images(given)),
    "rotations": lambda given, seed: layers.RandomRotation(0.2, seed=seed)(
        as_images(given)
    ),
    "stochastic depth": lambda given, seed: DroppedResidual(0.4, seed=seed)(given),
}
"""By what a network draws for each of its samples, with which seed."""


@pytest.mark.parametrize(
    ("what", "jit"),
    [
        ("flips", False),
        ("stochastic depth", False),
        pytest.param("rotations", False, marks=pytest.mark.slow),
        pytest.param("flips", True, marks=pytest.mark.slow),
        pytest.param("stochastic depth", True, marks=pytest.mark.slow),
    ],
)
def test_what_is_drawn_for_a_sample_agrees_or_is_told(what: str, *, jit: bool) -> None:
    """Augmentation and dropped residuals: as of the whole batch, or under XLA told."""

    def model(seed: int) -> Any:
        return model_with(lambda given: AUGMENTED[what](given, seed), jit=jit)

    def is_same(weights: list[Any]) -> bool:
        pairs = zip(whole, weights, strict=True)
        return all(np.allclose(one, two, rtol=0, atol=2e-6) for one, two in pairs)

    whole, _ = trained(model(5), size=None)
    assert not is_same(trained(model(6), size=None)[0]), "the draws change nothing"
    sliced, told = trained(model(5), size=SIZE)
    if told:
        assert jit
        assert "draws random numbers" in told[0]
    else:
        assert is_same(sliced)


def test_draws_of_others_are_theirs() -> None:
    """Outside of a slice, TensorFlow's generators give what they always gave."""
    before = tf.random.stateless_uniform([5], seed=[1, 2]).numpy()
    with slice_draws.of_samples(tf.constant(2), tf.constant(3)):
        inside = tf.random.stateless_uniform([3], seed=[1, 2]).numpy()
    assert (tf.random.stateless_uniform([5], seed=[1, 2]).numpy() == before).all()
    assert (inside == before[2:]).all()
