"""What common advice about memory gets wrong, beside what is done here."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.support.sliced_models import (
    BATCH,
    X,
    Y,
    compiled,
    dense,
    differences,
    trained,
)

STEPS = 4
"""Batches whose gradients are accumulated."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test makes functions of its own: TensorFlow's hint about that is noise."""
    tf.get_logger().setLevel("ERROR")
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


def accumulated(batches: int) -> Any:
    """A model that trained on so many batches with the optimizer's own accumulation."""
    keras.utils.set_random_seed(1)
    model = dense()
    optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=STEPS)
    model.compile(optimizer, "mse")
    size = BATCH * batches
    model.fit(X[:size], Y[:size], batch_size=BATCH, shuffle=False, verbose=0)
    return model


def weights_differ(one: Any, other: Any) -> bool:
    """In any bit."""
    pairs = zip(one.get_weights(), other.get_weights(), strict=True)
    return any(not np.array_equal(a, b) for a, b in pairs)


@pytest.mark.slow
def test_accumulation_over_batches_drops_what_is_left_over() -> None:
    """Two batches after the fourth have trained nothing when ``fit`` returns. Slices are
    those of one batch, the short one at its end among them: every batch is an update."""
    assert not weights_differ(accumulated(STEPS), accumulated(STEPS + 2))
    whole, _, _ = trained(lambda: compiled(dense()), X, Y, sliced=False)
    slices, _, _ = trained(lambda: compiled(dense()), X, Y, sliced=True)
    assert max(differences(whole, slices)) < 1e-5
    assert int(slices.optimizer.iterations) == -(-len(X) // BATCH)


def accumulated_by_hand(updates_at: Callable[[int, int], bool]) -> Any:
    """A model after three epochs of three batches. ``updates_at(i, seen)``: whether the
    loop updates after batch ``i`` of its epoch, the ``seen``-th of all."""
    keras.utils.set_random_seed(1)
    model = dense()
    optimizer = keras.optimizers.SGD(0.1)
    weights = model.trainable_variables
    sums = [tf.zeros(weight.shape) for weight in weights]
    seen = 0
    for _ in range(3):
        for i in range(STEPS - 1):
            seen += 1
            rows = slice(i * BATCH, (i + 1) * BATCH)
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(X[rows]) - Y[rows]) ** 2)
            gradients = tape.gradient(loss, weights)
            sums = [a + b / STEPS for a, b in zip(sums, gradients, strict=True)]
            if updates_at(i, seen):
                optimizer.apply_gradients(zip(sums, weights, strict=True))
                sums = [tf.zeros(weight.shape) for weight in weights]
    return model


@pytest.mark.slow
def test_an_index_that_begins_anew_in_each_epoch_never_updates() -> None:
    """``(i + 1) % n`` of a batch in its epoch, with fewer batches than n; with more, the
    first update of an epoch is of more batches than n. Slices need no such index."""
    untrained = accumulated_by_hand(lambda _i, _seen: False)
    wrong = accumulated_by_hand(lambda i, _seen: (i + 1) % STEPS == 0)
    right = accumulated_by_hand(lambda _i, seen: seen % STEPS == 0)
    assert not weights_differ(untrained, wrong)
    assert weights_differ(untrained, right)


def half_precision_gradient(scale: float) -> float:
    """The gradient of a loss of 1e-5 w, by a float16 product, with a loss scale."""
    w = tf.Variable(1.0, dtype=tf.float16)
    with tf.GradientTape() as tape:
        loss = tf.cast(w, tf.float16) * tf.constant(1e-8 * scale, tf.float16)
    return float(tf.cast(tape.gradient(loss, w), tf.float32)) / scale


@pytest.mark.slow
def test_no_fixed_loss_scale_is_right() -> None:
    """Unscaled a small gradient is 0 in float16; scaled by too much it is infinite. The
    scale of ``LossScaleOptimizer`` is halved when that happens, and the step left out."""
    assert half_precision_gradient(1.0) == 0.0
    assert half_precision_gradient(2.0**12) == pytest.approx(1e-8, rel=0.05)
    assert half_precision_gradient(2.0**45) == float("inf")
    weight = keras.Variable(1.0)
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=2.0**15
    )
    optimizer.build([weight])
    optimizer.apply([keras.ops.array(float("inf"))], [weight])
    assert float(weight) == 1.0
    assert float(optimizer.dynamic_scale) == 2.0**14
