"""One training of a few steps in this process, under a memory limit; prints JSON lines.

``python -m tests.bench.planner_trial MODEL LIMIT_MIB JIT(0|1) SIZE|whole|calibrate``
What does not fit ends this process, in one of the ways an out-of-memory error does.
"""

# ruff: noqa: PLC0415  # TensorFlow is imported once its settings are in place
# ruff: noqa: T201  # printing is the job

import json
import os
import sys
from typing import Any

BATCHES = {"cnn": 512, "mlp": 4096, "lstm": 512, "transformer": 128}
"""Samples in a whole batch, by model."""

STEPS = 4
"""Steps an epoch."""

EPOCHS = 12
"""Enough to climb, and to see whether a size that fits once goes on to fit."""


def build(name: str) -> tuple[Any, int, Any, Any]:
    """A model, its batch size, and the samples and labels of an epoch."""
    import keras
    import numpy as np
    from keras import layers

    keras.utils.set_random_seed(1)
    shape, body = _parts(name, layers)
    batch = BATCHES[name]
    draw = np.random.default_rng(1)
    x = draw.normal(size=(batch * STEPS, *shape)).astype("float32")
    y = draw.integers(0, 10, size=(batch * STEPS,))
    model = keras.Sequential([keras.Input(shape), *body, layers.Dense(10)])
    return model, batch, x, y


def _parts(name: str, layers: Any) -> tuple[tuple[int, ...], list[Any]]:
    match name:
        case "cnn":
            conv = {"padding": "same", "activation": "relu"}
            body = [
                layers.Conv2D(16, 3, **conv),
                layers.Conv2D(16, 3, **conv),
                layers.MaxPooling2D(4),
                layers.Conv2D(32, 3, **conv),
                layers.GlobalAveragePooling2D(),
            ]
            return (48, 48, 1), body
        case "mlp":
            return (256,), [layers.Dense(1024, "relu") for _ in range(4)]
        case "lstm":
            body = [layers.LSTM(96, return_sequences=True), layers.LSTM(64)]
            return (48, 16), body
        case "transformer":
            body = [_block(layers), _block(layers), layers.GlobalAveragePooling1D()]
            return (96, 64), body
        case _:
            sys.exit(f"no model {name}")


def _block(layers: Any) -> Any:
    import keras

    inputs = keras.Input((96, 64))
    attended = layers.MultiHeadAttention(4, 16)(inputs, inputs)
    middle = layers.LayerNormalization()(layers.Add()([inputs, attended]))
    wide = layers.Dense(256, activation="gelu")(middle)
    return keras.Model(inputs, layers.Add()([middle, layers.Dense(64)(wide)]))


def report(kind: str, **fields: Any) -> None:
    """One line of what happened."""
    print(json.dumps({"kind": kind, **fields}), flush=True)


def main() -> None:
    """Train, and report."""
    name, limit, jit, plan = sys.argv[1:5]
    os.environ["TF_CPU_ALLOCATOR_USE_BFC"] = "1"
    os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = limit
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras

    from trainers.backends.tensorflow.allocator import (
        cpu_pool,
        native_ops,
        peak_readings,
    )
    from trainers.microbatch import prepare

    limit_bytes = int(limit) * 2**20
    if plan != "whole":  # as in an attempt that may work in slices
        cpu_pool.in_one_piece(limit_bytes)
        native_ops.of_process(print).ask()
    model, batch, x, y = build(name)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], jit_compile=jit == "1")
    report("batch", batch=batch)
    prepared = prepare.prepare(
        model,
        slice_size=int(plan) if plan.isdigit() else None,
        calibrate=plan == "calibrate",
        slice_ceiling=batch,
        memory_limit_bytes=limit_bytes,
        allow_inexact=False,
        first_batch=lambda: (x[:batch], y[:batch]),
        report=report,
    )
    model.fit(x, y, batch_size=batch, epochs=EPOCHS, verbose=0)
    reading = peak_readings.read()
    report("finished", size=prepared.size, peak=reading and reading.peak_bytes)


if __name__ == "__main__":
    main()
