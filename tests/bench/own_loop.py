"""What following training costs, a step: loops of a script's own, and an eager ``fit``.

``make bench-own-loop``, or ``python -m tests.bench.own_loop [--pairs 4] [KIND...]``

A pair is one process of plain Python and one attempt, at the default schedule and with a
memory tier. They train in turns, a stretch each (in the order ABBA), so that a machine
that is busy or slow for a while is so for both. A row is the ratio of what a step takes:
its mean by the clock (snapshots and all), its median by the clock (a step in which nothing
of ours is due, and no other process has the core), and its mean in processor time of all
threads. Each is the mean over the pairs of processes, of the medians of their stretches,
with its standard error, and the least and most of them (two processes of plain
Python differ by some 2 to 8 % for as long as they live: by the order of their hashes,
which is one here, and by where their memory happens to lie, which more pairs even out).

``fit`` has rows of a second kind, without those differences: one attempt trains in turns
by the supervised ``fit`` and by the ``fit`` of Keras below it, twenty stretches of 4 s
each. They show what hooks and snapshots cost a step, and not what the process pays all the
time (a thread that samples, one frame below the script).
"""

# ruff: noqa: T201  # printing is the job

import argparse
import json
import math
import os
import shutil
import socket
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.attempts import Attempts

SCRIPT = """
import itertools, json, socket, statistics, sys, time
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
layers = keras.layers
SMALL = ((32,), [layers.Dense(64, "relu"), layers.Dense(10)], 32)
IMAGES = ((32, 32, 3), [layers.Conv2D(32, 3, 2, "same", activation="relu"),
    layers.Conv2D(64, 3, 2, "same", activation="relu"), layers.Flatten(),
    layers.Dense(256, "relu"), layers.Dense(10)], 64)

def taken(times, used):
    '''What a step took: mean and median by the clock, and mean of processor time.'''
    steps = len(times) - 1
    median = statistics.median(b - a for a, b in itertools.pairwise(times))
    return [(times[-1] - times[0]) / steps, median, used / steps]

class Turns(keras.callbacks.Callback):
    '''Trains when it is asked to, for so many seconds; tells what its steps took.'''

    def __init__(self, place):
        super().__init__()
        self.peer = socket.socket(socket.AF_UNIX)
        self.peer.connect(place)
        self.lines = self.peer.makefile()
        self.until, self.times, self.over = 0, [], False

    def step(self):
        self.times.append(now := time.perf_counter())
        if now < self.until:
            return
        if self.until:
            used = time.process_time() - self.used
            told = taken(self.times, used)
            self.peer.sendall((json.dumps(told) + chr(10)).encode())
        asked = self.lines.readline()
        self.over = not asked
        self.used = time.process_time()
        self.times = [time.perf_counter()]
        self.until = self.times[0] + float(asked or 0)

    def on_train_batch_end(self, batch, logs=None):
        self.step()
        if self.over:
            self.model.stop_training = True

def prepared(shape, parts, batch, eager):
    model = keras.Sequential([keras.Input(shape), *parts])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        run_eagerly=eager)
    x = np.random.rand(1024, *shape).astype("float32")
    y = np.random.randint(0, 10, 1024)
    return model, tf.data.Dataset.from_tensor_slices((x, y)).batch(batch)

def taped(model):
    optimizer, loss_of = model.optimizer, model.loss
    def step(a, b):
        with tf.GradientTape() as tape:
            loss = loss_of(b, model(a, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss
    return step

class Stretch(keras.callbacks.Callback):
    '''Ends ``fit`` after so many seconds; tells what its steps took.'''

    def __init__(self, seconds):
        super().__init__()
        self.seconds, self.cold, self.times = seconds, 5, []

    def on_train_batch_end(self, batch, logs=None):
        self.times.append(time.perf_counter())
        if self.cold:
            self.cold -= 1
            self.times, self.used = self.times[-1:], time.process_time()
        elif self.times[-1] - self.times[0] > self.seconds:
            self.told = taken(self.times, time.process_time() - self.used)
            self.model.stop_training = True

def in_turns(model, data, stretches, seconds):
    '''Steps of ``fit`` and ``Optimizer.apply`` without our hooks, and with them.'''
    from keras.src.optimizers.base_optimizer import BaseOptimizer
    fit, apply = type(model).fit, BaseOptimizer.apply
    told = [], []
    for number in range(stretches):
        for index in (0, 1) if number % 2 else (1, 0):
            BaseOptimizer.apply = apply if index else apply.__wrapped__
            stretch = Stretch(seconds)
            train = fit if index else fit.__wrapped__
            train(model, data, epochs=10**6, verbose=0, callbacks=[stretch])
            told[index].append(stretch.told)
    return told

kind = sys.argv[1]
model, data = prepared(*(SMALL if "small" in kind else IMAGES), "eager fit" in kind)
if sys.argv[2] == "in turns":
    print(json.dumps(in_turns(model, data, int(sys.argv[3]), float(sys.argv[4]))))
    sys.exit()
turns = Turns(sys.argv[2])
if "fit" in kind:
    model.fit(data, epochs=10**6, verbose=0, callbacks=[turns])
else:
    step = model.train_on_batch if "train_on_batch" in kind else taped(model)
    if "tf.function" in kind:
        step = tf.function(step)
    for a, b in itertools.cycle(list(data)):  # without the threads of a pipeline
        step(a, b)
        turns.step()
        if turns.over:
            break
"""
KINDS = (
    "small tf.function",
    "small train_on_batch",
    "small eager loop",
    "small eager fit",
    "images tf.function",
    "images train_on_batch",
    "images eager loop",
    "images eager fit",
)
SECONDS = 1.0
"""Of a stretch."""
STRETCHES_IN_TURNS = 20
SECONDS_IN_TURNS = 4.0
PATIENCE = 120.0
SAME_HASHES = {"PYTHONHASHSEED": "0"}
"""As every attempt of a run has the same: it alone moves a step by some percents."""
SHARED = Path("/dev/shm")  # noqa: S108  # what the memory tier is for


