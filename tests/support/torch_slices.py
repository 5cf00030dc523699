"""Batches in slices on PyTorch, case by case, told as JSON: for a process of its own, whose
Keras computes with PyTorch (``tests/unit/trainers/microbatch/test_slices_on_torch.py``)."""

import json
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import torch
from keras import layers

from supervisor.wire.page import MemorySource
from tests.support.awkward_models import (
    AWKWARD,
    COUNTS_IN_CALL,
    OTHERWISE,
    OpenedAfterEpoch,
    padded,
)
from tests.support.sliced_models import (
    BATCH,
    LABELS,
    SERIES,
    WEIGHTS,
    WORDS,
    X,
    Y,
    compiled,
    dense,
    differences,
    prepare,
    trained,
)
from trainers.backends.memory.allocator_figures import Figures
from trainers.backends.torch import torch_slices
from trainers.microbatch.obstacles import MicrobatchRefusedError

OPENS = "sum that is zero at first"
PAIR = {"a": X, "b": X[::-1].copy()}
TARGETS = {"u": Y, "v": LABELS}
WEIGHTED = {"sample_weight": WEIGHTS}
CLASSES = {"class_weight": {0: 1, 1: 2, 2: 3, 3: 1, 4: 0.5}}
IMAGES = np.random.default_rng(3).normal(size=(len(X), 6, 6, 3)).astype("float32")


class Penalised(layers.Layer):
    """Adds a loss of its own: the mean or the sum of squares."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        self.add_loss(0.01 * getattr(keras.ops, self.how)(keras.ops.square(inputs)))
        return inputs


def everything() -> Any:
    """Regularisers of all kinds, an added loss, metrics, clipping, an average."""
    inputs = keras.Input((12,))
    hidden = layers.Dense(16, "relu", kernel_regularizer="l2")(inputs)
    hidden = layers.Dense(16, "tanh", activity_regularizer="l2")(hidden)
    outputs = layers.Dense(5, activation="softmax")(Penalised("mean")(hidden))
    model = keras.Model(inputs, outputs)
    model.compile(
        keras.optimizers.Adam(global_clipnorm=1.0, use_ema=True),
        "sparse_categorical_crossentropy",
        metrics=["accuracy"],
        weighted_metrics=["accuracy"],
    )
    return model


def summed() -> Any:
    """An added loss that is a sum over samples."""
    inputs = keras.Input((12,))
    hidden = Penalised("sum")(layers.Dense(16, activation="relu")(inputs))
    return compiled(keras.Model(inputs, layers.Dense(1)(hidden)))


def two_outputs(u: Any = "mse") -> Any:
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
        {"u": u, "v": "sparse_categorical_crossentropy"},
        loss_weights={"u": 1.0, "v": 0.3},
        metrics={"u": ["mae"], "v": ["accuracy"]},
    )
    return model


def convolutions() -> Any:
    """Images into classes."""
    body = [
        keras.Input((6, 6, 3)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(5, activation="softmax"),
    ]
    model = keras.Sequential(body)
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
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


def coupled(target: Any, prediction: Any) -> Any:
    """A loss that no sample has for itself: how far the batch's spread is off."""
    spread = keras.ops.std(prediction) - keras.ops.std(target)
    squares = keras.ops.square(target - prediction)
    return keras.ops.square(spread) + keras.ops.mean(squares)


def squares(reduction: str) -> Any:
    """Squares, reduced as named."""
    return keras.losses.MeanSquaredError(reduction=reduction)


def accumulating() -> Any:
    """The optimizer itself updates every second batch."""
    model = dense()
    model.compile(
        keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), "mse", metrics=["mae"]
    )
    return model


def worst(target: Any, prediction: Any) -> Any:
    """One number a batch."""
    return keras.ops.max(keras.ops.abs(target - prediction))


