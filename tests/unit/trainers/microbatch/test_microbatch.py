"""k slices against one: the same steps, updates, logs and weights."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import pytest
import tensorflow as tf
from keras import layers

from tests.support.samples import sampled
from tests.support.sliced_models import (
    BATCH,
    LABELS,
    SERIES,
    SIZE,
    WEIGHTS,
    WORDS,
    X,
    Y,
    compiled,
    dense,
    differences,
    trained,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test makes functions of its own: TensorFlow's hint about that is noise."""
    tf.get_logger().setLevel("ERROR")
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


class Penalty(layers.Layer):
    """Adds a loss of its own: the mean or the sum of squares."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        squares = keras.ops.square(inputs)
        self.add_loss(0.01 * getattr(keras.ops, self.how)(squares))
        return inputs


def with_everything(**options: Any) -> Any:
    """Regularisers of all kinds, an added loss, metrics, several steps a call."""
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, "relu", kernel_regularizer="l2")(inputs)
    hidden = layers.Dense(16, "tanh", activity_regularizer="l2")(hidden)
    outputs = layers.Dense(5, activation="softmax")(Penalty("mean")(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(global_clipnorm=1.0, use_ema=True),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        steps_per_execution=3,
        **options,
    )
    return model


def two_outputs(**options: Any) -> Any:
    """Two inputs and outputs by name, with losses and metrics of their own."""
    inputs = {name: keras.Input((12,), name=name) for name in ("a", "b")}
    hidden = layers.Concatenate()([inputs["a"], inputs["b"]])
    hidden = layers.Dense(16, activation="tanh")(hidden)
    outputs = {
        "u": layers.Dense(1, name="u")(hidden),
        "v": layers.Dense(5, activation="softmax", name="v")(hidden),
    }
    model = keras.Model(inputs, outputs)
    model.compile(
        "adam",
        {"u": options.pop("u", "mse"), "v": "sparse_categorical_crossentropy"},
        loss_weights={"u": 1.0, "v": 0.3},
        metrics={"u": ["mae"], "v": ["accuracy"]},
        **options,
    )
    return model


def words(*, mask: bool, **options: Any) -> Any:
    """Words into numbers, a number a word."""
    body = [
        keras.Input((9,), dtype="int32"),
        layers.Embedding(40, 8, mask_zero=mask),
        layers.LSTM(8, return_sequences=True),
        layers.Dense(1),
    ]
    return compiled(keras.Sequential(body), **options)


def coupled(target: Any, prediction: Any) -> Any:
    """A loss that no sample has for itself: how far the batch's spread is off."""
    spread = keras.ops.std(prediction) - keras.ops.std(target)
    return keras.ops.square(spread) + keras.ops.mean(
        keras.ops.square(target - prediction)
    )


def sum_of(loss: str) -> Any:
    """Squares, reduced as named."""
    return keras.losses.MeanSquaredError(reduction=loss)


Case = tuple[str, Callable[[], Any], Any, Any, dict[str, Any]]
PAIR = {"a": X, "b": X[::-1].copy()}
TARGETS = {"u": Y, "v": LABELS}
WEIGHTED = {"sample_weight": WEIGHTS}
CASES: dict[str, Case] = {
    "everything": ("exact", with_everything, X, LABELS, WEIGHTED),
    "everything, jit": (
        "exact",
        lambda: with_everything(jit_compile=True),
        X,
        LABELS,
        {"class_weight": {0: 1, 1: 2, 2: 3, 3: 1, 4: 0.5}},
    ),
    "eager": ("exact", lambda: compiled(dense(), run_eagerly=True), X, Y, {}),
    "two outputs": ("exact", two_outputs, PAIR, TARGETS, {}),
    "two outputs, one summed": (
        "two_pass",
        lambda: two_outputs(u=sum_of("sum"), jit_compile=True),
        PAIR,
        TARGETS,
        {},
    ),
    "sum": ("exact", lambda: compiled(dense(), sum_of("sum")), X, Y, {}),
    "weighted mean": (
        "two_pass",
        lambda: compiled(
            dense(kernel_regularizer="l2"), sum_of("mean_with_sample_weight")
        ),
        X,
        Y,
        WEIGHTED,
    ),
    "coupled loss": ("two_pass", lambda: compiled(dense(), coupled), X, Y, {}),
    "mask": ("two_pass", lambda: words(mask=True), WORDS, SERIES, {}),
    "embedding": ("exact", lambda: words(mask=False), WORDS, SERIES, {}),
}


