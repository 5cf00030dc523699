"""The first ``fit`` under a limit tells what its steps need: before it, and once after."""

from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.step_needs import StepNeeds
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.zygote import OTHER_BACKENDS, TORCH, Zygote

SCRIPT = """
import sys
import keras, numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(64, 32)).astype("float32")
y = x.sum(axis=1, keepdims=True)
steps = int(sys.argv[1])


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(1)

    def call(self, inputs):
        return self.inner(inputs)


def trained(model, optimizer):
    model.compile(optimizer, "mse", jit_compile=False)
    model.fit(x[: 8 * steps], y[: 8 * steps], batch_size=8, epochs=2, verbose=0,
              validation_data=(x, y), validation_batch_size=64)


if "own" in sys.argv:
    trained(Own(), keras.optimizers.Adafactor())
else:
    frozen = keras.layers.Dense(16, trainable=False)
    layers = [keras.Input((32,)), frozen, keras.layers.Dense(1)]
    trained(keras.Sequential(layers), "adam")
    trained(keras.Sequential([keras.Input((32,)), keras.layers.Dense(1)]), "sgd")
"""
LIMIT = 256 << 20
FROZEN, TRAINED = 32 * 16 + 16, 16 + 1


def needs_of(told: AttemptOutcome) -> list[StepNeeds]:
    """What was told, in order."""
    assert told.code == 0, told.err
    found: list[Any] = [
        StepNeeds.from_json(one) for one in told.of(RecordKind.STEP_NEEDS)
    ]
    assert None not in found
    return found


def check_variables(before: StepNeeds, after: StepNeeds) -> None:
    """Counted after as was said before."""
    for one in (before, after):
        assert (one.fit, one.batch, one.slices) == (0, 8, 1)
        assert one.parameters == FROZEN + TRAINED
        assert one.trained == TRAINED
        assert one.parameter_bytes == 4 * one.parameters
        assert one.trained_bytes == 4 * one.trained
        assert one.largest_bytes == 4 * 16
        assert one.optimizer == "Adam"
        assert one.limit_bytes == LIMIT
    state, made = before.optimizer_bytes, after.optimizer_bytes
    assert state is not None
    assert made is not None
    assert 8 * TRAINED <= state <= made <= 8 * TRAINED + 40
    assert before.peak_bytes is before.in_use_bytes is None


@pytest.mark.parametrize("steps", [pytest.param(1, marks=pytest.mark.slow), 8])
def test_before_and_after(tmp_path: Path, zygote: Zygote, steps: int) -> None:
    """Of the first call alone, and before a validation adds to the peak."""
    attempts = Attempts(tmp_path, zygote=zygote)
    told = attempts.run(
        attempts.script(SCRIPT),
        str(steps),
        environment={"TF_CPU_ALLOCATOR_USE_BFC": "true"},
        memory_limit_bytes=LIMIT,
    )
    before, after = needs_of(told)
    check_variables(before, after)
    assert after.in_use_bytes is not None
    assert after.peak_bytes is not None
    assert 0 < after.in_use_bytes <= after.peak_bytes < LIMIT
    kinds = [one.kind for one in told.records]
    if steps == 1:
        last = len(kinds) - 1 - kinds[::-1].index(RecordKind.STEP_NEEDS)
        assert last < kinds.index(RecordKind.EPOCH_ENDED)


@pytest.mark.slow
def test_a_model_that_its_first_step_builds(tmp_path: Path, zygote: Zygote) -> None:
    """Nothing is known of it before."""
    attempts = Attempts(tmp_path, zygote=zygote)
    (after,) = needs_of(
        attempts.run(
            attempts.script(SCRIPT),
            "8",
            "own",
            environment={"TF_CPU_ALLOCATOR_USE_BFC": "true"},
            memory_limit_bytes=LIMIT,
        )
    )
    assert after.parameters == after.trained == 33
    assert after.optimizer_bytes


def test_without_a_limit_nothing_is_told(tmp_path: Path, zygote: Zygote) -> None:
    """Nor anything looked at."""
    attempts = Attempts(tmp_path, zygote=zygote)
    assert not needs_of(attempts.run(attempts.script(SCRIPT), "8"))


@pytest.mark.parametrize("name", ["jax", "torch"])
def test_variables_on_other_backends(tmp_path: Path, name: str) -> None:
    """On a CPU no allocator tells of a peak: that stays unknown."""
    place = OTHER_BACKENDS if name == "jax" else TORCH
    if not place.is_dir():
        pytest.skip(f"{name} is not here")
    attempts = Attempts(tmp_path)
    environment = {"KERAS_BACKEND": name, "PYTHONPATH": str(place)}
    before, after = needs_of(
        attempts.run(
            attempts.script(SCRIPT),
            "8",
            environment=environment,
            memory_limit_bytes=LIMIT,
        )
    )
    check_variables(before, after)
    assert (after.backend, after.peak_bytes) == (name, None)
