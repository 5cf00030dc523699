"""``trainwarden estimate``: a script of somebody's own, measured before its first step."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

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


@pytest.fixture(autouse=True)
def _one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations, in estimates and in real trainings: which run side by side, each with its
    buffers, is another thing on a busy machine."""
    monkeypatch.setenv("TF_NUM_INTEROP_THREADS", "1")


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


STRATEGY = """
import sys
import keras, numpy as np, tensorflow as tf
names = [f"CPU:{number}" for number in range(int(sys.argv[1]))]
(cpu,) = tf.config.list_physical_devices("CPU")
parts = [tf.config.LogicalDeviceConfiguration()] * len(names)
tf.config.set_logical_device_configuration(cpu, parts)
keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((200, 512), "float32")
with tf.distribute.MirroredStrategy(names).scope():
    model = keras.Sequential([
        keras.Input((512,)), keras.layers.Dense(2048, "relu"), keras.layers.Dense(1)
    ])
    model.compile("adam", "mse")
model.fit(x, x[:, :1], batch_size=64, epochs=20, verbose=0)
"""


@pytest.mark.slow
def test_several_devices_are_measured_together(trainwarden: Trainwarden) -> None:
    """All of one memory, each with its copy of the variables; smaller batches have samples
    for each, and of GPUs nothing is said. One device of a strategy is estimated as any."""
    script = trainwarden.script(STRATEGY)
    done = trainwarden("estimate", "--json", script, "2")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["devices"], found["batch"]) == (2, 64)
    assert all(one["size"] % 2 == 0 for one in found["trials"])
    assert found["model"]["parameter_bytes"] == 2 * 4 * (513 * 2048 + 2049)
    assert found["model"]["optimizer_bytes"] > 2 * found["model"]["parameter_bytes"]
    assert sum(part["bytes"] for part in found["parts"]) == found["peak_bytes"]
    assert not found["fits"]
    assert not found["common_gpus"]
    real = real_peak(trainwarden, str(script), "2")
    assert found["peak_bytes"] == pytest.approx(real, rel=0.15)
    done = trainwarden("estimate", "--batch", "32", script, "1")
    assert done.returncode == 0, done.stderr
    assert "a step of 32 samples" in done.stdout
    assert "the script's strategy has one device here" in done.stdout


LOOP = """
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((512, 1024), "float32")
data = tf.data.Dataset.from_tensor_slices(x).batch(128)
model = keras.Sequential([
    keras.Input((1024,)), keras.layers.Dense(2048, "relu"), keras.layers.Dense(1)
])
optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)

@tf.function
def step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch, training=True) ** 2)
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
"""
WITH_SESSION = f"""{LOOP}
from trainers.session import session
with session(model=model, optimizer=optimizer) as run:
    for number, batch in run.steps(data, epochs=100):
        step(batch)
        print("step", number, flush=True)
print("the end")
"""
WITHOUT_SESSION = f"""{LOOP}
for batch in data.repeat(100):
    step(batch)
print("the end")
"""


def of_a_loop(trainwarden: Trainwarden, text: str) -> Any:
    """The estimate of such a script; it is of this batch alone, and says so."""
    done = trainwarden("estimate", "--json", trainwarden.script(text))
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["batch"], len(found["trials"])) == (128, 1)
    assert found["model"]["own_steps"] > 4
    assert found["model"]["parameter_bytes"] == 4 * (1025 * 2048 + 2049)
    assert found["model"]["optimizer"] == "Adam"
    assert found["model"]["optimizer_bytes"] > 2 * found["model"]["parameter_bytes"]
    assert sum(part["bytes"] for part in found["parts"]) == found["peak_bytes"]
    assert any("of this batch alone" in note for note in found["notes"])
    assert any("were made to measure them" in note for note in found["notes"])
    assert not list(trainwarden.state.iterdir())
    return found


@pytest.mark.slow
def test_a_loop_of_the_script_s_own_is_measured_as_it_runs(
    trainwarden: Trainwarden,
) -> None:
    """By its first steps, as near as those of a ``fit``; without a session as well, where
    its step is compiled."""
    found = of_a_loop(trainwarden, WITH_SESSION)
    real = real_peak(trainwarden, str(trainwarden.directory / "train.py"))
    assert found["peak_bytes"] == pytest.approx(real, rel=0.1)
    without = of_a_loop(trainwarden, WITHOUT_SESSION)
    assert without["peak_bytes"] == pytest.approx(real, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("option", [("--batch", "64"), ("--jit",)])
def test_nothing_of_a_loop_can_be_changed(
    trainwarden: Trainwarden, option: tuple[str, ...]
) -> None:
    """A sentence and 1, before its first step."""
    done = trainwarden("estimate", *option, trainwarden.script(WITH_SESSION))
    assert done.returncode == 1, done.stdout
    assert f"it is estimated as it is, without {option[0]}" in done.stderr
    assert not done.stdout


@pytest.mark.parametrize(("text", "sentence"), UNMEASURABLE)
def test_what_cannot_be_estimated(
    trainwarden: Trainwarden, text: str, sentence: str
) -> None:
    """A sentence, 1, and not a step of training."""
    check_is_refused(trainwarden, "estimate", text, sentence)


@pytest.mark.slow
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
    # Where tracing takes the time, on a busy machine, the batch itself is tried at once.
    how = r"not measured: by the line through|measured \(tried: \d+, 512\)"
    assert re.search(rf"a step of 512 samples, ({how})", done.stdout), done.stdout
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
