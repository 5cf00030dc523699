"""A ``fit`` of Keras on PyTorch in slices: killed, resumed, out of memory."""

import json
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.messages.directive import EXIT_REFUSED
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.command import Trainwarden
from tests.support.zygote import TORCH

pytestmark = pytest.mark.skipif(
    not TORCH.is_dir(),
    reason="make .venv/torch-backend installs PyTorch; it is not here",
)

SCRIPT = """
import hashlib, json, os, sys
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np

die = os.environ.get("DIE")
layers = keras.layers

class Killed(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        seen.append(batch)
        if die and len(seen) == int(die):
            os.kill(os.getpid(), 9)

seen = []
keras.utils.set_random_seed(3)
x = np.random.default_rng(1).random((64, 8), "float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([layers.Dense(8, "relu"), *[@LAYERS@], layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
found = model.fit(x, y, batch_size=10, epochs=4, verbose=0, callbacks=[Killed()],
                  validation_data=(x[:20], y[:20]))
total = hashlib.sha256()
for one in [*model.variables, *model.optimizer.variables]:
    total.update(np.asarray(one).tobytes())
print(json.dumps({
    "weights": total.hexdigest(), "history": found.history,
    "tensorflow": "tensorflow" in sys.modules,
}))
"""
NOISY = "layers.BatchNormalization(), layers.Dropout(0.3)"
OUT_OF_MEMORY = """
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
import torch

most = int(os.environ["MOST"])

class Hungry(keras.layers.Layer):
    def call(self, inputs):
        if inputs.device.type != "meta" and len(inputs) > most:
            raise torch.OutOfMemoryError(
                "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity"
                " of 4.00 GiB of which 1.00 GiB is free.")
        return inputs

    def compute_output_shape(self, shape):
        return shape

class Died(keras.callbacks.Callback):
    epoch = 0

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if "DIES" in os.environ and self.epoch == 2 and not os.path.exists("died"):
            open("died", "w").close()
            os.kill(os.getpid(), 9)

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(330, 64)).astype("float32")
inputs = keras.Input((64,))
hidden = Hungry()(keras.layers.Dense(32, activation="relu")(inputs))
model = keras.Model(inputs, keras.layers.Dense(1)(hidden))
model.compile("adam", "mse")
found = model.fit(x, x[:, :1], batch_size=100, epochs=4, verbose=0, callbacks=[Died()])
print("losses", found.history["loss"])
"""


@pytest.fixture(autouse=True)
def on_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts find PyTorch, and no TensorFlow."""
    package = tmp_path / "none" / "tensorflow"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('there is none')")
    monkeypatch.setenv("PYTHONPATH", f"{package.parent}:{TORCH}")


def attempts_of(place: Path, **options: Any) -> Attempts:
    """A run in slices of 4."""
    told = {"snapshot_every_steps": 2, "slice_size": 4, "allow_inexact": True}
    return Attempts(place, {**told, **options})


def run(
    place: Path, layers: str = "", *, deaths: Iterable[int] = (), **options: Any
) -> AttemptOutcome:
    """The last attempt of a run that died after these steps of an attempt."""
    attempts = attempts_of(place, **options)
    script = attempts.script(SCRIPT.replace("@LAYERS@", layers))
    for at in deaths:
        died = attempts.run(script, environment={"DIE": str(at)})
        assert died.code == -signal.SIGKILL, died.err
    return attempts.run(script)


def test_a_killed_fit_in_slices_ends_with_the_same_bits(tmp_path: Path) -> None:
    """Three times, with statistics and draws in its layers: as one that nobody disturbed,
    in the same slices."""
    alone = run(tmp_path / "alone", NOISY)
    last = run(tmp_path / "killed", NOISY, deaths=(3, 8, 11))
    assert last.of("restored")
    assert (last.code, last.out) == (0, alone.out), last.err
    (record,) = last.of("microbatch")
    assert (record["batch"], record["slices"], record["size"]) == (10, 3, 4)
    said = " ".join(record["deviations"])
    assert "(BatchNormalization) keeps statistics" in said
    assert "(Dropout) draws random numbers" in said
    assert last.page.slices == 3
    assert not json.loads(last.out)["tensorflow"]


def test_slices_see_the_samples_that_whole_batches_see(tmp_path: Path) -> None:
    """The shuffles are those of a run that is not sliced: its losses, but for rounding."""
    whole = json.loads(run(tmp_path / "whole", slice_size=None).out)["history"]
    sliced = json.loads(run(tmp_path / "sliced").out)["history"]
    assert sliced.keys() == whole.keys()
    for name, values in whole.items():
        assert sliced[name] == pytest.approx(values, rel=1e-5), name


def test_inexact_slices_are_refused_where_the_spec_forbids_them(tmp_path: Path) -> None:
    """The sentence names the layer."""
    done = run(tmp_path / "refused", NOISY, allow_inexact=False)
    assert done.code == EXIT_REFUSED
    (refused,) = done.of("refused")
    assert "(BatchNormalization) keeps statistics" in refused["sentence"]


def test_out_of_memory_on_torch_goes_on_in_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slice is halved until it fits, as a CPU's allocator tells nothing; killed then,
    it is resumed in the same slices, and confirmed is what was done against memory."""
    trainwarden = Trainwarden(tmp_path, tmp_path / "state")
    script = trainwarden.script(OUT_OF_MEMORY)

    def losses(said: str) -> list[float]:
        (line,) = [one for one in said.splitlines() if one.startswith("losses")]
        found: list[float] = json.loads(line.removeprefix("losses"))
        return found

    monkeypatch.setenv("MOST", "1000")
    whole = trainwarden("run", "--name", "whole", script)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    monkeypatch.setenv("MOST", "30")
    monkeypatch.setenv("DIES", "1")
    done = trainwarden("run", "--name", "sliced", script)
    assert done.returncode == 0, done.stdout + done.stderr
    incidents = trainwarden.json("incidents", "sliced")
    assert [(one["cause"], one["remedy"]["kind"]) for one in incidents] == [
        ("device_oom", "microbatch"),
        ("device_oom", "microbatch"),
        ("preempted", "restart"),
    ]
    status = trainwarden.status("sliced")
    assert status is not None
    confirmed = status["overrides"], status["asked"], status["unmet"]
    assert confirmed == ({"slices": 4}, {}, {})
    assert status["microbatch"] == {"slices": 4, "size": 25}
    expected = losses(whole.stdout + whole.stderr)
    assert losses(done.stdout + done.stderr) == pytest.approx(expected, rel=1e-5)
    assert (tmp_path / "died").exists()
