"""State that Keras does not count among a model's variables, and the step changes."""

import signal
from pathlib import Path

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote

SCRIPT = '''
import json, os, signal
import numpy as np
import keras
import tensorflow as tf
from trainers.process import attempt_reporting as attempt

class Die(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.count, self.losses = 0, []
    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.losses.append(float(logs["loss"]))
        if os.environ.get("DIE") == str(self.count):
            attempt.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)

class Noise(keras.layers.Layer):
    """Draws from TensorFlow's generator, and counts in a variable of TensorFlow."""
    def __init__(self):
        super().__init__()
        self.draws = tf.random.Generator.from_seed(3)
        self.calls = tf.Variable(0.0)
        self.kept = tf.Variable(0.1, trainable=False)
    def call(self, inputs):
        self.calls.assign_add(1.0)
        noise = self.draws.normal(tf.shape(inputs))
        return inputs + self.kept * noise + 0.01 * self.calls

outside = tf.Variable(0.0)

class Pair(keras.Model):
    """A model inside is compiled, and trained by its own optimizer."""
    def __init__(self):
        super().__init__()
        self.noise = Noise()
        self.inner = keras.Sequential([keras.layers.Dense(4, "tanh")])
        self.inner.compile(keras.optimizers.Adam(0.02))
        self.last = keras.layers.Dense(1)
        self.draws = tf.random.Generator.from_seed(4)
    def call(self, inputs):
        return self.last(self.inner(self.noise(inputs)))
    def train_step(self, data):
        x, y = data
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((self(x) - y + 0.1 * self.draws.normal([1])) ** 2)
        for optimizer, part in ((self.optimizer, self.last),
                                (self.inner.optimizer, self.inner)):
            weights = part.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        outside.assign_add(1.0)
        return {"loss": loss}

keras.utils.set_random_seed(7)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
model = Pair()
model.compile(keras.optimizers.SGD(0.05, 0.9))
die = Die()
model.fit(x, x.sum(1, keepdims=True), batch_size=16, epochs=4, verbose=0,
    callbacks=[die])
with open("result.json", "w") as file:
    json.dump({
        "losses": die.losses, "calls": float(model.noise.calls),
        "outside": float(outside),
        "draws": [g.state.numpy().tolist() for g in (model.draws, model.noise.draws)],
        "variables": [np.asarray(v).tolist() for v in [*model.variables,
            *model.optimizer.variables, *model.inner.optimizer.variables]],
    }, file)
'''


def promises(attempts: Attempts, **more: str) -> tuple[int, list[str]]:
    """An attempt: its exit code, and why it promised no bits."""
    outcome = attempts.run(attempts.script(SCRIPT), environment=more)
    told = [r["sentence"] for r in outcome.of(RecordKind.PROMISE) if not r["bits"]]
    return outcome.code, told


def test_generators_raw_variables_and_the_optimizer_of_a_model_inside(
    tmp_path: Path,
    zygote: Zygote,
) -> None:
    """They go on where they were, and bits are promised, and so does a variable that
    only the script has."""
    whole = Attempts(tmp_path / "whole", zygote=zygote)
    undisturbed = whole.run(whole.script(SCRIPT), plain=True)
    assert undisturbed.code == 0, undisturbed.err
    torn = Attempts(tmp_path / "torn", {"snapshot_every_steps": 3}, zygote=zygote)
    assert promises(torn, DIE="8") == (-signal.SIGKILL, [])
    assert promises(torn) == (0, [])
    expected = read_result(whole.directory / "result.json")
    assert read_result(torn.directory / "result.json") == expected
