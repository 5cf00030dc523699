"""A row a function: callbacks, Keras' and the script's own."""

import collections
import pathlib

import h5py
import keras
import numpy as np
import tensorflow as tf
from ingredients import BACKEND, BATCH, noisy, seeded
from prelude import digest, finish, train

cb = keras.callbacks
VARIABLE = tf.Variable if BACKEND == "tensorflow" else keras.Variable


def early_stopping():
    x, y = seeded()
    model = noisy(optimizer=keras.optimizers.Adam(0.05))
    stop = cb.EarlyStopping(
        "val_loss", patience=2, min_delta=0.02, restore_best_weights=True
    )
    plateau = cb.ReduceLROnPlateau("loss", patience=1, min_delta=0.1)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=9,
        validation_split=0.3,
        callbacks=[stop, plateau],
    )
    finish(model, callbacks=[stop, plateau], stopped=model.stop_training)


def stored(path):
    """Every data set of an HDF5 file."""
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: digest([item[()]])})
                if isinstance(item, h5py.Dataset)
                else None
            )
        )
    return found


def files():
    x, y = seeded()
    model = noisy()
    best = cb.ModelCheckpoint(
        "best.weights.h5",
        monitor="val_loss",
        save_best_only=True,
        save_weights_only=True,
    )
    each = cb.ModelCheckpoint(
        "each-{epoch}.weights.h5", save_weights_only=True, save_freq=5
    )
    rate = cb.LearningRateScheduler(lambda epoch, now: now * 0.8)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        validation_split=0.25,
        callbacks=[best, each, rate, cb.CSVLogger("log.csv")],
    )
    finish(
        model,
        callbacks=[best, each, rate],
        csv=pathlib.Path("log.csv").read_text(),
        best=stored("best.weights.h5"),
        each=[stored(p) for p in sorted(pathlib.Path().glob("each-*"))],
    )


def scalars(directory):
    """Tag and step → value as written last."""
    found = {}
    files = sorted(
        pathlib.Path(directory).rglob("*tfevents*"),
        key=lambda path: (path.parent, path.stat().st_mtime_ns),
    )
    for path in files:
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            for value in event.summary.value:
                number = tf.make_ndarray(value.tensor)
                if number.dtype.kind == "f" and "per_second" not in value.tag:
                    key = f"{path.parent.name}/{value.tag}/{event.step}"
                    found[key] = float(number) if number.ndim == 0 else digest([number])
    return found


def tensorboard():
    x, y = seeded()
    model = noisy()
    board = cb.TensorBoard("board", update_freq=3, histogram_freq=0, write_graph=False)
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        validation_split=0.25,
        callbacks=[board],
    )
    finish(model, scalars=scalars("board"))


def backup_and_restore():
    x, y = seeded()
    model = noisy()
    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=5,
        callbacks=[cb.BackupAndRestore("backup", save_freq=3)],
    )
    finish(model, left=pathlib.Path("backup").exists())


class Own(cb.Callback):
    """State of many kinds, used and changed."""

    def __init__(self):
        super().__init__()
        self.recent = collections.deque(maxlen=3)
        self.by_epoch = collections.defaultdict(list)
        self.counts = collections.Counter()
        self.rng = np.random.default_rng(1)
        self.best, self.average, self.names = np.inf, None, {"a"}
        self.slow = None

    def on_train_batch_end(self, batch, logs=None):
        self.recent.append(float(self.rng.normal()))
        self.counts[batch % 3] += 1
        self.best = min(self.best, logs["loss"])
        kernel = self.model.trainable_variables[0].numpy()
        self.average = kernel if self.average is None else (self.average + kernel) / 2
        self.slow = VARIABLE(kernel) if self.slow is None else self.slow
        self.slow.assign(0.9 * self.slow + 0.1 * kernel)

    def on_epoch_end(self, epoch, logs=None):
        self.by_epoch[epoch % 2].append(sum(self.recent))
        self.names.add(f"epoch {epoch}")
        if epoch == 2:
            self.model.optimizer.learning_rate = 0.003


def own_callback():
    x, y = seeded()
    model = noisy()
    own = Own()
    train(model, x, y, batch_size=BATCH, epochs=4, callbacks=[own])
    finish(
        model,
        callbacks=[own],
        kinds=[
            repr(own.recent),
            repr(own.by_epoch),
            repr(own.counts),
            own.rng.random(),
            digest([own.slow]),
        ],
    )


noted = []


class Tracker:
    """An object of the script's own that functions change."""

    def __init__(self, model):
        self.model, self.best, self.history = model, None, collections.deque(maxlen=9)

    def add(self, logs):
        self.best = logs["loss"] if self.best is None else min(self.best, logs["loss"])
        self.history.append(round(self.best, 3))


def lambda_callback():
    x, y = seeded()
    model = noisy()
    seen, total, tracker = collections.Counter(), 0.0, Tracker(model)

    def add(batch, logs):
        nonlocal total
        total += logs["loss"]
        seen[batch] += 1
        tracker.add(logs)

    train(
        model,
        x,
        y,
        batch_size=BATCH,
        epochs=4,
        callbacks=[
            cb.LambdaCallback(
                on_train_batch_end=add,
                on_epoch_end=lambda epoch, logs: noted.append(logs["loss"]),
            )
        ],
    )
    finish(
        model,
        noted=noted,
        counts=repr(seen),
        total=total,
        tracked=[tracker.best, list(tracker.history)],
    )
