"""Variables that Keras makes only in the first step are there when a run goes on.

The models are those of Keras' own examples: a VAE that cannot be called, a GAN whose two
optimizers are its own. Nothing is built by hand.
"""

import signal
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote

SCRIPT = '''
import hashlib, json, os, random, signal
import numpy as np
import keras
import tensorflow as tf
from trainers.process import attempt_reporting as attempt

layers = keras.layers

class Die(keras.callbacks.Callback):
    """Dies after as many steps as the test asked for."""
    def __init__(self, name):
        super().__init__()
        self.name, self.count, self.losses = name, 0, []
    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.losses.append({name: float(value) for name, value in logs.items()})
        if os.environ.get("DIE") == f"{self.name}:{self.count}":
            attempt.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)

def digest(variables):
    total = hashlib.sha256()
    for variable in variables:
        total.update(np.asarray(variable).tobytes())
    return total.hexdigest()

class Vae(keras.Model):
    """Has no ``call``: its step is all there is."""
    def __init__(self):
        super().__init__()
        self.encoder = keras.Sequential([layers.Dense(8, "relu"), layers.Dense(4)])
        self.decoder = keras.Sequential([layers.Dense(8, "relu"), layers.Dense(6)])
        self.seeds = keras.random.SeedGenerator()
        self.total = keras.metrics.Mean(name="loss")
        self.traced = 0
    @property
    def metrics(self):
        return [self.total]
    def train_step(self, data):
        self.traced += 1
        with tf.GradientTape() as tape:
            mean, spread = tf.split(self.encoder(data), 2, axis=1)
            noise = keras.random.normal(tf.shape(mean), seed=self.seeds)
            again = self.decoder(mean + tf.exp(0.5 * spread) * noise)
            loss = tf.reduce_mean((data - again) ** 2) + 0.01 * tf.reduce_mean(
                mean**2 + tf.exp(spread) - spread - 1)
        grads = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(grads, self.trainable_weights))
        self.total.update_state(loss)
        return {"loss": self.total.result()}

class Gan(keras.Model):
    """Two networks with an optimizer each, set in its own ``compile``."""
    def __init__(self):
        super().__init__()
        self.critic = keras.Sequential([layers.Dense(8, "tanh"), layers.Dropout(0.2),
            layers.Dense(1)])
        self.maker = keras.Sequential([layers.Dense(8, "tanh"), layers.Dense(6)])
        self.seeds = keras.random.SeedGenerator(5)
    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.loss_fn = loss_fn
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")
    @property
    def metrics(self):
        return [self.d_loss, self.g_loss]
    def train_step(self, real):
        count = tf.shape(real)[0]
        def made():
            return self.maker(keras.random.normal((count, 3), seed=self.seeds))
        both = tf.concat([made(), real], 0)
        labels = tf.concat([tf.ones((count, 1)), tf.zeros((count, 1))], 0)
        with tf.GradientTape() as tape:
            d_loss = self.loss_fn(labels, self.critic(both, training=True))
        grads = tape.gradient(d_loss, self.critic.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.critic.trainable_weights))
        with tf.GradientTape() as tape:
            g_loss = self.loss_fn(tf.zeros((count, 1)), self.critic(made()))
        grads = tape.gradient(g_loss, self.maker.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.maker.trainable_weights))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}

keras.utils.set_random_seed(7)
x = np.random.default_rng(0).normal(size=(90, 6)).astype("float32")
vae = Vae()
vae.compile(keras.optimizers.Adam(0.01))
one = Die("vae")
h = vae.fit(x, batch_size=20, epochs=3, verbose=0, callbacks=[one])
gan = Gan()
gan.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.02, 0.9),
    keras.losses.BinaryCrossentropy(from_logits=True))
two = Die("gan")
data = tf.data.Dataset.from_tensor_slices(x).shuffle(90).batch(16)
g = gan.fit(data, epochs=3, verbose=0, callbacks=[two])
print("traced", vae.traced)
with open("result.json", "w") as file:
    json.dump({
        "vae": digest([*vae.variables, *vae.optimizer.variables, *vae.total.variables]),
        "gan": digest([*gan.variables, *gan.d_optimizer.variables,
            *gan.g_optimizer.variables]),
        "losses": [one.losses, two.losses], "history": [h.history, g.history],
        "random": [random.random(), float(np.random.rand()),
            float(tf.random.uniform([])), float(keras.random.uniform([]))],
    }, file)
'''


@pytest.mark.slow
def test_a_vae_without_call_and_a_gan_with_two_optimizers(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Each killed in the middle, and the first also given back whole: the end is that
    of plain Python, and the step was traced no more often than there."""
    whole = Attempts(tmp_path / "whole", zygote=zygote)
    undisturbed = whole.run(whole.script(SCRIPT), plain=True)
    assert undisturbed.code == 0, undisturbed.err
    torn = Attempts(tmp_path / "torn", {"snapshot_every_steps": 3}, zygote=zygote)
    script = torn.script(SCRIPT)
    one = torn.run(script, environment={"DIE": "vae:8"})
    two = torn.run(script, environment={"DIE": "gan:9"})
    last = torn.run(script)
    assert (one.code, two.code) == (-signal.SIGKILL, -signal.SIGKILL), two.err
    assert last.code == 0, last.err
    assert [r["step"] for r in two.of(RecordKind.RESTORED)] == [6]
    assert [(r["fit"], r["step"]) for r in last.of(RecordKind.RESTORED)] == [
        (0, 15),
        (1, 21),
    ]
    assert last.out == undisturbed.out
    expected = read_result(whole.directory / "result.json")
    assert read_result(torn.directory / "result.json") == expected
