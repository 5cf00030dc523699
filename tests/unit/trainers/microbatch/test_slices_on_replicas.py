"""Slices on several devices of one process: each works through its part of the batch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.oom import LIMIT
from tests.support.zygote import Zygote

HEAD = """
import json
import keras, numpy as np, tensorflow as tf
from keras import layers

cpus = tf.config.list_physical_devices("CPU")
parts = [tf.config.LogicalDeviceConfiguration()] * 2
tf.config.set_logical_device_configuration(cpus[0], parts)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
loss = keras.losses.BinaryCrossentropy(from_logits=True)
keras.utils.set_random_seed(3)


def samples(n, width):
    x = np.random.default_rng(0).normal(size=(n, width)).astype("float32")
    return x, (x.sum(1) > 0).astype("float32")
"""
MODEL = """
x, y = samples(430, 16)
with strategy.scope():
    model = keras.Sequential([
        keras.Input((16,)), layers.Dense(32, "relu", kernel_regularizer="l2"),
        layers.Dropout(0.3), layers.Dense(8, "tanh", activity_regularizer="l2"),
        layers.Dense(1),
    ])
    model.compile(OPTIMIZER, loss, metrics=["accuracy", "auc"])
"""
FIT = """
history = model.fit(x, y, batch_size=48, epochs=2, verbose=0)
weights = [one.tolist() for one in model.get_weights()]
print(json.dumps([weights, history.history, int(model.optimizer.iterations.numpy())]))
"""
OWN_STEP = """
class Own(keras.Sequential):
    def train_step(self, data):
        return super().train_step(data)

with strategy.scope():
    model = Own(model.layers)
    model.compile("sgd", loss)
"""
LARGE = """
x, y = samples(512, 64)
with strategy.scope():
    given = last = keras.Input((64,))
    for _ in range(6):
        last = layers.Dense(16384, "relu", kernel_initializer="zeros")(last[:, :16])
    model = keras.Model(given, layers.Dense(1)(last[:, :16]))
    model.compile("sgd", loss, jit_compile=False)
model.fit(x, y, batch_size=512, epochs=12, verbose=0)
"""


def run(directory: Path, zygote: Zygote, text: str, **asked: Any) -> AttemptOutcome:
    """An attempt of this script that is asked for slices."""
    attempts = Attempts(directory, asked, zygote=zygote)
    return attempts.run(attempts.script(HEAD + text))


@pytest.mark.parametrize(
    "optimizer", ["sgd", pytest.param("adam", marks=pytest.mark.slow)]
)
def test_slices_agree_with_the_whole_batch(
    tmp_path: Path, zygote: Zygote, optimizer: str
) -> None:
    """The same updates from sums in another order: dropout, regularizers, metrics, and a
    short last batch of which one device has more than the other."""
    text = MODEL.replace("OPTIMIZER", repr(optimizer)) + FIT
    whole = run(tmp_path / "whole", zygote, text)
    sliced = run(tmp_path / "sliced", zygote, text, slice_size=7)
    assert whole.code == sliced.code == 0, sliced.err[-3000:]
    (said,) = sliced.of(RecordKind.MICROBATCH)
    assert (said["batch"], said["slices"], said["size"]) == (24, 4, 6)
    assert said["deviations"] == []
    (weights, history, updates), (mine, my_history, my_updates) = (
        json.loads(one.out) for one in (whole, sliced)
    )
    assert my_updates == updates == 18
    for expected, found in zip(weights, mine, strict=True):
        scale = np.max(np.abs(expected)) + 1e-12
        assert np.max(np.abs(np.subtract(expected, found))) / scale < 1e-5
    for name, values in history.items():
        np.testing.assert_allclose(my_history[name], values, rtol=1e-5)


SYNCHRONIZED = """
with strategy.scope():
    norm = layers.BatchNormalization(synchronized=True, name="norm")
    model = keras.Sequential([keras.Input((16,)), norm, layers.Dense(1)])
    model.compile("sgd", loss)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (SYNCHRONIZED + FIT, "the layer norm adds up over all devices within a step"),
        (
            FIT.replace("history = ", "with strategy.scope():\n    history = "),
            "scope of",
        ),
        (OWN_STEP + FIT, "several devices cannot make an update for each part"),
    ],
)
def test_what_cannot_be_sliced_is_told(
    tmp_path: Path, zygote: Zygote, change: str, told: str
) -> None:
    """It trains on with whole batches."""
    text = MODEL.replace("OPTIMIZER", "'sgd'") + change
    found = run(tmp_path, zygote, text, slice_size=7, reduce="linear")
    assert found.code == 0, found.err[-3000:]
    sentences = [one["sentence"] for one in found.of(RecordKind.NOTICE)]
    assert [one for one in sentences if told in one], sentences
    assert not found.of(RecordKind.MICROBATCH)


@pytest.mark.slow
def test_a_real_shortage_is_answered(tmp_path: Path) -> None:
    """The whole batch fails in the allocator; the first steps of the next attempt look
    for the largest slices that fit, and it ends."""
    attempts = Attempts(tmp_path, {"memory_limit_bytes": LIMIT})
    script = attempts.script(HEAD + LARGE)
    environment = {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT // 2**20),
        "TF_ENABLE_ONEDNN_OPTS": "0",
    }
    failed = attempts.run(script, environment=environment)
    assert failed.code != 0
    assert "OOM when allocating tensor" in failed.err
    asked = {"slice_size": 256, "slice_ceiling": 512, "calibrate": True}
    found = attempts.run(script, environment=environment, **asked)
    assert found.code == 0, found.err[-3000:]
    said = found.of(RecordKind.MICROBATCH)
    sizes = [one["size"] for one in said]
    assert len(sizes) > 2
    assert sizes == sorted(sizes)  # each that was tried has fitted
    assert sizes[-1] < 256
    assert {one["batch"] for one in said} == {256}  # one device's part
