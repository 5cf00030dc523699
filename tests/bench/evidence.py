"""``make bench-evidence``: what the evidence for advice costs training.

Each part alone, the best of five rounds: what is done at every step, what once a second,
what once a ``fit``.
"""

# ruff: noqa: T201  # printing is the job

import time
import timeit
from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import numpy as np
import tensorflow as tf

from supervisor.wire.messages.directive import Directive
from tests.support.attempts import Attempts
from trainers.backends.selected import backend
from trainers.fit.telemetry.step_figure_counter import StepFigureCounter
from trainers.process.attempt_reporting import Attempt

STEPS = 100_000
LOOKS = 200
FOREVER = 1e9


def best(work: object, *, number: int) -> float:
    """Seconds of one call."""
    return min(timeit.repeat(work, number=number, repeat=5)) / number  # type: ignore[arg-type]


def main() -> None:
    """The command."""
    with TemporaryDirectory() as scratch:
        where = Path(scratch)
        directive: Directive = Attempts(where).directive(where / "train.py")
        Path(directive.attempt_directory).mkdir()
        attempt = Attempt(directive)
        attempt.start_heartbeat()
        measure(attempt)


def measure(attempt: Attempt) -> None:
    """Print each part."""
    data = tf.data.Dataset.range(10**9).map(lambda one: one + 1).batch(2).prefetch(2)
    batches = iter(data)
    for _ in range(200):
        next(batches)
    collector = StepFigureCounter(attempt, fit=0)

    def step() -> None:
        began = time.perf_counter() + FOREVER  # so that no look is due
        collector.count([(began, began, 1)])
        collector.look(steps=1, batches=batches)

    for _ in range(10):
        step()
    clock = best(time.perf_counter, number=STEPS)
    each = best(step, number=STEPS) - clock
    print(f"at each step: {1e6 * each:.2f} µs")
    gaps = best(lambda: backend.evidence.gaps(batches), number=LOOKS)
    print(f"the gaps of a pipeline, once a second: {1e6 * gaps:.0f} µs")
    assert attempt.writes is not None
    look = best(attempt.writes.look, number=LOOKS)
    print(f"the training thread, once a second: {1e6 * look:.0f} µs, of another thread")
    model = keras.applications.MobileNetV2(
        weights=None, input_shape=(64, 64, 3), classes=10
    )
    model.compile("sgd", "sparse_categorical_crossentropy")
    model.fit(np.zeros((8, 64, 64, 3), "float32"), np.zeros(8), verbose=0)
    began = time.perf_counter()
    backend.evidence.float64_products(model)
    seconds = time.perf_counter() - began
    print(f"the types of a MobileNetV2 step, once a fit: {seconds:.2f} s")


if __name__ == "__main__":
    main()
