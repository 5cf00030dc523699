"""What supervision adds to a step of ``fit``: plain Keras' epochs and ours, in turn.

``make bench-following``, or ``python -m tests.bench.following [--seconds 120]
[--only small]``

One process trains the trainings of ``bench-snapshot`` by calls of ``fit`` of a second or so,
one plain and one supervised in a pair, each first in every other pair. A step's time is the
mean of a call's without its first tenth. No snapshots are taken. The difference holds all
of it: what follows the steps, and that arrays are batched by our pipeline instead of Keras'.
"""

# ruff: noqa: T201  # printing is the job

import argparse
import os
import shutil
import tempfile
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import keras

from tests.bench.snapshot import directive, large, mean_and_error, small
from trainers.fit import supervised
from trainers.process.attempt_reporting import Attempt
from trainers.snapshots.schedule import Interval

BATCH = 32
PAIRS = 10
"""At least."""


class StepTime(keras.callbacks.Callback):
    """Times the steps of one epoch."""

    seconds = 0.0
    _began = 0.0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras'
        """The time from the end of one step to that of the last."""
        skipped = self.params["steps"] // 10
        now = time.perf_counter()
        if batch == skipped:
            self._began = now
        elif batch > skipped:
            self.seconds = (now - self._began) / (batch - skipped)


def pairs_of(model: Any, data: Any, directory: Path, *, seconds: float) -> str:
    """The difference for this training, in a sentence."""
    (directory / "attempt").mkdir()
    attempt = Attempt(directive(directory / "attempt", directory))
    timed, fit = StepTime(), keras.Model.fit
    options = {"epochs": 1, "verbose": 0, "callbacks": [timed]}

    def plain() -> float:
        fit(model, *data, **options)
        return timed.seconds

    def ours() -> float:
        with supervised.fit(attempt, fit, model, data, dict(options)) as train:
            session, never = supervised.session_of(attempt), Interval(seconds=1e12)
            session.schedule = replace(session.schedule, memory=never, durable=never)
            train()
        return timed.seconds

    plain()
    ours()
    steps, added = list[float](), list[float]()
    until = time.perf_counter() + seconds
    while len(added) < PAIRS or time.perf_counter() < until:
        if len(added) % 2:
            without, with_us = plain(), ours()
        else:
            with_us, without = ours(), plain()
        steps.append(without)
        added.append(with_us - without)
    mean, error = mean_and_error(added)
    session = supervised.session_of(attempt)
    counted = session._steps.following  # noqa: SLF001  # what the planner goes by
    session.saver.wait()
    if session.memory is not None:
        session.memory.close()
    step = median(steps)
    return (
        f"{len(added)} pairs, {step * 1e3:.2f} ms a step by plain Keras; supervised"
        f" {mean * 1e6:+.0f} µs (standard error {error * 1e6:.0f}), {mean / step:+.1%} (+- {error / step:.1%});"
        f" to follow one takes {counted:.1%} by its own count"
    )


def main() -> None:
    """Print a line for each training."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120, help="of each training")
    parser.add_argument("--only", choices=("small", "eager", "large"))
    options = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    eager = partial(small, eagerly=True)
    for name, made, steps in (
        ("small", small, 600),
        ("eager", eager, 60),
        ("large", large, 60),
    ):
        if options.only not in {None, name}:
            continue
        keras.utils.clear_session()
        directory = Path(tempfile.mkdtemp(prefix="trainwarden-bench-"))
        model, data = made()
        data = tuple(part[: steps * BATCH] for part in data)
        print(f"{name}: {pairs_of(model, data, directory, seconds=options.seconds)}")
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
