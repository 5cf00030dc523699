"""k slices against one: the same steps, updates, logs and weights."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from trainers import microbatch

BATCH, SAMPLES, SIZE = 50, 430, 13
"""Slices of 13, 13, 13, 11; the last batch has 30: 13, 13, 4."""

draw = np.random.default_rng(0)
X = draw.normal(size=(SAMPLES, 12)).astype("float32")
Y = draw.normal(size=(SAMPLES, 1)).astype("float32")
LABELS = draw.integers(0, 5, size=SAMPLES)
WEIGHTS = draw.uniform(0.5, 2, SAMPLES).astype("float32")
WORDS = draw.integers(1, 40, size=(SAMPLES, 9))
WORDS[np.arange(9) >= draw.integers(2, 9, size=SAMPLES)[:, None]] = 0
SERIES = draw.normal(size=(SAMPLES, 9, 1)).astype("float32")

Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test makes functions of its own: TensorFlow's hint about that is noise."""
    tf.get_logger().setLevel("ERROR")
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


def first_of(structure: Any) -> Any:
    """The first batch of ``structure``."""
    return keras.tree.map_structure(lambda leaf: leaf[:BATCH], structure)


def prepare(
    model: Any, x: Any, y: Any, weight: Any = None, **wanted: Any
) -> tuple[microbatch.Prepared, Events]:
    """``microbatch.prepare`` for a test, and the events it reported."""
    events: Events = []
    data = (x, y) if weight is None else (x, y, weight)
    settings: dict[str, Any] = {
        "slice_size": SIZE,
        "calibrate": False,
        "slice_ceiling": None,
        "memory_limit_bytes": None,
        "allow_inexact": False,
    }
    prepared = microbatch.prepare(
        model,
        **{**settings, **wanted},
        first_batch=lambda: first_of(data),
        report=lambda kind, **fields: events.append((kind, fields)),
    )
    return prepared, events


def trained(
    build: Callable[[], Any], x: Any, y: Any, *, sliced: bool, **fit: Any
) -> tuple[Any, dict[str, list[float]], Events]:
    """A model after an epoch, its history, and what the microbatching reported."""
    keras.utils.set_random_seed(1)
    model = build()
    events: Events = []
    prepared = microbatch.Prepared()
    if sliced:
        prepared, events = prepare(model, x, y, fit.get("sample_weight"))
    history = model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False, **fit)
    prepared.restore()
    return model, history.history, events


def differences(one: Any, other: Any) -> list[float]:
    """Relative differences of weights and optimizer variables, tensor by tensor."""
    pairs = zip(
        [*one.weights, *one.optimizer.variables],
        [*other.weights, *other.optimizer.variables],
        strict=True,
    )
    values = [(a.numpy().astype("f8"), b.numpy().astype("f8")) for a, b in pairs]
    return [
        float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(a)), 1e-12)
        for a, b in values
    ]


def dense(*, outputs: int = 1, activation: str | None = None, **options: Any) -> Any:
    """A small network on X."""
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, activation="relu", **options)(inputs)
    return keras.Model(inputs, layers.Dense(outputs, activation=activation)(hidden))


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


def compiled(model: Any, loss: Any = "mse", **options: Any) -> Any:
    """``model``, compiled with Adam."""
    model.compile("adam", loss, metrics=["mae"], **options)
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


@pytest.mark.parametrize("name", CASES)
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


