"""``trainwarden estimate``: a script of somebody's own, measured before its first step."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.core.memory.step_estimate import StepEstimate
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory
from tests.support.command import PATIENCE, Trainwarden
from tests.support.unmeasurable import UNMEASURABLE, check_is_refused

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
from pathlib import Path
import keras
import numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((128, 64, 64, 3), "float32")
y = np.random.default_rng(2).integers(0, 10, 128)
model = keras.Sequential([
    keras.Input((64, 64, 3)),
    keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
    keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(10),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss, jit_compile="jit" in sys.argv)
print("the beginning")
try:
    model.fit(x, y, batch_size=64, epochs=3, verbose=0, callbacks=[
        keras.callbacks.CSVLogger("log.csv"),
        keras.callbacks.ModelCheckpoint("kept.keras"),
    ])
finally:
    Path("trained").touch()
"""


def real_peak(trainwarden: Trainwarden, script: str, *arguments: str) -> int:
    """Bytes that the allocator had in use at most in a real training."""
    command = [sys.executable, "-m", "tests.bench.estimate_trial", "20", "-", "4096"]
    done = subprocess.run(
        [*command, script, *arguments],
        cwd=trainwarden.directory,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("PEAK ")]
    assert found, done.stderr
    return int(found[0].split()[1])


@pytest.mark.parametrize(
    "arguments", [(), pytest.param(("jit",), marks=pytest.mark.slow)]
)
def test_the_estimate_is_near_the_peak_of_a_real_training(
    trainwarden: Trainwarden, arguments: tuple[str, ...]
) -> None:
    """And so is that by the smaller sizes alone; nothing was trained, no callback of the
    script's was called, and nothing is left in the state directory."""
    script = trainwarden.script(SCRIPT)
    done = trainwarden("estimate", "--json", script, *arguments)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    left = {path.name for path in trainwarden.directory.iterdir()}
    assert left == {"train.py", "state"}
    assert not list(trainwarden.state.iterdir())
    assert found["batch"] == found["measured_batch"] == 64
    assert found["jit"] == bool(arguments)
    if not found["fits"]:  # this machine has no GPU
        assert [one["fits"] for one in found["common_gpus"]] == [True] * 7
    assert sum(part["bytes"] for part in found["parts"]) == found["peak_bytes"]
    real = real_peak(trainwarden, str(script), *arguments)
    assert found["peak_bytes"] == pytest.approx(real, rel=0.15)
    model = ModelMemory.from_json(found["model"])
    steps = [StepMemory.from_json(one) for one in found["trials"]]
    assert model is not None
    smaller = StepEstimate(model=model, steps=tuple(filter(None, steps[:-1])))
    if smaller.scales:
        assert smaller.peak(64) == pytest.approx(real, rel=0.25)


@pytest.mark.parametrize(("text", "sentence"), UNMEASURABLE)
def test_what_cannot_be_estimated(
    trainwarden: Trainwarden, text: str, sentence: str
) -> None:
    """A sentence, 1, and not a step of training."""
    check_is_refused(trainwarden, "estimate", text, sentence)


def test_a_limit_and_another_batch(
    trainwarden: Trainwarden,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A person reads whether it fits, what would, and how it is known. Nothing is left, not
    what TensorFlow writes to trace a step, nor what an estimate left that was killed:
    4194304 is the highest number of a process."""
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setenv("TMPDIR", str(temporary))
    dead, alive = (
        trainwarden.state / f"estimate-{pid}-x" for pid in (4194305, os.getpid())
    )
    for one in (dead, alive):
        one.mkdir(parents=True)
    asked = ("--memory-limit", "128MiB", "--batch", "512", "--seconds", "1")
    done = trainwarden("estimate", *asked, trainwarden.script(SCRIPT))
    assert done.returncode == 0, done.stderr
    assert "a step of 512 samples, not measured: by the line through" in done.stdout
    assert "limit: a batch of 512 does not fit into 128 MiB: at most" in done.stdout
    assert "nothing was trained" in done.stdout
    assert list(trainwarden.state.iterdir()) == [alive]
    assert not list(temporary.iterdir())


def test_what_is_no_number_of_seconds(trainwarden: Trainwarden) -> None:
    """A sentence and 2, before anything is started."""
    for words in (("--seconds", "nan"), ("--patience", "nan")):
        refused = trainwarden("estimate", *words, "train.py")
        assert refused.returncode == 2
        assert "a number of seconds" in refused.stderr