class OfItsOwnLoss(keras.Model):
    """A loss of the user's own making."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def compute_loss(  # Keras' own signature
        self,
        x: Any,
        y: Any,
        y_pred: Any,
        sample_weight: Any,
        training: bool = True,  # noqa: FBT001, FBT002  # as theirs
    ) -> Any:
        """The worst sample counts, and all others a little."""
        del x, sample_weight, training
        errors = keras.ops.square(y - y_pred)
        return keras.ops.max(errors) + keras.ops.mean(errors)


def own_loss() -> Any:
    """It, compiled."""
    model = OfItsOwnLoss()
    model.compile("adam")
    return model


def measured_by(metric: Any) -> Any:
    """With a metric of one number a batch."""
    model = dense()
    model.compile("adam", "mse", metrics=[metric])
    return model


Case = tuple[str, Callable[[], Any], Any, Any, dict[str, Any]]
CASES: dict[str, Case] = {
    "everything": ("exact", everything, X, LABELS, WEIGHTED),
    "class weights": ("exact", everything, X, LABELS, CLASSES),
    "added sum": ("exact", summed, X, Y, {}),
    "two outputs": ("exact", two_outputs, PAIR, TARGETS, {}),
    "two outputs, one summed": (
        "two_pass",
        lambda: two_outputs(squares("sum")),
        PAIR,
        TARGETS,
        {},
    ),
    "convolutions": ("exact", convolutions, IMAGES, LABELS, {}),
    "sum": ("exact", lambda: compiled(dense(), squares("sum")), X, Y, {}),
    "weighted mean": (
        "two_pass",
        lambda: compiled(
            dense(kernel_regularizer="l2"), squares("mean_with_sample_weight")
        ),
        X,
        Y,
        WEIGHTED,
    ),
    "coupled loss": ("two_pass", lambda: compiled(dense(), coupled), X, Y, {}),
    "mask": ("two_pass", lambda: words(mask=True), WORDS, SERIES, {}),
    "embedding": ("exact", lambda: words(mask=False), WORDS, SERIES, {}),
    "accumulating": ("exact", accumulating, X, Y, {}),
    "own loss": ("two_pass", own_loss, X, Y, {}),
    "whole metric": ("exact", lambda: measured_by(worst), X, Y, {}),
    **{
        name: ("", build, X, padded(Y, whole=BATCH), {})
        for name, build in AWKWARD.items()
        if name != OPENS
    },
    OPENS: (
        "exact",
        AWKWARD[OPENS],
        X,
        Y,
        {"epochs": 2, "callbacks": [OpenedAfterEpoch()]},
    ),
}


def compared(case: Case) -> dict[str, Any]:
    """How an epoch in slices differs from one in whole batches."""
    _, build, x, y, fit = case
    whole, expected, _ = trained(build, x, y, sliced=False, **fit)
    sliced, logs, events = trained(build, x, y, sliced=True, **fit)
    (record,) = [fields for kind, fields in events if kind == "microbatch"]
    return {
        "record": {
            name: record[name]
            for name in ("batch", "slices", "size", "mode", "deviations", "source")
        },
        "differences": max(differences(whole, sliced)),
        "updates": [int(one.optimizer.iterations) for one in (whole, sliced)],
        "logs": logs,
        "expected": expected,
    }


def half() -> dict[str, Any]:
    """In mixed_float16, with the scale of the loss and its clock."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        whole, _, _ = trained(lambda: compiled(dense()), X, Y, sliced=False)
        sliced, _, events = trained(
            lambda: compiled(dense()), X, Y, sliced=True, allow_inexact=True
        )
    finally:
        keras.config.set_dtype_policy("float32")
    pairs = zip(whole.trainable_weights, sliced.trainable_weights, strict=True)
    return {
        "deviations": events[-1][1]["deviations"],
        "optimizer": type(sliced.optimizer).__name__,
        "scale": [float(one.optimizer.dynamic_scale) for one in (whole, sliced)],
        "clock": [int(one.optimizer.step_counter) for one in (whole, sliced)],
        "differences": [
            float(np.linalg.norm(a.numpy() - b.numpy()) / np.linalg.norm(a.numpy()))
            for a, b in pairs
        ],
    }


