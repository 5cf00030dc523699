"""What an epoch waits for before its first step, by plain Keras and under supervision.

``make bench-epoch-ends``, or ``python -m tests.bench.epoch_ends [--epochs 100] [--runs 2]``

A small network on arrays, 16 steps an epoch, with a pause after each step for what a larger
one would take. As many runs of each kind train at the same time, so that both have the same
machine. Told of each kind: epochs, those that waited half a second or longer for their first
step, and the longest and the sum of those waits.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.recovery.bench_job import ended_by_sigterm

LONG_SECONDS = 0.5
SCRIPT = """
import sys, time
import keras, numpy as np
epochs, pause = int(sys.argv[1]), float(sys.argv[2])
keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
x, y = rng.random((512, 16, 16, 3), "float32"), rng.integers(0, 10, 512)
model = keras.Sequential([
    keras.Input((16, 16, 3)), keras.layers.Conv2D(8, 3, activation="relu"),
    keras.layers.Flatten(), keras.layers.Dense(10, "softmax"),
])
model.compile("adam", "sparse_categorical_crossentropy")

class Waits(keras.callbacks.Callback):
    ended, waits = None, []
    def on_epoch_end(self, epoch, logs=None):
        self.ended = time.monotonic()
    def on_train_batch_begin(self, batch, logs=None):
        if self.ended is not None:
            self.waits.append(time.monotonic() - self.ended)
            self.ended = None
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(pause)

waits = Waits()
model.fit(x, y, batch_size=32, epochs=epochs, verbose=0, callbacks=[waits])
print("WAITS", *waits.waits, flush=True)
"""
COMMAND = Path(sys.executable).with_name("trainwarden")


def waits_of(said: str) -> list[float]:
    """The seconds that each epoch but the first waited."""
    (line,) = (one for one in said.splitlines() if one.startswith("WAITS "))
    return [float(one) for one in line.split()[1:]]


def row(name: str, waits: list[float]) -> str:
    """One line of the table."""
    long = [one for one in waits if one >= LONG_SECONDS]
    return (
        f"{name:12} {len(waits):8} {len(long):8} {max(waits, default=0.0):12.2f}"
        f" {sum(long):12.1f}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=100, help="of each run")
    parser.add_argument("--runs", type=int, default=2, help="of each kind, at once")
    parser.add_argument(
        "--pause", type=float, default=0.2, help="seconds, after a step"
    )
    asked = parser.parse_args()
    arguments = [str(asked.epochs), str(asked.pause)]
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    found: dict[str, list[float]] = {"plain": [], "supervised": []}
    with tempfile.TemporaryDirectory() as directory, ended_by_sigterm():
        script = Path(directory) / "train.py"
        script.write_text(SCRIPT)
        runs: list[tuple[str, subprocess.Popen[str]]] = []
        try:
            for number in range(asked.runs):
                state = ["--state-dir", f"{directory}/state-{number}"]
                for name, words in (
                    ("plain", [sys.executable]),
                    ("supervised", [str(COMMAND), "run", *state]),
                ):
                    process = subprocess.Popen(
                        [*words, str(script), *arguments],
                        cwd=directory,
                        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
                        stdout=subprocess.PIPE,
                        stderr=subprocess.DEVNULL,
                        text=True,
                    )
                    runs.append((name, process))
            for name, process in runs:
                said, _ = process.communicate()
                found[name] += waits_of(said)
        finally:
            for _, process in runs:
                process.terminate()
    print(f"{'':12} {'epochs':>8} {'waited':>8} {'longest, s':>12} {'together, s':>12}")
    for name, waits in found.items():
        print(row(name, waits))


if __name__ == "__main__":
    main()
