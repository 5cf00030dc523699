"""A script that looks for TensorFlow before it imports it, as transformers does."""

import signal
from pathlib import Path

import pytest

from tests.support.attempts import Attempts, read_result

SCRIPT = """
import importlib.util, json, os, signal
for name in ("tensorflow", "keras", "tensorflow", "keras"):
    assert importlib.util.find_spec(name) is not None
import tensorflow as tf
import keras
import numpy as np

class Count(keras.layers.Layer):
    '''Counts how often it is shown each of 400 samples.'''
    def build(self, shape):
        self.seen = self.add_weight(shape=(400,), initializer="zeros", trainable=False)
    def call(self, x):
        index = tf.cast(x * 400, tf.int32)
        ones = tf.ones_like(x[:, 0])
        self.seen.assign(tf.tensor_scatter_nd_add(self.seen.value, index, ones))
        return x

class Watch(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.epochs = []
    def on_train_batch_end(self, batch, logs=None):
        if os.environ.get("KILL") and (len(self.epochs), batch) == (1, 11):
            os.kill(os.getpid(), signal.SIGKILL)
    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(sorted(set(counter.seen.numpy().tolist())))
        counter.seen.assign(tf.zeros((400,)))

counter, watch = Count(), Watch()
start = keras.initializers.GlorotUniform(3)
model = keras.Sequential([counter, keras.layers.Dense(1, kernel_initializer=start)])
model.compile("adam", "mse")
ids = (np.arange(400, dtype="float32")[:, None] + 0.5) / 400
data = tf.data.Dataset.from_tensor_slices((ids, ids)).shuffle(400).batch(20)
model.fit(data, epochs=3, verbose=0, callbacks=[watch])
with open("result.json", "w") as file:
    weights = [v.numpy().tobytes().hex() for v in model.variables]
    json.dump({"weights": weights, "times": watch.epochs}, file)
"""


@pytest.mark.slow
def test_looked_for_and_killed(tmp_path: Path) -> None:
    """Killed in the middle of an epoch it ends bit-identical, and sees each sample once
    in each epoch, though its shuffle has no seed."""
    results = []
    for name, kills in (("whole", ()), ("torn", ("yes",))):
        attempts = Attempts(tmp_path / name, {"snapshot_every_steps": 4})
        script = attempts.script(SCRIPT)
        for _ in kills:
            outcome = attempts.run(script, environment={"KILL": "yes"})
            assert outcome.code == -signal.SIGKILL, outcome.err
        outcome = attempts.run(script)
        assert outcome.code == 0, outcome.err
        results.append(read_result(attempts.directory / "result.json"))
    whole, torn = results
    assert torn["times"] == [[1.0]] * 3
    assert torn == whole
