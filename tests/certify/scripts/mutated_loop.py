"""A loop of the script's own that forgets one thing of its record, or of its variables.

As ``mutated.py``, for the snapshots of a loop that is recorded: the variables that its
calls change, and what the calls returned.
"""

import json
import os
import signal

import keras
import numpy as np
import tensorflow as tf

from trainers.backends.selected import backend
from trainers.loops import loop_state
from trainers.loops.event_log import HEAD
from trainers.process import attempt_reporting

MUTATE = json.loads(os.environ.get("MUTATE", "null"))
EACH = 3
"""Of the record's events, every so many-th is forgotten in turn."""

put_back, recorded = loop_state.put_back, loop_state.recorded


def events_in(data):
    """Start, and end, of each event of a record."""
    start = 0
    while start < len(data):
        end = start + HEAD.size + HEAD.unpack_from(data, start)[2]
        yield start, end
        start = end


def found_in(loop, numbers):
    """All that can be forgotten."""
    yield from (["loop variable", index] for index in range(len(numbers)))
    count = len(list(events_in(loop.log.data)))
    for index in range(0, count, EACH):
        yield from ([kind, index] for kind in ("loop event", "loop result"))


def recorded_but_one(taken):
    loop = recorded(taken)
    if MUTATE == "list":
        numbers = taken.manifest.state["loop"]["numbers"]
        with open("mutations.json", "w") as file:
            json.dump(list(found_in(loop, numbers)), file)
    kind, index = MUTATE if isinstance(MUTATE, list) else (None, 0)
    events = list(events_in(loop.log.data))
    if kind == "loop event":
        start, end = events[index]
        del loop.log.data[start:end]
    if kind == "loop result":
        loop.log.data[events[index][1] - 1] ^= 1
    return loop


def put_back_but_one(loop, taken):
    variables = dict(loop.written.variables())
    kind, index = MUTATE if isinstance(MUTATE, list) else (None, 0)
    if kind != "loop variable":
        return put_back(loop, taken)
    number = taken.manifest.state["loop"]["numbers"][index]
    before = np.asarray(variables[number]).copy()
    wrong = put_back(loop, taken)
    backend.values.assign(variables[number], before)
    return wrong


loop_state.put_back, loop_state.recorded = put_back_but_one, recorded_but_one

keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(80, 6)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential(
    [
        keras.layers.Dense(8, "relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.3),
        keras.layers.Dense(1),
    ]
)
model.build((None, 6))
optimizer = keras.optimizers.AdamW(0.01)
average = keras.metrics.Mean()


@tf.function
def train_step(inputs, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(inputs, training=True) - targets) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    average.update_state(loss)
    return loss


data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(80, seed=7).batch(8)
losses, means = [], []
for _ in range(4):
    for batch in data:
        losses.append(float(train_step(*batch)))
        if str(len(losses)) == os.environ.get("DIE"):
            attempt_reporting.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)
    means.append(float(average.result()))
    average.reset_state()
    optimizer.learning_rate.assign(0.01 / (1 + means[-1]))
result = {
    "weights": [np.asarray(one).tolist() for one in model.variables],
    "optimizer": [np.asarray(one).tolist() for one in optimizer.variables],
    "history": [losses, means],
}
with open("result.json", "w") as file:
    json.dump(result, file)
