"""Small models on JAX, trained whole and in slices: what each came to, a line of JSON.

A process of its own: Keras has one backend in a process. ``python jax_sliced_models.py
CASE …``.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers

from tests.support.awkward_models import AWKWARD, OTHERWISE, OpenedAfterEpoch, padded
from trainers.microbatch import jax_prepare
from trainers.microbatch.prepared import Prepared

BATCH, SAMPLES, SIZE = 50, 430, 13
"""Slices of 13, 13, 13, 11; the last batch has 30: 13, 13, 4."""

draw = np.random.default_rng(0)
X = draw.normal(size=(SAMPLES, 12)).astype("float32")
Y = draw.normal(size=(SAMPLES, 1)).astype("float32")
IMAGES = draw.normal(size=(SAMPLES, 8, 8, 3)).astype("float32")
LABELS = draw.integers(0, 5, size=SAMPLES)
WEIGHTS = draw.uniform(0.5, 2, SAMPLES).astype("float32")
WORDS = draw.integers(1, 40, size=(SAMPLES, 9))
WORDS[np.arange(9) >= draw.integers(2, 9, size=SAMPLES)[:, None]] = 0
SERIES = draw.normal(size=(SAMPLES, 9, 1)).astype("float32")


class AddsLoss(layers.Layer):
    """Adds a loss of its own: the mean or the sum of squares."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        squares = keras.ops.square(inputs)
        self.add_loss(0.01 * getattr(keras.ops, self.how)(squares))
        return inputs


class OwnLosses(keras.Model):
    """Losses and metrics of the user's own making."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)
        self.worst = keras.metrics.Mean(name="worst")

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def compute_loss(
        self,
        x: Any,
        y: Any,
        y_pred: Any,
        sample_weight: Any,
        training: Any = True,  # noqa: FBT002  # as theirs
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


class OwnStepOnJax(keras.Model):
    """A train step of the script's own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def train_step(self, state: Any, data: Any) -> Any:
        """Keras' own, called from here."""
        return super().train_step(state, data)


def compiled(model: Any, loss: Any = "mse", **options: Any) -> Any:
    """``model``, compiled with Adam."""
    model.compile("adam", loss, metrics=["mae"], **options)
    return model


def dense(**options: Any) -> Any:
    """A small network on X."""
    entry = keras.Input((12,))
    hidden = layers.Dense(16, activation="relu", **options)(entry)
    return keras.Model(entry, layers.Dense(1)(hidden))


