"""Variables are made as training would make them, and no others."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from typing_extensions import override

from trainers.backends.tensorflow.functions import tracing
from trainers.state import model_build
from trainers.state.model_build import MOST_STEPS


class TakingTurns(keras.Model):
    """Eager; its second optimizer is used in each so-manieth step."""

    def __init__(self, every: int) -> None:
        super().__init__()
        self.every, self.turn = every, 0
        self.dense = keras.layers.Dense(1)
        self.first, self.second = keras.optimizers.SGD(), keras.optimizers.Adam()

    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        """Once more, or once in a while, the other."""
        self.turn += 1
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self.dense(data) ** 2)
        weights = self.dense.trainable_weights
        used = self.first if self.turn % self.every else self.second
        used.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


SPEC = tf.TensorSpec((None, 3), tf.float32)


@pytest.mark.parametrize("every", [1, 2, 5])
def test_optimizers_that_take_turns(every: int) -> None:
    """As many steps as it takes; what training never uses is not made."""
    model = TakingTurns(every)
    model.compile(run_eagerly=True)
    model_build.build(model, SPEC, whole=lambda: bool(model.second.built))
    assert model.turn == every
    assert model.first.built is (every > 1)
    assert not model.optimizer.built


def test_a_step_that_fails_is_not_tried_again() -> None:
    """Another way may go through."""
    model = TakingTurns(0)  # a division by zero
    model.compile(run_eagerly=True)
    model_build.build(model, SPEC, whole=lambda: False)
    assert 0 < model.turn < MOST_STEPS


def test_where_all_optimizers_are_used_more_steps_make_nothing() -> None:
    """What is missing is of another kind: a restart waits for no more of them."""
    model = TakingTurns(2)
    model.compile(run_eagerly=True)
    model_build.build(model, SPEC, whole=lambda: False)
    assert model.turn <= 4  # two; two more may be those of tracing


class LooksAtNumbers(keras.Model):
    """Draws, and then asks for a value that a trace has not."""

    def train_step(self, data: tf.Tensor) -> dict[str, float]:
        """Of no use."""
        noisy = data + keras.random.normal(tf.shape(data))
        return {"loss": float(tf.reduce_mean(noisy))}


def test_a_trace_that_fails_leaves_no_seed_generator_without_a_value() -> None:
    """The first draw of all was in it: what draws later would find a variable of nothing."""
    keras.utils.clear_session()
    model = LooksAtNumbers()
    model.compile(run_eagerly=True)
    with pytest.raises(TypeError):
        tracing.trace_train(model, SPEC)
    assert keras.random.normal((2,)).shape == (2,)


class Passing(TakingTurns):
    """Passes over a batch whose loss is no number."""

    @override
    def train_step(self, data: tf.Tensor) -> dict[str, tf.Tensor]:
        """Of directions: zeros have none."""
        directions = data / tf.norm(data, axis=1, keepdims=True)
        if not np.isfinite(directions).all():
            return {"loss": tf.constant(0.0)}
        return super().train_step(directions)


def test_a_step_that_passes_over_zeros() -> None:
    """It makes its variables of other numbers."""
    model = Passing(1)
    model.compile(run_eagerly=True)
    model_build.build(model, SPEC, whole=lambda: bool(model.second.built))
    assert model.second.built
    assert not model.optimizer.built
