"""What following a loop of the script's own costs, a step.

``make bench-own-loop``, or ``python -m tests.bench.own_loop [--repeats 5]``

Each kind of loop by plain Python and under supervision in turn, each in a process of its
own; a row is the ratio of the median steps of each pair: their median, least and most. At
the default schedule, with a memory tier.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.attempts import Attempts

HEAD = """
import itertools, json, sys, time
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
layers = keras.layers
SMALL = ((32,), [layers.Dense(64, "relu"), layers.Dense(10)], 32)
IMAGES = ((32, 32, 3), [layers.Conv2D(32, 3, 2, "same", activation="relu"),
    layers.Conv2D(64, 3, 2, "same", activation="relu"), layers.Flatten(),
    layers.Dense(256, "relu"), layers.Dense(10)], 64)

def prepared(shape, parts, batch):
    model = keras.Sequential([keras.Input(shape), *parts])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    x = np.random.rand(1024, *shape).astype("float32")
    y = np.random.randint(0, 10, 1024)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)
    return model, itertools.cycle(list(data))  # without the threads of a pipeline

def taped(model):
    optimizer, loss_of = model.optimizer, model.loss
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    return step

kind, seconds = sys.argv[1], float(sys.argv[2])
model, data = prepared(*(SMALL if "small" in kind else IMAGES))
step = model.train_on_batch if "train_on_batch" in kind else taped(model)
if "tf.function" in kind:
    step = tf.function(step)
times, began = [], time.perf_counter()
for number, (a, b) in enumerate(data):
    before = time.perf_counter()
    step(a, b)
    after = time.perf_counter()
    if number > 20:
        times.append(after - before)
    if after - began > seconds:
        break
times.sort()
print(json.dumps(times[len(times) // 2]))
"""
KINDS = (
    "small tf.function",
    "small train_on_batch",
    "images tf.function",
    "images train_on_batch",
    "small eager",
)
SECONDS = 8.0
SHARED = Path("/dev/shm")  # noqa: S108  # what the memory tier is for


def plain(script: Path, kind: str) -> float:
    """Seconds of the median step by Python alone."""
    command = [sys.executable, str(script), kind, str(SECONDS)]
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env=environment
    )
    return float(json.loads(done.stdout))


def supervised(script: Path, kind: str) -> float:
    """The same as an attempt."""
    memory = Path(tempfile.mkdtemp(prefix="bench-", dir=SHARED))
    try:
        with tempfile.TemporaryDirectory() as place:
            options = {"memory_directory": str(memory / "run")}
            attempts = Attempts(Path(place), options)
            outcome = attempts.run(script, kind, str(SECONDS))
            assert outcome.code == 0, outcome.err
            return float(json.loads(outcome.out))
    finally:
        shutil.rmtree(memory)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("kinds", nargs="*", default=KINDS)
    asked = parser.parse_args()
    print("a step            alone ms  supervised  ratio (least to most)")
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "loop.py"
        script.write_text(HEAD)
        for kind in asked.kinds:
            pairs = [
                (plain(script, kind), supervised(script, kind))
                for _ in range(asked.repeats)
            ]
            ratios = [theirs / alone for alone, theirs in pairs]
            alone, ours = (
                1e3 * statistics.median(one) for one in zip(*pairs, strict=True)
            )
            print(
                f"{kind:22} {alone:6.2f} {ours:6.2f}  {statistics.median(ratios):.3f}"
                f" ({min(ratios):.3f} to {max(ratios):.3f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