def overflowing() -> dict[str, Any]:
    """A gradient that half precision does not hold: the scaler sees it, sliced or not."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        large = (X * 3000).astype("float32")
        whole, _, _ = trained(lambda: compiled(dense()), large, Y, sliced=False)
        sliced, _, _ = trained(
            lambda: compiled(dense()), large, Y, sliced=True, allow_inexact=True
        )
    finally:
        keras.config.set_dtype_policy("float32")
    return {"scale": [float(one.optimizer.dynamic_scale) for one in (whole, sliced)]}


def noisy() -> Any:
    """Layers that see, or draw, other things in slices."""
    body = [layers.BatchNormalization(name="norm"), layers.Dropout(0.5, name="drop")]
    return compiled(keras.Sequential([keras.Input((12,)), *body, layers.Dense(1)]))


def deviating() -> dict[str, Any]:
    """Allowed to deviate, and not."""
    _, events = prepare(noisy(), X, Y, allow_inexact=True)
    model = noisy()
    try:
        prepare(model, X, Y)
    except MicrobatchRefusedError as error:
        return {
            "deviations": events[0][1]["deviations"],
            "refused": str(error),
            "changed": "train_step" in vars(model),
        }
    return {}


def clamped() -> Any:
    """A hook on a gradient."""
    model = compiled(dense())
    model.layers[1].kernel.value.register_hook(lambda slope: slope.clamp(-0.01, 0.01))
    return model


def dropping() -> Any:
    """A layer that draws from NumPy, and seldom does anything with it."""

    class Seldom(layers.Layer):
        def call(self, inputs: Any) -> Any:
            drawn = np.random.random()  # noqa: NPY002  # as scripts do
            return inputs * 2 if drawn < 1e-9 else inputs

    return compiled(
        keras.Sequential([keras.Input((12,)), Seldom(name="seldom"), layers.Dense(1)])
    )


def otherwise() -> dict[str, Any]:
    """What is told of models that slices change."""
    found = {}
    builds = {**OTHERWISE, "hook": clamped, "numpy": dropping}
    for name, build in builds.items():
        _, events = prepare(build(), X, Y, allow_inexact=True)
        found[name] = events[-1][1].get("deviations") or events[-1][1]["sentence"]
    model = OTHERWISE[COUNTS_IN_CALL]()
    keras.utils.set_random_seed(1)
    _, whole, _ = trained(OTHERWISE[COUNTS_IN_CALL], X, Y, sliced=False)
    keras.utils.set_random_seed(1)
    model = OTHERWISE[COUNTS_IN_CALL]()
    prepared, _ = prepare(model, X, Y, allow_inexact=True)
    done = model.fit(X, Y, batch_size=BATCH, verbose=0, shuffle=False)
    prepared.restore()
    return {**found, "through": [whole["through"], done.history["through"]]}


class ReplacedBuffer(torch.nn.Module):
    """Puts another tensor into the place of its buffer."""

    mean: Any

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(12))

    def forward(self, rows: Any) -> Any:
        """The rows."""
        if self.training and rows.device.type != "meta":
            self.mean = 0.9 * self.mean + 0.1 * rows.detach().mean(0)
        return rows


def of_modules() -> Any:
    """Modules of PyTorch's: statistics in buffers, draws from PyTorch's generator."""
    wrap = keras.layers.TorchModuleWrapper
    body = [
        keras.Input((12,)),
        wrap(torch.nn.BatchNorm1d(12), output_shape=(None, 12)),
        wrap(torch.nn.Dropout(0.5), output_shape=(None, 12)),
        wrap(ReplacedBuffer(), output_shape=(None, 12)),
        layers.Dense(1),
    ]
    return compiled(keras.Sequential(body), coupled)


def modules() -> dict[str, Any]:
    """What the check leaves behind of them, and how often a step counts a batch."""
    keras.utils.set_random_seed(1)
    model = of_modules()
    norm, _, followed = (layer.module for layer in model.layers[:3])

    def state() -> list[Any]:
        kept = (norm.running_mean, followed.mean, torch.get_rng_state())
        return [one.tolist() for one in kept]

    before = state()
    prepared, events = prepare(model, X, Y, allow_inexact=True)
    after = state()
    model.fit(X, Y, batch_size=50, epochs=1, verbose=0)
    prepared.restore()
    record = events[-1][1]
    return {
        "kept": before == after,
        "mode": record["mode"],
        "deviations": record["deviations"],
        "batches": int(norm.num_batches_tracked),
        "restored": "train_step" not in vars(model),
    }


class OfItsOwnStep(keras.Model):
    """Has a train step of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = layers.Dense(1)
        self.steps: list[int] = []

    def call(self, inputs: Any) -> Any:
        """A line."""
        return self.dense(inputs)

    def train_step(self, data: Any) -> Any:
        """Keras' own, but who knows; notes samples."""
        self.steps.append(len(data[0]))
        return super().train_step(data)


