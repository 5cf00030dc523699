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
from trainers.fit import fit_snapshot
from trainers.process import attempt_reporting
from trainers.process.script import python_random
from trainers.state import fit_state, variable_state

MUTATE = json.loads(os.environ.get("MUTATE", "null"))
POSITION = ("epoch", "next_step", "step_in_epoch", "drawn", "begun", "used")
NEXT = {"drawn": 1, "next_step": 1, "step_in_epoch": 1}

restore, local_of = fit_state.restore, fit_snapshot.local_of


def found_in(model, callbacks, state):
    """All that can be forgotten."""
    yield from (["variable", index] for index in range(len(state["variables"])))
    for index, one in enumerate(state["callbacks"]):
        yield from (["callback", index, name] for name in one["attributes"])
    yield from (["python", name] for name in python_random.state())
    yield from (["framework", name] for name in backend.random.state())
    yield from (["position", name] for name in POSITION)


def copied(value):
    try:
        return copy.deepcopy(value)
    except Exception:  # models and functions: they are the script's
        return value


def restore_but_one(model, callbacks, state, stored, **more):
    if MUTATE == "list":
        with open("mutations.json", "w") as file:
            json.dump(list(found_in(model, callbacks, state)), file)
    kind, *where = MUTATE if isinstance(MUTATE, list) else [None]
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


fit_state.restore, fit_snapshot.local_of = restore_but_one, local_but_one


class Own(keras.callbacks.Callback):
    """State that training depends on, of many kinds."""

    def __init__(self):
        super().__init__()
        self.count, self.losses = 0, []
        self.drawn, self.rates = np.random.default_rng(3), np.ones(4, "float32")
        self.draws = [
            random.random,
            np.random.random,
            self.drawn.random,
            lambda: tf.random.uniform([]),
            lambda: keras.random.uniform([]),
        ]

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        self.losses = [*self.losses[-3:], float(logs["loss"])]
        self.rates = np.roll(self.rates, 1) * np.float32(0.999)
        rate = 0.01 * float(self.rates[0]) / (1 + 0.01 * self.count)
        rate *= 1 + 1e-3 * float(np.mean(self.losses))
        for draw in self.draws:
            rate *= 1 + 0.01 * float(draw())
        self.model.optimizer.learning_rate.assign(rate)
        if str(self.count) == os.environ.get("DIE"):
            attempt_reporting.current().wait_for_saver()
            os.kill(os.getpid(), signal.SIGKILL)


keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(80, 6)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential(
    [
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
history = model.fit(
    x,
    y,
    batch_size=8,
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