def conv(*more: Any, **options: Any) -> Any:
    """Convolutions on IMAGES."""
    body = [
        keras.Input((8, 8, 3)),
        layers.Conv2D(8, 3, activation="relu"),
        *more,
        layers.Conv2D(8, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(5, activation="softmax", dtype="float32"),
    ]
    model = keras.Sequential(body)
    options = {"optimizer": "adam", **options}
    model.compile(
        loss="sparse_categorical_crossentropy", metrics=["accuracy"], **options
    )
    return model


def with_everything(**options: Any) -> Any:
    """Regularisers of all kinds, an added loss, metrics, several steps a call."""
    entry = keras.Input((12,))
    hidden = layers.Dense(16, "relu", kernel_regularizer="l2")(entry)
    hidden = layers.Dense(16, "tanh", activity_regularizer="l2")(hidden)
    outputs = layers.Dense(5, activation="softmax")(AddsLoss("mean")(hidden))
    model = keras.Model(entry, outputs)
    model.compile(
        keras.optimizers.Adam(global_clipnorm=1.0, use_ema=True),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
        steps_per_execution=3,
        **options,
    )
    return model


def added_sum() -> Any:
    """add_loss of a sum over samples."""
    entry = keras.Input((12,))
    hidden = AddsLoss("sum")(layers.Dense(16, activation="relu")(entry))
    return compiled(keras.Model(entry, layers.Dense(1)(hidden)))


def two_outputs(**options: Any) -> Any:
    """Two inputs and outputs by name, with losses and metrics of their own."""
    entries = {name: keras.Input((12,), name=name) for name in ("a", "b")}
    hidden = layers.Concatenate()([entries["a"], entries["b"]])
    hidden = layers.Dense(16, activation="tanh")(hidden)
    outputs = {
        "u": layers.Dense(1, name="u")(hidden),
        "v": layers.Dense(5, activation="softmax", name="v")(hidden),
    }
    model = keras.Model(entries, outputs)
    model.compile(
        "adam",
        {"u": options.pop("u", "mse"), "v": "sparse_categorical_crossentropy"},
        loss_weights={"u": 1.0, "v": 0.3},
        metrics={"u": ["mae"], "v": ["accuracy"]},
        **options,
    )
    return model


def words(*, mask: bool) -> Any:
    """Words into numbers, a number a word."""
    body = [
        keras.Input((9,), dtype="int32"),
        layers.Embedding(40, 8, mask_zero=mask),
        layers.LSTM(8, return_sequences=True),
        layers.Dense(1),
    ]
    return compiled(keras.Sequential(body))


def unbuilt() -> Any:
    """No input: its shapes come from the first batch."""
    return compiled(keras.Sequential([layers.Dense(8, "relu"), layers.Dense(1)]))


def coupled(target: Any, prediction: Any) -> Any:
    """A loss that no sample has for itself: how far the batch's spread is off."""
    spread = keras.ops.std(prediction) - keras.ops.std(target)
    return keras.ops.square(spread) + keras.ops.mean(
        keras.ops.square(target - prediction)
    )


def sum_of(reduction: str) -> Any:
    """Squares, reduced as named."""
    return keras.losses.MeanSquaredError(reduction=reduction)


def half(policy: str, **options: Any) -> Any:
    """Convolutions in half precision."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(policy)
    try:
        return conv(**options)
    finally:
        keras.config.set_dtype_policy(before)


PAIR = {"a": X, "b": X[::-1].copy()}
TARGETS = {"u": Y, "v": LABELS}
WEIGHTED = {"sample_weight": WEIGHTS}
CLASSES = {"class_weight": {0: 1, 1: 2, 2: 3, 3: 1, 4: 0.5}}
Case = tuple[Callable[[], Any], Any, Any, dict[str, Any]]
CASES: dict[str, Case] = {
    "everything": (with_everything, X, LABELS, WEIGHTED),
    "class weights": (with_everything, X, LABELS, CLASSES),
    "conv": (conv, IMAGES, LABELS, WEIGHTED),
    "eager": (lambda: compiled(dense(), run_eagerly=True), X, Y, {}),
    "not compiled": (lambda: compiled(dense(), jit_compile=False), X, Y, {}),
    "two outputs": (two_outputs, PAIR, TARGETS, {}),
    "two outputs, one summed": (
        lambda: two_outputs(u=sum_of("sum")),
        PAIR,
        TARGETS,
        {},
    ),
    "sum": (lambda: compiled(dense(), sum_of("sum")), X, Y, {}),
    "weighted mean": (
        lambda: compiled(
            dense(kernel_regularizer="l2"), sum_of("mean_with_sample_weight")
        ),
        X,
        Y,
        WEIGHTED,
    ),
    "coupled loss": (lambda: compiled(dense(), coupled), X, Y, {}),
    "mask": (lambda: words(mask=True), WORDS, SERIES, {}),
    "embedding": (lambda: words(mask=False), WORDS, SERIES, {}),
    "added sum": (added_sum, X, Y, {}),
    "own losses": (lambda: compiled(OwnLosses(), None), X, Y, {}),
    "unbuilt": (unbuilt, X, Y, {}),
    "accumulating optimizer": (
        lambda: conv(optimizer=keras.optimizers.Adam(gradient_accumulation_steps=2)),
        IMAGES,
        LABELS,
        {},
    ),
    "float16": (lambda: half("mixed_float16"), IMAGES, LABELS, {}),
    "float16, overflown": (
        lambda: half(
            "mixed_float16",
            optimizer=keras.optimizers.LossScaleOptimizer(
                keras.optimizers.Adam(), initial_scale=2.0**24, dynamic_growth_steps=3
            ),
        ),
        IMAGES,
        LABELS,
        {},
    ),
    "bfloat16": (lambda: half("mixed_bfloat16"), IMAGES, LABELS, {}),
    "batch norm": (lambda: conv(layers.BatchNormalization()), IMAGES, LABELS, {}),
    "dropout": (
        lambda: conv(layers.Dropout(0.5), layers.Dropout(0.1)), IMAGES, LABELS, {},
    ),
    **{
        name: (build, X, padded(Y, whole=BATCH), {}) for name, build in AWKWARD.items()
    },
    "sum that is zero at first": (
        AWKWARD["sum that is zero at first"],
        X,
        Y,
        {"epochs": 2, "callbacks": [OpenedAfterEpoch()]},
    ),
    "gate that is shut": (OTHERWISE["gate that is shut"], X, Y, {}),
    "step put in": (OTHERWISE["step put in"], X, Y, {}),
    "own step": (lambda: compiled(OwnStepOnJax()), X, Y, {}),
    "one size": (
        lambda: compiled(
            keras.Sequential([keras.Input(batch_shape=(BATCH, 12)), layers.Dense(1)])
        ),
        X[:400],
        Y[:400],
        {},
    ),
}  # fmt: skip


def first_of(structure: Any) -> Any:
    """The first batch of ``structure``."""
    return keras.tree.map_structure(lambda leaf: leaf[:BATCH], structure)


def prepared(
    model: Any, x: Any, y: Any, weight: Any = None, **wanted: Any
) -> tuple[Prepared, list[tuple[str, dict[str, Any]]]]:
    """``jax_prepare.prepare`` for a test, and the events it reported."""
    events: list[tuple[str, dict[str, Any]]] = []
    data = (x, y) if weight is None else (x, y, weight)
    settings: dict[str, Any] = {
        "slice_size": SIZE,
        "calibrate": False,
        "slice_ceiling": None,
        "memory_limit_bytes": None,
        "allow_inexact": True,
    }
    changed = jax_prepare.prepare(
        model,
        **{**settings, **wanted},
        first_batch=lambda: first_of(data),
        report=lambda kind, **fields: events.append((kind, fields)),
    )
    return changed, events


def trained(case: Case, *, sliced: bool) -> dict[str, Any]:
    """A model after an epoch: state, history, and what was reported."""
    build, x, y, fit = case
    keras.utils.set_random_seed(1)
    model = build()
    told: list[Any] = []
    changed = Prepared()
    if sliced:
        weight = fit.get("sample_weight")
        weight = WEIGHTS if "class_weight" in fit else weight
        changed, told = prepared(model, x, y, weight)
    done = model.fit(x, y, batch_size=BATCH, verbose=0, shuffle=False, **fit)
    changed.restore()
    values = [*model.weights, *model.optimizer.variables]
    return {
        "state": [np.asarray(one.value, "float64") for one in values],
        "logs": done.history,
        "told": told,
        "iterations": int(
            np.asarray(keras.ops.convert_to_tensor(model.optimizer.iterations))
        ),
    }


def differences(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest relative difference of a weight or a variable of the optimizer."""
    return max(
        float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(a)), 1e-12)
        for a, b in zip(one["state"], other["state"], strict=True)
    )


def compare(name: str) -> dict[str, Any]:
    """A case, whole and in slices."""
    whole, sliced = (trained(CASES[name], sliced=one) for one in (False, True))
    return {
        "difference": differences(whole, sliced),
        "whole": whole["logs"],
        "sliced": sliced["logs"],
        "iterations": [whole["iterations"], sliced["iterations"]],
        "told": sliced["told"],
    }


if __name__ == "__main__":
    for chosen in sys.argv[1:] or CASES:
        sys.stdout.write(json.dumps([chosen, compare(chosen)]) + "\n")
