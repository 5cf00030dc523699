"""What a callback keeps in lists, tuples and dictionaries is the same thing afterwards.

A copy of a model's variable is no longer trained, and a variable that stands only in a
list of the script's own must stay the one that its functions were made with.
"""

import signal
from pathlib import Path

import pytest

from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote

SCRIPT = '''
import json, os, signal
import numpy as np
import keras
import tensorflow as tf
from trainers.process import attempt_reporting as attempt

def value(variables):
    return [np.asarray(one).tolist() for one in variables]

class Ema(keras.callbacks.Callback):
    """Averages the weights in variables of its own, kept in each kind of container."""
    def on_train_begin(self, logs=None):
        self.weights = self.model.trainable_variables
        self.shadow = [tf.Variable(one) for one in self.weights]
        self.sums = tuple(tf.Variable(tf.zeros_like(one)) for one in self.weights)
        self.by_name = {str(i): [keras.Variable(one), {"twice": tf.Variable(one)}]
                        for i, one in enumerate(self.weights)}
        self.turn, self.count = [self.weights[0]], 0
        pairs = [*zip(self.weights, self.shadow)]
        @tf.function
        def average():
            for weight, mean in pairs:
                mean.assign(0.9 * mean + 0.1 * weight)
        self.average = average
        self.kept = [*self.shadow, *self.sums]
    def on_train_batch_end(self, batch, logs=None):
        self.average()
        for index, (weight, total) in enumerate(zip(self.weights, self.sums)):
            total.assign_add(weight)
            one, inner = self.by_name[str(index)]
            one.assign(0.5 * one + weight)
            inner["twice"].assign(inner["twice"] * 0.5 + weight)
        self.count += 1
        self.turn = [self.weights[self.count % len(self.weights)]]
        if os.environ.get("DIE") == str(self.count):
            attempt.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)

keras.utils.set_random_seed(7)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
model = keras.Sequential([
    keras.Input((4,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.05), "mse")
ema = Ema()
model.fit(x, x.sum(1), batch_size=16, epochs=4, verbose=0, callbacks=[ema])
weights = model.trainable_variables
with open("result.json", "w") as file:
    json.dump({
        "shadow": value(ema.shadow), "sums": value(ema.sums), "turn": value(ema.turn),
        "by_name": [value([a, b["twice"]]) for a, b in ema.by_name.values()],
        "weights": value(weights), "count": ema.count,
        "same": [
            all(a is b for a, b in zip(ema.weights, weights, strict=True)),
            any(ema.turn[0] is one for one in weights),
            all(a is b for a, b in zip(ema.kept, [*ema.shadow, *ema.sums], strict=True)),
        ],
    }, file)
'''


@pytest.mark.slow
def test_an_average_of_the_weights_goes_on(tmp_path: Path, zygote: Zygote) -> None:
    """Lists, tuples and dictionaries of variables: the same values as undisturbed, and
    the same variables as the model's and as the functions that change them."""
    whole = Attempts(tmp_path / "whole", zygote=zygote)
    undisturbed = whole.run(whole.script(SCRIPT), plain=True)
    assert undisturbed.code == 0, undisturbed.err
    torn = Attempts(tmp_path / "torn", {"snapshot_every_steps": 3}, zygote=zygote)
    script = torn.script(SCRIPT)
    one = torn.run(script, environment={"DIE": "8"})
    last = torn.run(script)
    assert (one.code, last.code) == (-signal.SIGKILL, 0), last.err
    expected = read_result(whole.directory / "result.json")
    assert expected["same"] == [True, True, True]
    assert read_result(torn.directory / "result.json") == expected
