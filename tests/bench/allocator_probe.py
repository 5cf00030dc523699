"""What reading the allocator's map costs a training.

``make bench-allocator-probe``, or ``python -m tests.bench.allocator_probe [--steps 2000]
[--chunks 0,1000,10000]``

Too little to be seen in the speed of a training (which is the point), so it is enlarged:
before a random half of the steps there is one reading, before the others none, and the
difference of their means is what one reading costs in all, also by what it displaces
from caches. A training reads at most every ``LEAST_SECONDS``, and more seldom if
a reading takes long; cost over interval is the share of the time that it takes. The
promise is 0.1 %. What is in use is glanced at more often; that is timed by itself, and
quick readings have a share that they never take more than.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_CPU_ALLOCATOR_USE_BFC", "1")
os.environ.setdefault("TF_CPU_BFC_MEM_LIMIT_IN_MB", "600")

import keras
import numpy as np
import tensorflow as tf

from supervisor.wire.messages.directive import Directive
from trainers.backends.memory import paced_probe
from trainers.backends.tensorflow.allocator.allocator_probe import AllocatorProbe
from trainers.backends.tensorflow.allocator.native_ops import of_process
from trainers.process.attempt_reporting import Attempt

LIMIT = 600 * 2**20
PROMISE = 0.001
WARM = 30
RESAMPLES = 2000


def attempt_in(directory: Path) -> Attempt:
    """An attempt with a page, and nothing else."""
    values: dict[str, Any] = dict.fromkeys(Directive.__dataclass_fields__)
    values |= {
        "attempt": 1,
        "args": (),
        "attempt_directory": str(directory),
        "script": "bench.py",
    }
    return Attempt(Directive(**values))


def model() -> Any:
    """A tiny network: the shorter a step, the less it hides of a reading."""
    layers = [keras.Input((32,)), keras.layers.Dense(64), keras.layers.Dense(10)]
    built = keras.Sequential(layers)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    built.compile("adam", loss)
    return built


def measure(
    built: Any, probe: AllocatorProbe, *, steps: int, draw: random.Random
) -> tuple[list[float], list[float]]:
    """Seconds of steps with a reading before, and of steps without."""
    x = np.zeros((64, 32), "float32")
    y = np.zeros((64,), "int32")
    with_reading: list[float] = []
    without: list[float] = []
    for step in range(steps + WARM):
        reads = draw.random() < 0.5
        began = time.perf_counter()
        if reads:
            probe.look(step=step)
        built.train_on_batch(x, y)
        if step >= WARM:
            (with_reading if reads else without).append(time.perf_counter() - began)
    return with_reading, without


def trimmed(values: list[float]) -> float:
    """The mean of the middle half: a busy machine has hiccups."""
    ordered, cut = sorted(values), len(values) // 4
    return statistics.fmean(ordered[cut : len(values) - cut])


def interval(
    with_reading: list[float], without: list[float], *, draw: random.Random
) -> tuple[float, float, float]:
    """The difference of the means, and its 95 % interval by resampling."""
    found = sorted(
        trimmed(draw.choices(with_reading, k=len(with_reading)))
        - trimmed(draw.choices(without, k=len(without)))
        for _ in range(RESAMPLES)
    )
    middle = trimmed(with_reading) - trimmed(without)
    return middle, found[RESAMPLES // 40], found[-RESAMPLES // 40]


def report(chunks: int | None, steps: tuple[list[float], list[float]]) -> float:
    """A line of the table; the share of the time at the upper end."""
    cost, low, high = interval(*steps, draw=random.Random(0))  # noqa: S311  # no secret
    every = max(paced_probe.LEAST_SECONDS, max(cost, 0.0) / paced_probe.SHARE)
    share, worst = cost / every, high / every
    print(
        f"{chunks or 0:>7} chunks  step {trimmed(steps[1]) * 1e3:7.2f} ms  "
        f"reading {cost * 1e6:6.0f} us [{low * 1e6:.0f}, {high * 1e6:.0f}]  "
        f"every {every:5.2f} s  share {share:.4%} (at most {worst:.4%})"
    )
    return worst


def glances(probe: AllocatorProbe, *, calls: int) -> float:
    """A line about glances; their share of the time, hiccups and all.

    Each says when the next is due, by what it took itself, up to a bound: what the
    longer ones take beyond that is lost.
    """
    took: list[float] = []
    pauses: list[float] = []
    for _ in range(calls):
        began = time.perf_counter()
        probe.glance(began, step=0)
        took.append(time.perf_counter() - began)
        pauses.append(probe.glance_due - began)
    share = sum(took) / sum(pauses)
    print(
        f"a glance {statistics.median(took) * 1e6:.1f} us"
        f" (mean {statistics.fmean(took) * 1e6:.1f}),"
        f" every {statistics.fmean(pauses) * 1e3:.0f} ms  share {share:.4%}"
    )
    return share


def main() -> int:
    """Measure and print; 1 if the promise is broken."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--chunks", default="0,1000,10000")
    options = parser.parse_args()
    shares: list[float] = []
    with tempfile.TemporaryDirectory() as directory:
        probe = AllocatorProbe(attempt_in(Path(directory)), limit_bytes=LIMIT)
        probe.begin()
        of_process(print).wait(600.0)
        built = model()
        kept: list[tf.Tensor] = []
        for count in map(int, options.chunks.split(",")):
            with tf.device("CPU:0"):
                kept += [tf.zeros([256], tf.uint8) for _ in range(count - len(kept))]
            draw = random.Random(count)  # noqa: S311  # no secret
            steps = measure(built, probe, steps=options.steps, draw=draw)
            reading = probe.read()
            chunks = None if reading is None else reading.chunks
            shares.append(report(chunks, steps))
        whole = max(shares) + glances(probe, calls=options.steps) + paced_probe.QUICK
    found = "kept" if whole <= PROMISE else "broken"
    print(
        f"in all at most {whole:.4%}, quick readings included: the promise is {found}"
    )
    return 0 if whole <= PROMISE else 1


if __name__ == "__main__":
    sys.exit(main())
