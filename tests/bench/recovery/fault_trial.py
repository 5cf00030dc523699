"""The script that each contestant of ``make bench-restart`` and ``bench-goodput`` trains.

    fault_trial.py MODEL TOLD [--backup WHEN | --orbax WHEN] [--to DIR] [--packages DIR]

``TOLD`` gets a line a step: pid, step, monotonic seconds. A fault is asked for by a file
beside it, ``fault``, with its name: it is committed after the next step, once, and told in a
line that ends with that name. A step pauses, for what a larger one would take.
"""

import argparse
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=("small", "mobilenet", "transformer"))
parser.add_argument("told", type=Path)
parser.add_argument("--backup", help="BackupAndRestore: epoch, or steps")
parser.add_argument("--orbax", help="OrbaxCheckpoint: epoch, or steps")
parser.add_argument("--to", type=Path, help="where either saves")
parser.add_argument("--packages", help="where Orbax is installed")
parser.add_argument("--pause", type=float, default=0.2, help="seconds, after a step")
asked = parser.parse_args()
if asked.packages:
    sys.path.append(asked.packages)  # before Keras, which looks for JAX when it starts

import keras  # noqa: E402  # after the path is complete
import numpy as np  # noqa: E402  # as above
import tensorflow as tf  # noqa: E402  # as above

EPOCH = 16
"""Steps."""
FAULT = asked.told.with_name("fault")


def small() -> tuple[Any, tuple[int, ...], int]:
    """A convolution network, the shape of its input, and the batch."""
    parts = [
        *[keras.Input((16, 16, 3)), keras.layers.Conv2D(8, 3, activation="relu")],
        *[keras.layers.BatchNormalization(), keras.layers.Flatten()],
        keras.layers.Dense(10, "softmax"),
    ]
    return keras.Sequential(parts), (16, 16, 3), 32


def mobilenet() -> tuple[Any, tuple[int, ...], int]:
    """MobileNetV2 of small pictures."""
    shape = (64, 64, 3)
    model = keras.applications.MobileNetV2(input_shape=shape, weights=None, classes=10)
    return model, shape, 8


def transformer() -> tuple[Any, tuple[int, ...], int]:
    """Two blocks of attention over 64 tokens."""
    layers, width = keras.layers, 128
    tokens = keras.Input((64, width))
    found = tokens
    for _ in range(2):
        normal = layers.LayerNormalization()(found)
        found = found + layers.MultiHeadAttention(4, width // 4)(normal, normal)
        inner = layers.Dense(4 * width, "gelu")(layers.LayerNormalization()(found))
        found = found + layers.Dense(width)(inner)
    answer = layers.Dense(10, "softmax")(layers.GlobalAveragePooling1D()(found))
    return keras.Model(tokens, answer), (64, width), 8


def tell(step: int, fault: str = "") -> None:
    """Write a line, whole."""
    line = f"{os.getpid()} {step} {time.monotonic()} {fault}\n"
    out = os.open(asked.told, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(out, line.encode())
    os.close(out)


def fail_next_step() -> None:
    """Memory runs out in the next call of what TensorFlow compiled, once: in a step, and not
    in a callback."""
    kind: Any = type(tf.function(lambda: None))
    whole = kind.__call__

    def failing(*_arguments: Any, **_named: Any) -> Any:
        kind.__call__ = whole
        message = "OOM when allocating tensor with shape[4096,4096,64] and type float"
        raise tf.errors.ResourceExhaustedError(None, None, message)

    kind.__call__ = failing


def commit(fault: str, model: Any) -> None:
    """What was asked for."""
    if fault == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "oom":
        fail_next_step()
    if fault == "nan":
        kernel = model.layers[-1].kernel
        kernel.assign(kernel * float("nan"))
    while fault == "hang":
        time.sleep(1.0)


class EndsOnNan(keras.callbacks.Callback):
    """What a person adds, before anything that saves: a loss that is lost is not kept."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras passes it by name
        """After each step."""
        if not math.isfinite(logs["loss"]):
            message = f"the loss is {logs['loss']}"
            raise FloatingPointError(message)


class TellsSteps(keras.callbacks.Callback):
    """Tells of each step that gave a loss, and commits faults."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras passes it by name
        """After each step, and after what others do then."""
        if not math.isfinite(logs["loss"]):
            return
        step = int(self.model.optimizer.iterations)
        tell(step)
        time.sleep(asked.pause)
        if FAULT.exists():
            fault = FAULT.read_text()
            FAULT.unlink()
            tell(step, fault)
            commit(fault, self.model)


def saving() -> list[Any]:
    """The callbacks that save, as asked."""
    when = asked.backup or asked.orbax
    if when is None:
        return []
    often = when if when == "epoch" else int(when)
    if asked.backup:
        saver = keras.callbacks.BackupAndRestore(str(asked.to), save_freq=often)
    else:
        saver = keras.callbacks.OrbaxCheckpoint(str(asked.to), save_freq=often)
    return [EndsOnNan(), saver]


def made() -> tuple[Any, Any, Any]:
    """The model, as it was saved or new, and its data."""
    keras.utils.set_random_seed(1)
    model, shape, batch = globals()[asked.model]()
    loss = keras.losses.SparseCategoricalCrossentropy()
    model.compile("adam", loss, jit_compile=asked.model != "small")
    kept = asked.orbax and asked.to.is_dir()
    if kept and any(path.name.isdigit() for path in asked.to.iterdir()):
        model = keras.models.load_model(str(asked.to))  # OrbaxCheckpoint loads nothing
    random = np.random.default_rng(1)
    x = random.random((EPOCH * batch, *shape), "float32")
    y = random.integers(0, 10, EPOCH * batch)
    return model, x, y


def main() -> None:
    """Train for ever."""
    model, x, y = made()
    began = int(model.optimizer.iterations) // EPOCH
    model.fit(
        *[x, y],
        batch_size=len(x) // EPOCH,
        epochs=10**6,
        initial_epoch=began,
        callbacks=[*saving(), TellsSteps()],
        verbose=0,
    )


main()