def test_mixed_float16_makes_the_same_updates() -> None:
    """The loss scaler skips the same steps, and weights differ by rounding only."""
    keras.config.set_dtype_policy("mixed_float16")

    def build() -> Any:
        model = dense(outputs=5, activation="softmax")
        optimizer = keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.05), initial_scale=2.0**21, dynamic_growth_steps=3
        )
        model.compile(optimizer, "sparse_categorical_crossentropy")
        return model

    whole, _, _ = trained(build, X, LABELS, sliced=False)
    sliced, _, _ = trained(build, X, LABELS, sliced=True)
    updates = int(whole.optimizer.iterations)
    assert 0 < updates < 9, "the scaler should have skipped some, but not all"
    assert int(sliced.optimizer.iterations) == updates
    assert (
        sliced.optimizer.dynamic_scale.numpy() == whole.optimizer.dynamic_scale.numpy()
    )
    assert norms((whole, sliced)) <= 1e-5
    # A bias began at zero: all of it is updates, each summed and rounded in float16
    # once (whole) or four times (slices), a half unit being 2.4e-4 of the value.
    for variable, difference in zip(
        whole.weights, differences(whole, sliced), strict=False
    ):
        assert difference <= (1e-3 if variable.name == "bias" else 1e-4)


def with_noise() -> Any:
    """Layers that see, or draw, other things in slices."""
    body = [layers.BatchNormalization(name="norm"), layers.Dropout(0.5, name="drop")]
    return compiled(keras.Sequential([keras.Input((12,)), *body, layers.Dense(1)]))


def test_layers_that_deviate_are_named() -> None:
    """BatchNormalization and Dropout are told in the record, by their names."""
    _, events = prepare(with_noise(), X, Y, allow_inexact=True)
    statistics, noise = events[0][1]["deviations"]
    assert statistics.startswith("layer 'norm' (BatchNormalization) keeps statistics")
    assert noise.startswith("layer 'drop' (Dropout) draws random numbers")


def test_deviations_can_be_forbidden() -> None:
    """Where slices would deviate and may not, nothing is changed and one says why."""
    model = with_noise()
    with pytest.raises(microbatch.MicrobatchRefusedError, match="'norm'"):
        prepare(model, X, Y)
    assert "train_step" not in vars(model)


def test_a_frozen_layer_does_not_deviate() -> None:
    """BatchNormalization that is not trained works the same in slices."""
    norm = layers.BatchNormalization(trainable=False)
    model = compiled(keras.Sequential([keras.Input((12,)), norm, layers.Dense(1)]))
    _, events = prepare(model, X, Y)
    assert events[0][1]["deviations"] == []


class Centred(layers.Layer):
    """What a sample becomes depends on the others."""

    def call(self, inputs: Any) -> Any:
        """The inputs less their mean over the batch."""
        return inputs - keras.ops.mean(inputs, axis=0)


def test_coupled_activations_are_told() -> None:
    """A layer of the user's that mixes samples is found out by what it does."""
    model = compiled(keras.Sequential([keras.Input((12,)), Centred(), layers.Dense(1)]))
    _, events = prepare(model, X, Y, allow_inexact=True)
    (sentence,) = events[0][1]["deviations"]
    assert "depends on the other samples" in sentence


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


class Own(keras.Model):
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
        model = Own()
        model.compile("adam")
        return model

    whole, expected, _ = trained(build, X, Y, sliced=False)
    sliced, logs, events = trained(build, X, Y, sliced=True)
    assert events[0][1]["mode"] == "two_pass"
    assert max(differences(whole, sliced)) <= 1e-5
    assert logs["worst"] == pytest.approx(expected["worst"], rel=1e-5)


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


class Stepping(keras.Model):
    """Has a train step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        """Keras' own, but who knows."""
        return super().train_step(data)


def test_what_cannot_be_sliced_is_said() -> None:
    """A model with its own train_step, or a fixed batch, is left alone, with a word."""
    fixed = compiled(
        keras.Sequential([keras.Input(batch_shape=(50, 12)), layers.Dense(1)])
    )
    for model, word in ((compiled(Stepping()), "train_step"), (fixed, "exactly 50")):
        prepared, events = prepare(model, X, Y)
        assert prepared.slices == 1
        assert prepared.mode is None
        ((kind, fields),) = events
        assert kind == "notice"
        assert word in fields["sentence"]
        assert "make_train_function" not in vars(model)


