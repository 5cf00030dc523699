"""A script that forgets one thing as it is restored, for ``tests/certify/mutations.py``.

``MUTATE`` is one of those that ``mutations.json`` lists: a kind and where. The one that
is named stays as the script made it, as if no snapshot had it.
"""

import copy
import json
import os
import random
import signal

import keras
import numpy as np
import tensorflow as tf

from trainers.backends.selected import backend
from trainers.data import py_dataset_state
from trainers.fit.resume import fit_snapshot
from trainers.process import attempt_reporting
from trainers.process.script import python_random
from trainers.state import fit_state, variable_state

MUTATE = json.loads(os.environ.get("MUTATE", "null"))
DATA = os.environ.get("DATA", "arrays")
POSITION = ("epoch", "next_step", "step_in_epoch", "drawn", "begun", "used")
OF_DATA = "data/state"
"""What a snapshot has of a ``PyDataset``'s own attributes."""

restore, local_of = fit_state.restore, fit_snapshot.local_of
put_back = py_dataset_state.put_back


def found_in(state, stored):
    """All that can be forgotten."""
    yield from (["variable", index] for index in range(len(state["variables"])))
    for index, one in enumerate(state["callbacks"]):
        yield from (["callback", index, name] for name in one["attributes"])
    yield from (["python", name] for name in python_random.state())
    yield from (["framework", name] for name in backend.random.state())
    yield from (["position", name] for name in POSITION)
    for path, named in state["hidden"]["values"].items():
        yield from (["hidden", "values", path, name] for name in named)
    for part in ("variables", "tables"):
        yield from (["hidden", part, path] for path in state["hidden"][part])
    if OF_DATA in stored:
        yield from (["data", name] for name in json.loads(stored[OF_DATA].tobytes()))


def without(state, where):
    """``state``, where no snapshot has the place ``where`` in it."""
    left = copy.deepcopy(dict(state))
    *path, last = where
    part = left
    for name in path:
        part = part[name]
    del part[last]
    return left


def copied(value):
    try:
        return copy.deepcopy(value)
    except Exception:  # models and functions: they are the script's
        return value


def restore_but_one(model, callbacks, state, stored, **more):
    if MUTATE == "list":
        with open("mutations.json", "w") as file:
            json.dump(list(found_in(state, stored)), file)
    kind, *where = MUTATE if isinstance(MUTATE, list) else [None]
    if kind == "hidden":
        state = without(state, MUTATE)
    variables = [variable for _, variable in variable_state.storable(model)[0]]
    before = [np.asarray(one).copy() for one in variables]
    attributes = [  # copies: they are given back in place
        {name: copied(value) for name, value in vars(one).items()} for one in callbacks
    ]
    python, framework = python_random.state(), backend.random.state()
    told = restore(model, callbacks, state, stored, **more)
    if kind == "variable":
        backend.values.assign(variables[where[0]], before[where[0]])
    if kind == "callback":
        index, name = where
        setattr(callbacks[index], name, attributes[index].get(name))
    if kind == "python":
        python_random.put_back({**python_random.state(), where[0]: python[where[0]]})
    if kind == "framework":
        now = backend.random.state()
        backend.random.put_back({**now, where[0]: framework[where[0]]})
    return told


def local_but_one(taken):
    local = local_of(taken)
    if local is not None and MUTATE and MUTATE[0] == "position":
        local = {**local, MUTATE[1]: max(local[MUTATE[1]] - 1, 0)}
    return local


def put_back_but_one(dataset, stored):
    if MUTATE and MUTATE[0] == "data":
        kept = json.loads(stored[OF_DATA].tobytes())
        del kept[MUTATE[1]]
        text = np.frombuffer(json.dumps(kept).encode(), np.uint8)
        stored = {**stored, OF_DATA: text}
    return put_back(dataset, stored)


fit_state.restore, fit_snapshot.local_of = restore_but_one, local_but_one
py_dataset_state.put_back = put_back_but_one


paces, drawing = [1.0], np.random.default_rng(4)
outside = tf.Variable(1.0)
table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.float32, 1.0)


class Average:
    """Keeps it in its class."""

    value = 1.0

    @classmethod
    def add(cls, one):
        cls.value += 0.2 * (one - cls.value)