def own_steps() -> dict[str, Any]:
    """Not sliced; by the spec's leave each batch becomes several smaller ones."""
    model = OfItsOwnStep()
    model.compile(keras.optimizers.SGD(0.5), "mse")
    prepared, events = prepare(model, X, Y)
    left = [kind for kind, _ in events], prepared.slices, events[0][1].get("sentence")
    reduced, told = prepare(model, X, Y, allow_inexact=True, reduce="linear")
    model.fit(X[:50], Y[:50], batch_size=50, epochs=1, verbose=0, shuffle=False)
    reduced.restore()
    return {
        "left": left,
        "mode": told[-1][1]["mode"],
        "steps": model.steps,
        "rate": float(model.optimizer.learning_rate),
    }


def hopeless() -> str:
    """A train step of its own that has never fitted."""
    model = OfItsOwnStep()
    model.compile("sgd", "mse")
    try:
        prepare(model, X, Y, slice_ceiling=50, hopeless=True)
    except MicrobatchRefusedError as error:
        return str(error)
    return ""


def compiled_steps() -> dict[str, Any]:
    """A step that torch.compile would compile is sliced without it, and that is said."""
    whole, _, _ = trained(lambda: compiled(dense()), X, Y, sliced=False)
    sliced, _, events = trained(
        lambda: compiled(dense(), jit_compile=True), X, Y, sliced=True
    )
    return {
        "differences": max(differences(whole, sliced)),
        "told": [fields["sentence"] for kind, fields in events if kind == "notice"],
    }


def halved() -> dict[str, Any]:
    """Where nothing can be measured: asked to, it takes half of what failed."""
    _, events = prepare(
        compiled(dense()), X, Y, slice_size=None, calibrate=True, slice_ceiling=30
    )
    return {name: events[0][1][name] for name in ("size", "slices", "source")}


class MadeUpGpu:
    """The allocator of a GPU, which a step fills by the samples of a slice."""

    BETWEEN, SAMPLE, LIMIT = 100_000, 1_000, 145_000

    def __init__(self) -> None:
        self.peak = 0

    def called(self, samples: int) -> None:
        """So many samples go through the model."""
        self.peak = max(self.peak, samples * self.SAMPLE)

    def begin(self) -> bool:
        """Let the peak start again."""
        self.peak = 0
        return True

    def counts(self) -> tuple[int, int]:
        """In use, and the peak."""
        return self.BETWEEN, self.BETWEEN + self.peak

    def read(self) -> Figures:
        """All figures."""
        return Figures(
            source=MemorySource.COUNTS,
            limit=self.LIMIT,
            in_use=self.BETWEEN,
            peak=self.BETWEEN + self.peak,
        )


class Filling(layers.Layer):
    """Tells of the samples that it is given."""

    def __init__(self, gpu: MadeUpGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def call(self, inputs: Any) -> Any:
        """The inputs."""
        self.gpu.called(len(inputs))
        return inputs


def measured() -> dict[str, Any]:
    """On a GPU the first steps measure which slice fits."""
    gpu = MadeUpGpu()
    support: Any = torch_slices
    kept, support.reader_of_gpu = support.reader_of_gpu, lambda: gpu
    try:
        inputs = keras.Input((12,))
        model = compiled(keras.Model(inputs, layers.Dense(1)(Filling(gpu)(inputs))))
        asked = {"slice_size": None, "calibrate": True, "slice_ceiling": 50}
        prepared, events = prepare(model, X, Y, **asked)
        model.fit(X, Y, batch_size=50, epochs=4, verbose=0)
        prepared.restore()
    finally:
        support.reader_of_gpu = kept
    sizes = [fields for kind, fields in events if kind == "microbatch"]
    peaks = [fields for kind, fields in events if kind == "peak"]
    return {
        "tried": [one["size"] for one in sizes],
        "source": sizes[-1]["source"],
        "limit": peaks[-1]["limit_bytes"],
        "peak": max(one["peak_bytes"] for one in peaks),
    }


OTHERS: dict[str, Callable[[], Any]] = {
    "half": half,
    "overflowing": overflowing,
    "deviating": deviating,
    "modules": modules,
    "own_steps": own_steps,
    "hopeless": hopeless,
    "compiled": compiled_steps,
    "halved": halved,
    "measured": measured,
    "otherwise": otherwise,
    "tensorflow": lambda: [
        name for name in sys.modules if name.startswith("trainers.backends.tensorflow")
    ],
}


def main() -> None:
    """What was found, by the names of the cases: of those ``alike``, or the others."""
    found = (
        {name: compared(case) for name, case in CASES.items()}
        if sys.argv[1] == "alike"
        else {name: tell() for name, tell in OTHERS.items()}
    )
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
