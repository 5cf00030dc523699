"""What a callback makes in training is there when a run goes on, or is told of before that."""

import signal
from pathlib import Path

import pytest

from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote
from trainers.state.hidden.late_models import LATE

SCRIPT = """
import json, os, signal, sys
import keras, numpy as np, tensorflow as tf
from trainers.process import attempt_reporting as attempt

kind = sys.argv[1]
keras.utils.set_random_seed(3)
x = np.random.normal(size=(96, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)


def layers():
    return [keras.layers.Dense(3, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(1)]


class Own(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.layers.Dense(1)

    def call(self, batch):
        return self.inner(batch)


second = None
if kind in ("plain", "measured"):
    second = keras.Sequential(layers())
elif kind == "own":
    second = Own()
if second is not None:
    second.compile("adam", "mse", metrics=["mae"] if kind == "measured" else None)
layer, weight = keras.layers.Dense(2), tf.Variable([1.0, 2.0])
optimizer = keras.optimizers.Adam(0.1)
score = keras.metrics.F1Score()


class Makes(keras.callbacks.Callback):
    count, held, seen = 0, None, ()

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count >= 3:
            self.seen = [*self.seen, self.make(self.count)]
        if sys.argv[2] == str(self.count):
            attempt.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)

    def make(self, count):
        rows = slice(count % 80, count % 80 + 8)
        if second is not None:
            return np.ravel(second.train_on_batch(x[rows], y[rows])).tolist()
        if kind == "layer":
            layer(x[rows])
            layer.kernel.assign(layer.kernel * 1.01)
            return layer.kernel.numpy().tolist()
        if kind == "optimizer":
            optimizer.apply([weight * 0.1], [weight])
            return weight.numpy().tolist()
        if kind == "metric":
            score.update_state(y[rows] > 0, y[rows])
            return score.result().numpy().tolist()
        if kind == "generator":
            return float(tf.random.get_global_generator().normal([]))
        if kind == "compiled":
            if count == 5:
                self.model.layers[0].trainable = False
                self.model.compile(keras.optimizers.SGD(0.01, momentum=0.5), "mse")
                self.model.make_train_function(force=True)
            return float(np.sum(self.model.get_weights()[0]))
        if self.held is None:
            self.held = [tf.Variable(0.0), {"a": keras.Variable(1.0)}]
        self.held[0].assign_add(0.5)
        self.held[1]["a"].assign(self.held[1]["a"] * 1.1)
        return [float(self.held[0]), float(self.held[1]["a"])]


model = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
model.compile("adam", "mse")
makes = Makes()
model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[makes])
with open("end.json", "w") as file:
    json.dump([makes.seen, [w.tolist() for w in model.get_weights()]], file)
"""
NAMED = {
    "measured": "second",
    "own": "second",
    "layer": "layer",
    "optimizer": "optimizer",
    "metric": "score",
    "generator": "tf.random.get_global_generator()",
}


@pytest.mark.parametrize(
    ("kind", "exact"),
    [
        ("plain", True),
        ("variables", True),
        ("compiled", True),
        ("measured", False),
        ("own", False),
        ("layer", False),
        ("optimizer", False),
        ("metric", False),
        ("generator", False),
    ],
)
def test_what_is_made_in_training(
    tmp_path: Path, zygote: Zygote, kind: str, *, exact: bool
) -> None:
    """By a callback: as exact as it is said to be before the crash."""
    killed = Attempts(tmp_path / "killed", {"snapshot_every_steps": 2}, zygote=zygote)
    first = killed.run(killed.script(SCRIPT), kind, "9")
    assert first.code == -signal.SIGKILL, first.err
    promises = first.of("promise")
    assert promises[-1]["bits"] is exact, promises
    told = [one["sentence"] for one in promises if not one["bits"]]
    assert told == ([] if exact else [LATE.format(NAMED[kind])])
    again = killed.run(killed.script(SCRIPT), kind, "0")
    assert again.code == 0, again.err
    assert again.of("restored")
    assert all(one["bits"] is exact for one in again.of("promise"))
    alone = Attempts(tmp_path / "alone", zygote=zygote)
    assert alone.run(alone.script(SCRIPT), kind, "0").code == 0
    seen = read_result(killed.directory / "end.json")
    if exact:
        assert seen == read_result(alone.directory / "end.json")
