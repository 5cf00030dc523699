"""A step that runs out of memory on a ``tf.data`` pipeline goes on in slices."""

import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import keras, numpy as np, tensorflow as tf
from keras import layers

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(500, 32, 32, 3)).astype("float32")
y = (x.mean(axis=(1, 2, 3)) > 0).astype("float32")
pipeline = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(256)
model = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(48, 3, padding="same", activation="relu"),
    layers.Conv2D(16, 3, padding="same", activation="relu"),
    layers.GlobalAveragePooling2D(), layers.Dense(1),
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(pipeline, epochs=1, verbose=2)
print("iterations", int(model.optimizer.iterations.numpy()))
"""


@pytest.mark.slow
def test_out_of_memory_on_a_pipeline(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shapes leave the batch open (no drop_remainder): it is known all the same,
    before the first step has died. Samples are counted without those that the short last
    batch lacks."""
    monkeypatch.setenv("TF_ENABLE_ONEDNN_OPTS", "1")  # dies of SIGSEGV, at once
    script = trainwarden.script(SCRIPT)
    done = trainwarden("run", "--cpu-memory", "128MiB", script)
    assert done.returncode == 0, done.stdout + done.stderr
    (incident,) = trainwarden.json("incidents")
    assert incident["cause"] == "device_oom"
    assert incident["remedy"]["kind"] == "microbatch"
    status = trainwarden.status()
    assert status is not None
    assert (status["attempt"], status["effective_batch"]) == (2, 256)
    assert status["microbatch"]["slices"] > 1
    assert status["samples"] == 500
    log = max(trainwarden.state.rglob("output.log")).read_text()
    assert "iterations 2" in log
