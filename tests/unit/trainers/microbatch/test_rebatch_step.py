"""A train_step of the script's own, done once for each of several smaller batches."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from trainers.microbatch import obstacles, prepare, rebatch_step
from trainers.microbatch.prepared import Prepared

BATCH, SIZE, SAMPLES = 48, 16, 120
"""Three parts a batch, and a last batch of 24: 16 and 8."""

draw = np.random.default_rng(3)
X = draw.normal(size=(SAMPLES, 6)).astype("float32")
Y = draw.normal(size=(SAMPLES, 1)).astype("float32")


class Contrast(keras.Model):
    """A step with two optimizers, whose loss compares samples with each other."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = layers.Dense(8, activation="tanh"), layers.Dense(1)
        self.second = keras.optimizers.SGD(0.02)

    def call(self, inputs: Any) -> Any:
        """One figure a sample."""
        return self.head(self.body(inputs))

    def train_step(self, data: Any) -> dict[str, Any]:
        """Both optimizers update, each its own layer."""
        x, y = data
        with tf.GradientTape() as tape:
            found = self(x)
            loss = tf.reduce_mean((found - y) ** 2)
            loss += tf.math.reduce_std(found)
        body, head = self.body.trainable_variables, self.head.trainable_variables
        gradients = tape.gradient(loss, [*body, *head])
        self.optimizer.apply_gradients(zip(gradients[:2], body, strict=True))
        self.second.apply_gradients(zip(gradients[2:], head, strict=True))
        return {"loss": loss, "size": tf.shape(x)[0]}


def contrast(rate: Any = 0.05, *, jit: bool = False) -> Contrast:
    """The model with its weights made, always the same."""
    keras.utils.set_random_seed(1)
    model = Contrast()
    model(X[:1])
    model.compile(keras.optimizers.SGD(rate), jit_compile=jit)
    return model


def reduced(
    model: Contrast, rule: str | None, **wanted: Any
) -> tuple[Prepared, list[dict[str, Any]]]:
    """The model with its batches made smaller, and what was reported of that."""
    told: list[dict[str, Any]] = []
    settings: dict[str, Any] = {"slice_size": SIZE, "allow_inexact": True, **wanted}
    prepared = prepare.prepare(
        model,
        calibrate=False,
        slice_ceiling=None,
        memory_limit_bytes=None,
        first_batch=lambda: (X[:BATCH], Y[:BATCH]),
        report=lambda kind, **fields: told.append({"kind": kind, **fields}),
        reduce=rule,
        **settings,
    )
    return prepared, told


def fitted(model: Contrast, *, batch: int) -> Any:
    """Two epochs in the order of the data; the History."""
    done = model.fit(X, Y, batch_size=batch, epochs=2, shuffle=False, verbose=0)
    return done.history


@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_it_trains_as_if_the_batch_were_smaller(*, jit: bool) -> None:
    """Bit for bit the weights of a script that has the smaller batch (48 is 3 of 16)."""
    small, whole = contrast(jit=jit), contrast(jit=jit)
    fitted(small, batch=SIZE)
    prepared, told = reduced(whole, "keep")
    history = fitted(whole, batch=BATCH)
    prepared.restore()
    for one, other in zip(small.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    assert int(whole.optimizer.iterations) == int(small.optimizer.iterations) == 16
    assert history["size"] == [8, 8]  # the last part of the last batch
    assert [one["mode"] for one in told] == ["reduce"]
    assert (told[0]["slices"], told[0]["size"]) == (3, SIZE)
    assert "train_step of its own" in told[0]["deviations"][0]


@pytest.mark.parametrize(
    ("rule", "divisor"),
    [pytest.param("sqrt", 3**0.5, marks=pytest.mark.slow), ("linear", 3.0)],
)
def test_the_rates_follow_the_rule(rule: str, divisor: float) -> None:
    """Of both optimizers, during the step only: callbacks see what the script set."""
    small, whole = contrast(0.05 / divisor), contrast(0.05)
    small.second.learning_rate = 0.02 / divisor
    reduced(whole, rule)
    for model, batch in ((small, SIZE), (whole, BATCH)):
        model.fit(X[:96], Y[:96], batch_size=batch, shuffle=False, verbose=0)
    for one, other in zip(small.weights, whole.weights, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)
    assert float(whole.optimizer.learning_rate) == pytest.approx(0.05)
    assert float(whole.second.learning_rate) == pytest.approx(0.02)


def test_a_schedule_is_told_of() -> None:
    """It counts more updates than before, and nobody can lower it."""
    model = contrast(keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9))
    _, told = reduced(model, "linear")
    _, schedule = told[0]["deviations"]
    assert "follows a schedule" in schedule
    assert len(rebatch_step.rates(model)) == 1


def test_it_is_only_done_where_it_is_allowed() -> None:
    """Without a rule the batch is left alone; and where deviations are not allowed."""
    model = contrast()
    prepared, (told,) = reduced(model, None)
    assert prepared.size is None
    assert "has a train_step of its own" in told["sentence"]
    with pytest.raises(
        obstacles.MicrobatchRefusedError, match="which the spec forbids"
    ):
        reduced(model, "keep", allow_inexact=False)


def test_an_optimizer_that_scales_its_loss_is_seen_through() -> None:
    """The rate is that of the optimizer inside."""
    model = contrast()
    inner = keras.optimizers.SGD(0.3)
    model.compile(keras.optimizers.LossScaleOptimizer(inner))
    rate, second = rebatch_step.rates(model)
    assert float(rate) == pytest.approx(0.3)
    assert float(second) == pytest.approx(0.02)