def making_closure():
    asked = 0

    def closed_over():
        nonlocal asked
        asked += 1
        return 1 + 0.01 * (asked % 7)

    return closed_over


closed_over = making_closure()


class Paced(keras.layers.Layer):
    """Has a plain attribute that a callback changes."""

    pace = 1.0

    def call(self, inputs):
        return inputs


def hidden_factor(layer, loss):
    """Of the learning rate, by state that no model and no callback holds."""
    paces[0] = paces[0] * 0.99
    layer.pace *= 0.995
    Average.add(loss)
    outside.assign(outside * 0.998)
    key = tf.cast(table.size() % 5, tf.int64)
    table.insert(key, table.lookup(key) * 0.99)
    held = [paces[0], layer.pace, float(outside), float(table.lookup(key))]
    return closed_over() * (1 + 0.01 * (sum(held) + Average.value + drawing.random()))


def drawn_from():
    """The global generators. A ``PyDataset`` is asked for batches ahead of training, and
    who draws from Python's and NumPy's meanwhile is not told apart: there they rest."""
    yield from (lambda: tf.random.uniform([]), lambda: keras.random.uniform([]))
    if DATA != "dataset":
        yield from (random.random, np.random.random)


class Own(keras.callbacks.Callback):
    """State that training depends on, of many kinds."""

    def __init__(self):
        super().__init__()
        self.count, self.losses = 0, []
        self.drawn, self.rates = np.random.default_rng(3), np.ones(4, "float32")

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.losses = [*self.losses[-3:], float(logs["loss"])]
        self.rates = np.roll(self.rates, 1) * np.float32(0.999)
        rate = 0.01 * float(self.rates[0]) / (1 + 0.01 * self.count)
        rate *= 1 + 1e-3 * float(np.mean(self.losses))
        for draw in (self.drawn.random, *drawn_from()):
            rate *= 1 + 0.01 * float(draw())
        rate *= hidden_factor(self.model.layers[0], float(logs["loss"]))
        self.model.optimizer.learning_rate.assign(rate)
        if str(self.count) == os.environ.get("DIE"):
            attempt_reporting.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)


class Batches(keras.utils.PyDataset):
    """Mixes an index of its own between epochs."""

    def __init__(self):
        super().__init__()
        self.order, self.mixing, self.passes = np.arange(80), random.Random(6), 0

    def __len__(self):
        return 10

    def __getitem__(self, index):
        part = self.order[8 * index : 8 * index + 8]
        return x[part] * (1 + 0.01 * self.passes), y[part]

    def on_epoch_end(self):
        self.passes += 1
        self.order = np.array(self.mixing.sample(range(80), 80))


keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(80, 6)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential(
    [
        Paced(),
        keras.layers.Dense(8, "relu"),
        keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.3),
        keras.layers.GaussianNoise(0.1),
        keras.layers.Dense(8, "tanh"),
        keras.layers.Dropout(0.2),
        keras.layers.Dense(1),
    ]
)
OPTIMIZERS = {
    "adam": lambda: keras.optimizers.AdamW(0.01, amsgrad=True, use_ema=True),
    "sgd": lambda: keras.optimizers.SGD(0.01, 0.9, nesterov=True, weight_decay=1e-3),
    "rmsprop": lambda: keras.optimizers.RMSprop(0.01, momentum=0.5, centered=True),
}
optimizer = OPTIMIZERS[os.environ.get("OPTIMIZER", "adam")]()
model.compile(optimizer, "mse", metrics=["mae"])
BY_NAME = {
    "arrays": lambda: {"x": x, "y": y, "batch_size": 8},
    "pipeline": lambda: {
        "x": tf.data.Dataset.from_tensor_slices((x, y)).shuffle(80, seed=7).batch(8)
    },
    "dataset": lambda: {"x": Batches()},
}
history = model.fit(
    **BY_NAME[DATA](),
    epochs=4,
    verbose=0,
    validation_data=(x, y),
    callbacks=[
        Own(),
        keras.callbacks.EarlyStopping(patience=2, restore_best_weights=True),
        keras.callbacks.ReduceLROnPlateau(patience=1),
    ],
)
result = {
    "weights": [np.asarray(one).tolist() for one in model.variables],
    "optimizer": [np.asarray(one).tolist() for one in optimizer.variables],
    "history": history.history,
}
with open("result.json", "w") as file:
    json.dump(result, file)