def test_what_cannot_be_sliced_and_never_fitted_is_refused() -> None:
    """Where no step was ever done, another try with the same batch is not worth it."""
    for ceiling in (None, 50):
        model = compiled(Stepping())
        wanted = {"calibrate": True, "slice_ceiling": ceiling, "hopeless": True}
        if ceiling is None:
            prepared, _ = prepare(model, X, Y, **wanted)
            assert prepared.slices == 1
            continue
        with pytest.raises(microbatch.MicrobatchRefusedError) as caught:
            prepare(model, X, Y, **wanted)
        assert "a batch of 50 samples does not fit" in str(caught.value)
        assert "Stepping has a train_step of its own" in str(caught.value)
        assert "take a smaller batch in the script" in str(caught.value)


def test_without_a_plan_nothing_is_touched() -> None:
    """No slice and no calibration: the model is left as it is, the data unread."""
    model = compiled(dense())
    before = dict(vars(model))
    prepared = microbatch.prepare(
        model,
        slice_size=None,
        calibrate=False,
        slice_ceiling=None,
        memory_limit_bytes=None,
        allow_inexact=True,
        first_batch=lambda: pytest.fail("the data were read"),
        report=lambda *_, **__: pytest.fail("something was reported"),
    )
    prepared.restore()
    assert vars(model) == before
    assert (prepared.slices, prepared.size) == (1, None)


def norms(models: tuple[Any, Any]) -> float:
    """Relative difference of all weights together."""
    one, other = (
        np.concatenate([weight.numpy().ravel() for weight in model.weights])
        for model in models
    )
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def fingerprint(model: Any) -> list[Any]:
    """All state that a look at the model must leave alone."""
    context_draw = tf.random.uniform([4]).numpy().tolist()
    variables = [*model.variables, *model.metrics_variables]
    return [
        [variable.numpy().tolist() for variable in variables],
        [variable.numpy().tolist() for variable in model.optimizer.variables],
        random.random(),  # noqa: S311  # a probe of the state
        np.random.rand(4).tolist(),  # noqa: NPY002  # a probe of the global state
        context_draw,
        keras.random.uniform((4,)).numpy().tolist(),
    ]


def test_looking_at_a_model_leaves_no_trace() -> None:
    """Weights, statistics, metrics, seeds and all random states are as before."""
    prints = []
    for look in (False, True):
        keras.utils.set_random_seed(7)
        model = with_noise()
        model.fit(X[:100], Y[:100], batch_size=BATCH, verbose=0)
        keras.utils.set_random_seed(8)
        if look:
            prepared, _ = prepare(model, X, Y, allow_inexact=True)
            prepared.restore()
        prints.append(fingerprint(model))
    assert prints[0] == prints[1]


def test_a_second_fit_does_not_trace_again() -> None:
    """fit in a loop over epochs uses the sliced train function made for the first."""
    traces = []

    class Counting(layers.Layer):
        def call(self, inputs: Any) -> Any:
            if not isinstance(inputs, keras.KerasTensor) and not tf.executing_eagerly():
                traces.append(1)
            return inputs

    model = compiled(
        keras.Sequential([keras.Input((12,)), Counting(), layers.Dense(1)])
    )
    counts = []
    for size in (SIZE, SIZE, 25):
        prepared, _ = prepare(model, X, Y, slice_size=size)
        model.fit(X, Y, batch_size=BATCH, verbose=0)
        prepared.restore()
        counts.append(len(traces))
    assert counts[0] > 0
    assert counts == counts[:1] * 3
    assert model.train_function is None
    assert "train_step" not in vars(model)


def test_without_figures_a_calibration_takes_half() -> None:
    """Where the allocator keeps no figures, at most half of what failed is the plan."""
    prepared, _ = prepare(
        compiled(dense()),
        X,
        Y,
        slice_size=None,
        calibrate=True,
        slice_ceiling=40,
        memory_limit_bytes=10**9,
    )
    assert (prepared.size, prepared.slices) == (17, 3)
