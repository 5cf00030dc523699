"""The training process says which parts of its directive are in force, as values."""

from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts

MIXED = "mixed_bfloat16"
SCRIPT = """
import importlib.util, os, sys
importlib.util.find_spec("tensorflow"), importlib.util.find_spec("keras")
{before}
import keras
import numpy as np
{after}
layers = [keras.Input((2,)), keras.layers.Dense(4{options}), keras.layers.Dense(1{options})]
model = keras.Sequential(layers)
model.compile(keras.optimizers.SGD({rate}), "mse")
x = np.ones((16, 2), "float32")
model.fit(x, x[:, :1], batch_size=4, verbose=0)
"""
ASKED: dict[str, Any] = {
    "precision": MIXED,
    "deterministic": True,
    "variables": {
        "TF_DETERMINISTIC_OPS": "1",
        "XLA_FLAGS": "--xla_gpu_autotune_level=0",
    },
    "visible_gpus": ("GPU-1", "GPU-2"),
    "gpu_memory_limit_bytes": 2**30,
    "skip": (1, 2),
    "rate_factor": 0.5,
    "restore_before_step": 3,
}
ENVIRONMENT = {
    "TF_DETERMINISTIC_OPS": "1",
    "XLA_FLAGS": "--xla_cpu_enable_fast_min_max=false --xla_gpu_autotune_level=0",
    "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-2",
}


def run(directory: Path, **parts: str) -> AttemptOutcome:
    """The script with these parts, asked for everything."""
    attempts = Attempts(directory, ASKED)
    known = {"before": "", "after": "", "options": "", "rate": "0.1", **parts}
    script = attempts.script(SCRIPT.format(**known))
    outcome = attempts.run(script, environment=ENVIRONMENT)
    assert outcome.code == 0, outcome.err
    return outcome


def applied(outcome: AttemptOutcome) -> dict[str, bool]:
    """By the last word on each: whether it is in force when the first step is made."""
    kinds = [record.kind for record in outcome.records]
    known = outcome.records[: kinds.index(RecordKind.FIRST_STEP)]
    words = [record.fields for record in known if record.kind == RecordKind.APPLIED]
    return {word["name"]: word["asked"] == word["found"] for word in words}


def test_what_was_asked_for_is_confirmed(tmp_path: Path) -> None:
    """Though the script looks for TensorFlow before it imports it; but for the limit of
    a GPU where there is none."""
    outcome = run(tmp_path)
    names = {*ASKED, *ASKED["variables"]} - {"variables"}
    expected = dict.fromkeys(names, True) | {"gpu_memory_limit_bytes": False}
    assert applied(outcome) == expected


@pytest.mark.parametrize(
    ("parts", "denied"),
    [
        ({"after": "keras.config.set_dtype_policy('float32')"}, {"precision"}),
        pytest.param(
            {"options": ", dtype='float32'"}, {"precision"}, marks=pytest.mark.slow
        ),
        pytest.param(
            {
                "before": "os.environ['CUDA_VISIBLE_DEVICES'] = '-1'\n"
                "del os.environ['XLA_FLAGS']",
                "rate": "keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.9)",
            },
            {"visible_gpus", "XLA_FLAGS", "rate_factor"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_the_script_says_itself_is_denied(
    tmp_path: Path, parts: dict[str, str], denied: set[str]
) -> None:
    """A policy of its own, for all or for each layer; its own environment; a schedule."""
    found = applied(run(tmp_path, **parts))
    assert {name for name, holds in found.items() if not holds} == {
        "gpu_memory_limit_bytes",
        *denied,
    }


@pytest.mark.slow
def test_nothing_is_said_of_what_nobody_asked_for(tmp_path: Path) -> None:
    """An attempt without remedies has no such records."""
    attempts = Attempts(tmp_path)
    known = {"before": "", "after": "", "options": "", "rate": "0.1"}
    outcome = attempts.run(attempts.script(SCRIPT.format(**known)))
    assert outcome.of(RecordKind.APPLIED) == []
