"""State in places that a model does not know of: it goes on to the bit, or the promise
is withdrawn before the kill."""

import signal
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts, read_result
from tests.support.zygote import Zygote

HEAD = """
import json, os, queue, signal, threading
import numpy as np
import keras
import tensorflow as tf
from trainers.process import attempt_reporting as attempt

class Die(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        step = int(self.model.optimizer.iterations)
        if os.environ.get("DIE") == str(step):
            attempt.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)

def set_rate(model, factor):
    model.optimizer.learning_rate.assign(0.05 * factor)

def on_batch(act):
    return keras.callbacks.LambdaCallback(on_train_batch_begin=lambda b, logs: act())

keras.utils.set_random_seed(7)
x = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
y = x.sum(1, keepdims=True)
"""

TAIL = """
history = model.fit(x, y, batch_size=16, epochs=4, verbose=0, callbacks=[*more, Die()])
with open("result.json", "w") as file:
    variables = [*model.variables, *model.optimizer.variables]
    json.dump([history.history, [np.asarray(v).tolist() for v in variables]], file)
"""

PLAIN = """
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
"""

PLACES = {
    "behind tf.py_function": """
calls = 0

def weigh(values):
    global calls
    calls += 1
    return values * (1 + 0.05 * (calls % 7))

class Weigh(keras.layers.Layer):
    def call(self, inputs):
        found = tf.py_function(weigh, [inputs], tf.float32)
        found.set_shape(inputs.shape)
        return found

model = keras.Sequential([keras.Input((4,)), Weigh(), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
more = []
""",
    "attributes of an optimizer and of the model": """
class Slowing(keras.optimizers.SGD):
    def apply(self, grads, trainable_variables=None):
        self.asked = getattr(self, "asked", 0) + 1
        grads = [one / (1 + 0.05 * (self.asked % 7)) for one in grads]
        return super().apply(grads, trainable_variables)

class Counting(keras.Sequential):
    seen = 0
    def train_step(self, data):
        self.seen += 1
        inputs, targets = data
        return super().train_step((inputs * (1 + 0.05 * (self.seen % 5)), targets))

model = Counting([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(Slowing(0.05), "mse", run_eagerly=True)
more = []
""",
    "a module of the script's own": PLAIN
    + """
import helpers
from helpers import tick
more = [on_batch(lambda: set_rate(model, helpers.factor() * tick()))]
""",
    "a pool of threads that is waited for": PLAIN
    + """
from concurrent.futures import ThreadPoolExecutor
rng, pool = np.random.default_rng(3), ThreadPoolExecutor(1)

def draw():
    return rng.random()

more = [on_batch(lambda: set_rate(model, 1 + pool.submit(draw).result()))]
""",
    "a thread that goes ahead": PLAIN
    + """
numbers = queue.Queue(maxsize=1)

def draw():
    rng = np.random.default_rng(3)
    while True:
        numbers.put(rng.random())

threading.Thread(target=draw, daemon=True).start()
more = [on_batch(lambda: set_rate(model, 1 + numbers.get()))]
""",
}

HELPERS = """
import numpy as np
from itertools import cycle
count, past, rng = 0, [], np.random.default_rng(5)
steps = cycle([1.0, 0.7, 0.9])

def factor():
    global count
    count += 1
    past.append(count % 3)
    return 1 + 0.1 * sum(past[-2:]) + rng.random()

def tick():
    return next(steps)
"""

CANNOT = {"a thread that goes ahead"}
"""What a thread has drawn ahead belongs to no step: it is said so."""


@pytest.mark.slow
@pytest.mark.parametrize("where", PLACES)
def test_it_goes_on_to_the_bit_or_is_told_before_the_kill(
    where: str, tmp_path: Path, zygote: Zygote
) -> None:
    """Never promised and other."""

    def attempts(name: str, **options: int) -> Attempts:
        made = Attempts(tmp_path / name, {**options}, zygote=zygote)
        made.script(HELPERS, "helpers.py")
        made.script(HEAD + PLACES[where] + TAIL)
        return made

    whole, torn = attempts("whole"), attempts("torn", snapshot_every_steps=3)
    undisturbed = whole.run(whole.directory / "train.py", plain=True)
    assert undisturbed.code == 0, undisturbed.err
    died = torn.run(torn.directory / "train.py", environment={"DIE": "8"})
    assert died.code == -signal.SIGKILL, died.err
    told = [r["sentence"] for r in died.of(RecordKind.PROMISE) if not r["bits"]]
    again = torn.run(torn.directory / "train.py")
    assert again.code == 0, again.err
    results = [read_result(one.directory / "result.json") for one in (whole, torn)]
    assert bool(told) is (where in CANNOT), told
    assert told or results[0] == results[1]