@pytest.mark.parametrize("name", sampled(CASES, "everything, jit", "weighted mean"))
def test_slices_change_nothing(name: str) -> None:
    """After an epoch in slices: weights, optimizer and logs as after one in batches."""
    mode, build, x, y, fit = CASES[name]
    whole, expected, _ = trained(build, x, y, sliced=False, **fit)
    sliced, logs, events = trained(build, x, y, sliced=True, **fit)
    ((kind, record),) = [one for one in events if one[0] == "microbatch"]
    assert kind == "microbatch"
    assert (record["mode"], record["deviations"]) == (mode, [])
    assert (record["batch"], record["slices"], record["size"]) == (BATCH, 4, SIZE)
    assert int(sliced.optimizer.iterations) == int(whole.optimizer.iterations) == 9
    assert max(differences(whole, sliced)) <= 1e-5
    assert logs.keys() == expected.keys()
    for key, values in expected.items():
        assert logs[key] == pytest.approx(values, rel=1e-5), key


@pytest.mark.slow
def test_an_added_sum_is_added_up() -> None:
    """add_loss of a sum over samples is summed over slices, not averaged."""

    def build() -> Any:
        inputs = keras.Input((12,))
        hidden = Penalty("sum")(layers.Dense(16, activation="relu")(inputs))
        return compiled(keras.Model(inputs, layers.Dense(1)(hidden)))

    whole, expected, _ = trained(build, X, Y, sliced=False)
    sliced, logs, _ = trained(build, X, Y, sliced=True)
    assert max(differences(whole, sliced)) <= 1e-5
    assert logs["loss"] == pytest.approx(expected["loss"], rel=1e-5)


class OwnTrainStep(keras.Model):
    """Losses and metrics of the user's own making."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)
        self.worst = keras.metrics.Mean(name="worst")

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def compute_loss(  # Keras' own signature
        self,
        x: Any,
        y: Any,
        y_pred: Any,
        sample_weight: Any,
        training: bool = True,  # noqa: FBT001, FBT002
    ) -> Any:
        """The worst sample counts, and all others a little."""
        del x, sample_weight, training
        errors = keras.ops.square(y - y_pred)
        return keras.ops.max(errors) + keras.ops.mean(errors)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> Any:
        """The mean over batches of the worst sample."""
        logs = super().compute_metrics(x, y, y_pred, sample_weight)
        self.worst.update_state(keras.ops.max(keras.ops.abs(y - y_pred)))
        return {**logs, "worst": self.worst.result()}


def test_losses_and_metrics_of_the_users_own() -> None:
    """An overridden compute_loss and compute_metrics see the whole batch."""

    def build() -> Any:
        model = OwnTrainStep()
        model.compile("adam")
        return model

    whole, expected, _ = trained(build, X, Y, sliced=False)
    sliced, logs, events = trained(build, X, Y, sliced=True)
    assert events[0][1]["mode"] == "two_pass"
    assert max(differences(whole, sliced)) <= 1e-5
    assert logs["worst"] == pytest.approx(expected["worst"], rel=1e-5)


@pytest.mark.slow
def test_metrics_that_do_not_add_up_see_the_whole_batch() -> None:
    """A metric function that returns one number a batch is called once a batch."""

    def worst(target: Any, prediction: Any) -> Any:
        return keras.ops.max(keras.ops.abs(target - prediction))

    def build() -> Any:
        model = dense()
        model.compile("adam", "mse", metrics=[worst])
        return model

    _, expected, _ = trained(build, X, Y, sliced=False)
    _, logs, events = trained(build, X, Y, sliced=True)
    assert events[0][1]["mode"] == "exact"
    assert logs["worst"] == pytest.approx(expected["worst"], rel=1e-5)