class OwnLoopStep(NamedTuple):
    """What a step took in a stretch."""

    seconds: float
    """Its mean, by the clock."""
    median: float
    """Seconds by the clock."""
    processor: float
    """Seconds of processor time, all threads."""


class Turns:
    """One of the two processes, which trains for a stretch at a time."""

    def __init__(self, listening: socket.socket) -> None:
        self._peer, _ = listening.accept()
        self._peer.settimeout(PATIENCE)
        self._lines = self._peer.makefile()

    def stretch(self, seconds: float) -> OwnLoopStep:
        """What a step took in the next one."""
        self._peer.sendall(f"{seconds}\n".encode())
        return OwnLoopStep(*json.loads(self._lines.readline()))

    def end(self) -> None:
        """Ask it to end."""
        self._lines.close()
        self._peer.close()


@contextmanager
def training(script: Path, kind: str, place: Path, *, plain: bool) -> Iterator[Turns]:
    """A process that waits for its turns."""
    memory = Path(tempfile.mkdtemp(prefix="bench-", dir=SHARED))
    place.mkdir()
    options = {"memory_directory": str(memory / "run"), "rewind": (str(place),)}
    attempts = Attempts(place, options)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.settimeout(PATIENCE)
        listening.bind(str(place / "turns"))
        listening.listen()
        command = kind, str(place / "turns")
        process, _ = attempts.start(
            script, *command, plain=plain, environment=SAME_HASHES
        )
        turns = Turns(listening)
    try:
        yield turns
    finally:
        turns.end()
        out, err = process.communicate(timeout=PATIENCE)
        shutil.rmtree(memory)
        assert process.returncode == 0, (out, err)


