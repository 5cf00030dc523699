"""Small models and their data, trained whole and in slices."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers

from trainers.microbatch import prepare as microbatch
from trainers.microbatch.prepared import Prepared

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


def first_of(structure: Any) -> Any:
    """The first batch of ``structure``."""
    return keras.tree.map_structure(lambda leaf: leaf[:BATCH], structure)


def prepare(
    model: Any, x: Any, y: Any, weight: Any = None, **wanted: Any
) -> tuple[Prepared, Events]:
    """``prepare.prepare`` for a test, and the events it reported."""
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
    build: Callable[[], Any],
    x: Any,
    y: Any,
    *,
    sliced: bool,
    allow_inexact: bool = False,
    **fit: Any,
) -> tuple[Any, dict[str, list[float]], Events]:
    """A model after an epoch, its history, and what the microbatching reported."""
    keras.utils.set_random_seed(1)
    model = build()
    events: Events = []
    prepared = Prepared()
    if sliced:
        prepared, events = prepare(
            model, x, y, fit.get("sample_weight"), allow_inexact=allow_inexact
        )
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


def compiled(model: Any, loss: Any = "mse", **options: Any) -> Any:
    """``model``, compiled with Adam."""
    model.compile("adam", loss, metrics=["mae"], **options)
    return model
