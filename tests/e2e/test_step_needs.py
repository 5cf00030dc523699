"""A run under a limit tells what a step needs, as an estimate would; and that none fits."""

import json
from typing import Any

import pytest

from tests.support.command import PATIENCE, Trainwarden

SCRIPT = """
import time
import keras, numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((2048, 1024), "float32")
layers = [keras.layers.Dense(2048, "relu") for _ in range(4)]
model = keras.Sequential([keras.Input((1024,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
model.fit(x, x[:, :1], batch_size=512, epochs=1, verbose=0)
"""
TOO_LARGE = """
import keras, numpy as np

x = np.zeros((64, 2048), "float32")
layers = [keras.layers.Dense(2048) for _ in range(6)]
model = keras.Sequential([keras.Input((2048,)), *layers, keras.layers.Dense(1)])
model.compile("adam", "mse", jit_compile=False)
model.fit(x, x[:, :1], batch_size=8, epochs=1, verbose=0)
"""


def in_parts(found: dict[str, Any]) -> dict[str, int]:
    """By their names."""
    return {one["name"]: one["bytes"] for one in found["parts"]}


@pytest.mark.slow
def test_a_run_tells_what_an_estimate_says(trainwarden: Trainwarden) -> None:
    """The parts add up to the peak that was measured, and are those of an estimate of the
    same script."""
    script = trainwarden.script(SCRIPT)
    done = trainwarden("run", "--cpu-memory", "900MiB", script)
    assert done.returncode == 0, done.stderr
    (job,) = trainwarden.json("status")
    told = job["step_needs"]
    parts = in_parts(told)
    assert sum(parts.values()) == told["peak_bytes"]
    assert told["peak_bytes"] <= job["run_peak_bytes"]
    assert (told["batch"], told["fit"], told["slices"]) == (512, 0, 1)
    assert 512 <= told["largest_batch"] <= 1024
    assert "a step of the first fit needs parameters" in trainwarden("status").stdout
    asked = trainwarden("estimate", "--json", "--memory-limit", "900MiB", script)
    assert asked.returncode == 0, asked.stderr
    estimate = json.loads(asked.stdout)
    assert told["peak_bytes"] == pytest.approx(estimate["peak_bytes"], rel=0.1)
    said = in_parts(estimate)
    assert parts["parameters"] == said["parameters"]
    assert parts["optimizer"] == said["optimizer"]
    step = said["gradients"] + said["activations"] + said["workspace"]
    assert parts["gradients"] + parts["activations"] == pytest.approx(step, rel=0.2)


@pytest.mark.slow
def test_that_no_batch_fits_is_told_before_memory_runs_out(
    trainwarden: Trainwarden,
) -> None:
    """Weights of 96 MiB fit; what the optimizer keeps for them does not."""
    script = trainwarden.script(TOO_LARGE)
    spec = trainwarden.directory / "spec.toml"
    spec.write_text(f'script = "{script}"\n[restart]\nwithout_progress = 0\n')
    process = trainwarden.start("run", "--cpu-memory", "200MiB", "--spec", str(spec))
    said, _ = process.communicate(timeout=PATIENCE)
    told = (
        "parameters, gradients and Adam's state need 384 MiB, and the limit is 200 MiB"
    )
    assert f"{told}: no batch fits" in said, said
    assert said.index(told) < said.index("attempt 1 failed"), said
    first = trainwarden.json("incidents")[0]
    assert first["cause"] == "device_oom"
    page = " ".join(trainwarden("explain", str(first["id"])).stdout.split())
    assert "gradients together take 384 MiB of 200 MiB" in page, page
