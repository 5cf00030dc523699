"""k slices against one in half precision: the same updates, and the same sums.

The gradient of a whole batch is a sum over samples that is rounded once. Slices add up
what was not rounded yet (``trainers.backends.tensorflow.slices.float32_accumulation``), so they differ from whole batches as
little as in float32: measured after an epoch by up to 3e-5 in a weight, where each slice
rounded for itself it was 5e-4 (biases) and 1e-3 (Adam, which magnifies gradients near
zero). Without XLA TensorFlow's CPU makes the sums of convolutions, of Einsum and of Sum
in float16 itself: a whole batch is then off from the exact sums by up to 5e-3, and
slices are not off by the same.
"""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.support.sliced_models import (
    BATCH,
    LABELS,
    SAMPLES,
    SERIES,
    X,
    differences,
    prepare,
    trained,
)
from trainers.backends.tensorflow.functions import tracing

IMAGES = np.random.default_rng(3).normal(size=(SAMPLES, 8, 8, 3)).astype("float32")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test makes functions of its own: TensorFlow's hint about that is noise."""
    tf.get_logger().setLevel("ERROR")
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


def dense() -> Any:
    """Two layers with biases."""
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, activation="relu")(inputs)
    return keras.Model(inputs, layers.Dense(5, activation="softmax")(hidden))


def decaying() -> Any:
    """Weights whose gradients are two terms, and a layer that computes in float32."""
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, activation="gelu", kernel_regularizer="l2")(inputs)
    hidden = layers.LayerNormalization()(hidden)
    return keras.Model(inputs, layers.Dense(5, activation="softmax")(hidden))


def convolution() -> Any:
    """Images, in two dimensions and channel by channel."""
    inputs = keras.Input((8, 8, 3))
    hidden = layers.Conv2D(8, 3, activation="relu")(inputs)
    hidden = layers.SeparableConv2D(8, 3, activation="relu")(hidden)
    return keras.Model(inputs, layers.Dense(5)(layers.Flatten()(hidden)))


def series() -> Any:
    """A layer over time: its kernel is multiplied by Einsum."""
    inputs = keras.Input((9, 1))
    hidden = layers.EinsumDense("abc,cd->abd", (None, 8), bias_axes="d")(inputs)
    hidden = layers.Dense(8, activation="relu")(hidden)
    pooled = layers.GlobalAveragePooling1D(dtype="float32")(hidden)
    return keras.Model(inputs, layers.Dense(5, dtype="float32")(pooled))


CASES: list[Any] = [
    pytest.param(dense, X, "sgd", False, id="dense"),
    pytest.param(decaying, X, "adam", False, id="decay", marks=pytest.mark.slow),
    pytest.param(decaying, X, "sgd", True, id="decay, jit", marks=pytest.mark.slow),
    pytest.param(
        convolution, IMAGES, "adam", True, id="convolution, jit", marks=pytest.mark.slow
    ),
    pytest.param(series, SERIES, "sgd", True, id="series, jit", marks=pytest.mark.slow),
]


def in_half(
    build: Callable[[], Any], optimizer: Any, *, jit: bool = False, **scale: Any
) -> Any:
    """The model, compiled for mixed_float16."""
    keras.config.set_dtype_policy("mixed_float16")
    model = build()
    scaled = keras.optimizers.LossScaleOptimizer(optimizer, **scale)
    loss = keras.losses.SparseCategoricalCrossentropy(
        from_logits="softmax" not in str(model.get_config())
    )
    model.compile(scaled, loss, jit_compile=jit)
    return model


@pytest.mark.parametrize(("build", "x", "optimizer", "jit"), CASES)
def test_mixed_float16_in_slices_is_that_of_whole_batches(
    build: Callable[[], Any], x: Any, optimizer: str, *, jit: bool
) -> None:
    """After an epoch every weight is the same to 1e-4 of it, kernels and biases."""

    def make() -> Any:
        return in_half(build, keras.optimizers.get(optimizer), jit=jit)

    whole, sliced = (trained(make, x, LABELS, sliced=cut)[0] for cut in (False, True))
    names = [variable.path for variable in whole.weights]
    found = dict(zip(names, differences(whole, sliced), strict=False))
    assert len(found) == len(names)
    assert max(found.values()) <= 1e-4, found


@pytest.mark.slow
def test_the_loss_scaler_takes_the_same_steps() -> None:
    """Updates are skipped, and the scale grows, where they would in whole batches."""

    def make() -> Any:
        optimizer = keras.optimizers.SGD(0.05)
        return in_half(dense, optimizer, initial_scale=2.0**21, dynamic_growth_steps=3)

    whole, sliced = (trained(make, X, LABELS, sliced=cut)[0] for cut in (False, True))
    updates = int(whole.optimizer.iterations)
    assert 0 < updates < 9, "the scaler should have skipped some, but not all"
    assert int(sliced.optimizer.iterations) == updates
    assert (
        sliced.optimizer.dynamic_scale.numpy() == whole.optimizer.dynamic_scale.numpy()
    )
    assert max(differences(whole, sliced)) <= 1e-4


@pytest.mark.parametrize("wide", [True, False])
def test_float32_copies_are_only_made_where_memory_is_not_what_precision_is_for(
    *, wide: bool
) -> None:
    """A run whose precision was lowered to save memory must not spend it on copies."""
    model = in_half(dense, keras.optimizers.SGD(0.05))
    prepared, _ = prepare(model, X, LABELS, wide_products=wide)
    model.fit(X, LABELS, batch_size=BATCH, verbose=0, shuffle=False)
    products = {
        node.attr["T"].type
        for graph in tracing.traced_graphs(model)
        for function in graph.as_graph_def().library.function
        for node in function.node_def
        if node.op == "MatMul"
    }
    prepared.restore()
    half, single = tf.float16.as_datatype_enum, tf.float32.as_datatype_enum
    assert products == ({half, single} if wide else {half})