def compared(
    script: Path, kind: str, place: Path, stretches: int
) -> list[list[OwnLoopStep]]:
    """What a step took by plain Python and as an attempt, stretch by stretch."""
    with ExitStack() as both:
        two = [
            both.enter_context(
                training(script, kind, place / f"plain-{plain}", plain=plain)
            )
            for plain in (True, False)
        ]
        for one in two:
            one.stretch(2 * SECONDS)  # traced, compiled, warm, and a first snapshot
        found: list[list[OwnLoopStep]] = [[], []]
        for number in range(stretches):
            order = (0, 1) if number % 2 else (1, 0)
            for index in order:
                found[index].append(two[index].stretch(SECONDS))
    return found


def compared_in_turns(script: Path, kind: str, place: Path) -> list[list[OwnLoopStep]]:
    """What a step of ``fit`` took without our hooks and with them, in one process."""
    memory = Path(tempfile.mkdtemp(prefix="bench-", dir=SHARED))
    attempts = Attempts(place, {"memory_directory": str(memory / "run")})
    try:
        asked = kind, "in turns", str(STRETCHES_IN_TURNS), str(SECONDS_IN_TURNS)
        process, _ = attempts.start(script, *asked, environment=SAME_HASHES)
        out, err = process.communicate(timeout=PATIENCE * 3)
        assert process.returncode == 0, (out, err)
    finally:
        shutil.rmtree(memory)
    return [[OwnLoopStep(*one) for one in side] for side in json.loads(out)]


def row(kind: str, pairs: list[list[list[OwnLoopStep]]]) -> str:
    """What the table says of one kind."""
    cells = [f"{kind:22}"]
    alone = statistics.median(step.seconds for plain, _ in pairs for step in plain)
    cells.append(f"{1e3 * alone:6.2f} ms")
    for field in range(len(OwnLoopStep._fields)):
        ratios = [
            [ours[field] / theirs[field] for theirs, ours in zip(*pair, strict=True)]
            for pair in pairs
        ]
        each = [statistics.median(one) for one in ratios]
        error = statistics.stdev(each) / len(each) ** 0.5 if len(each) > 1 else math.nan
        cells.append(
            f"  {statistics.mean(each):.3f} ± {error:.3f}"
            f" ({min(each):.3f} to {max(each):.3f})"
        )
    return " ".join(cells)


def row_in_turns(kind: str, sides: list[list[OwnLoopStep]]) -> str:
    """What the table says of one kind, within one process."""
    alone = statistics.median(step.seconds for step in sides[0])
    cells = [f"{kind:22} {1e3 * alone:6.2f} ms"]
    for field in range(len(OwnLoopStep._fields)):
        ratios = [
            ours[field] / keras[field] for keras, ours in zip(*sides, strict=True)
        ]
        error = statistics.stdev(ratios) / len(ratios) ** 0.5
        cells.append(f"{statistics.median(ratios):.3f} ± {error:.3f}{'':17}")
    return "   ".join(cells).rstrip() + "  in one process"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=4, help="of processes")
    parser.add_argument("--stretches", type=int, default=12, help="of each pair")
    parser.add_argument(
        "--in-turns", action="store_true", help="only the rows within one process"
    )
    parser.add_argument("kinds", nargs="*", default=KINDS)
    asked = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'a step':25} {'alone':9} {'mean, by the clock':34}"
        f"{'median, by the clock':34}processor time"
    )
    with tempfile.TemporaryDirectory() as place:
        script = Path(place) / "loop.py"
        script.write_text(SCRIPT)
        for number, kind in enumerate(asked.kinds):
            if "fit" in kind:
                alone = _made(Path(place) / f"{number}-in-turns")
                print(row_in_turns(kind, compared_in_turns(script, kind, alone)))
            if asked.in_turns:
                continue
            pairs = [
                compared(
                    script,
                    kind,
                    _made(Path(place) / f"{number}-{pair}"),
                    asked.stretches,
                )
                for pair in range(asked.pairs)
            ]
            print(row(kind, pairs), flush=True)


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


if __name__ == "__main__":
    main()
