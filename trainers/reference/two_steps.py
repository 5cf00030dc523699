"""The script of the self-test: two short fits, and what is left of them, as JSON.

The first is interrupted and resumed, so it has all that a resume gives back: a shuffle,
Dropout, Adam's moments, a validation, a callback that counts. The second is for slices:
nothing in it is random, so its weights are those of whole batches, but for rounding.
"""

import glob
import hashlib
import json
import os
import sys
import time

import keras
import numpy as np

keras.utils.set_random_seed(7)
x = np.random.default_rng(7).normal(size=(16, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)


class Counting(keras.callbacks.Callback):
    """Counts steps, and dies after one of them if that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        """After a step."""
        del batch, logs
        self.steps += 1
        if str(self.steps) == os.environ.get("TWO_STEPS_DIE"):
            wait_for(os.environ["TWO_STEPS_AFTER"])
            os._exit(9)


def wait_for(pattern: str) -> None:
    """Until there is such a file, which others write: some seconds, not for ever."""
    for _ in range(200):
        if glob.glob(pattern):  # noqa: PTH207  # as people write it
            return
        time.sleep(0.05)


def model(*layers: keras.Layer, optimizer: str) -> keras.Model:
    """A small one."""
    built = keras.Sequential([keras.layers.Input((4,)), *layers, keras.layers.Dense(1)])
    built.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    return built


def digest(arrays: list[np.ndarray]) -> str:
    """Of every bit of them."""
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()


torn = model(keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.5), optimizer="adam")
counting = Counting()
data = {"batch_size": 8, "epochs": 2, "verbose": 0}
history = torn.fit(x, y, validation_data=(x, y), callbacks=[counting], **data)
sliced = model(keras.layers.Dense(8, "tanh"), optimizer="sgd")
sliced.fit(x, y, shuffle=False, **data)

with open(sys.argv[1], "w", encoding="utf-8") as out:  # noqa: PTH123  # as people write it
    left = {
        "steps": counting.steps,
        "history": {name: list(map(float, v)) for name, v in history.history.items()},
        "weights": digest(torn.get_weights()),
        "optimizer": digest(list(map(np.asarray, torn.optimizer.variables))),
        "sliced": [array.tolist() for array in sliced.get_weights()],
    }
    json.dump(left, out)
