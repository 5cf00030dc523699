"""What every row's script shares: places to die at, a ledger, the result.

Plain user code: it runs with and without supervision. The ids that a ``Ledger`` layer
counts are part of the model; beside it each step writes its ids to a file, which knows
nothing of snapshots.
"""

import hashlib
import json
import os
import random
import signal
import sys
import threading
import time

import keras
import numpy as np
import tensorflow as tf
from ingredients import Ledger

DIE, HOW = os.environ.get("DIE"), os.environ.get("HOW", "KILL")
AT_LATEST = os.environ.get("AT_LATEST")
DELAY = float(os.environ.get("DELAY", "0"))
ATTEMPT = int(os.environ.get("ATTEMPT", "0"))
QUIET = "QUIET" in os.environ
"""No callback looks at the model within an epoch: on JAX that changes where the loop keeps
its values."""
ONCE = os.environ.get("DIE_ONCE", "").split()


# --- places ----------------------------------------------------------------------


def kill(where):
    append(DIED, where)
    if HOW == "RAISE":
        raise RuntimeError("interrupted")
    os.kill(os.getpid(), signal.SIGTERM if HOW == "TERM" else signal.SIGKILL)
    if HOW != "TERM":
        time.sleep(60)


def place(name):
    """Somewhere to die at: noted in a run that is undisturbed, used in the others."""
    if "TRAIL" in os.environ:
        append(os.environ["TRAIL"], name)
    if name == AT_LATEST or (name in ONCE and name not in died_at()):
        kill(name)
    if name != DIE:
        return
    if DELAY:  # somewhere in what comes next
        # Kept nowhere: what a global list holds is state of the script.
        threading.Thread(
            target=lambda: (time.sleep(DELAY), kill(name)), name=KILLER, daemon=True
        ).start()
    else:
        kill(name)


KILLER = "killer"
DIED = os.environ.get("DIED", "died.txt")


def died_at():
    try:
        return open(DIED).read().split()
    except FileNotFoundError:
        return []


def append(path, text):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(descriptor, text.encode() + b"\n")
    os.close(descriptor)


def die_while_saving():
    """Die right before the n-th operation that changes files of a snapshot."""
    if DIE is None or not DIE.startswith("snapshot:"):
        return
    left = [int(DIE.partition(":")[2])]

    def audit(event, details):
        writes = event == "open" and details[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in ("os.mkdir", "os.rename", "os.remove", "os.rmdir"):
            path = str(details[0])
            if (
                any(part in path for part in os.environ["SNAPSHOTS"].split(":"))
                and ".lock" not in path
            ):
                left[0] -= 1
                if left[0] == 0:
                    kill(DIE)

    sys.addaudithook(audit)


die_while_saving()


# --- the ledger ------------------------------------------------------------------


def ledger_of(model):
    return next(one for one in model._flatten_layers() if isinstance(one, Ledger))


class Writer:
    """Writes which ids a step was done with, by the difference it made."""

    def __init__(self, number=0):
        self.number = number

    def before(self, model):
        ledger = ledger_of(model)
        self.seen = ledger.seen.numpy()
        self.step = int(ledger.steps.numpy())

    def after(self, model, **where):
        ledger = ledger_of(model)
        more = ledger.seen.numpy() - self.seen
        line = {
            "attempt": ATTEMPT,
            "model": self.number,
            **where,
            "from": self.step,
            "to": int(ledger.steps.numpy()),
            "ids": [int(i) for i in np.repeat(np.arange(len(more)), more)],
        }
        append("ledger.jsonl", json.dumps(line))


class Watcher(keras.callbacks.Callback):
    """The places of a fit, and its part of the ledger. Has state of its own."""

    def __init__(self, fit, number):
        super().__init__()
        self.fit = fit
        writers[fit] = Writer(number)
        self.losses, self.epoch, self.tests = [], 0, 0
        self.draws = random.Random(5)

    def on_train_begin(self, logs=None):
        place(f"begin:{self.fit}")

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch, self.tests = epoch, 0
        place(f"epoch_begin:{self.fit}:{epoch}")

    def on_train_batch_begin(self, batch, logs=None):
        if not QUIET:
            writers[self.fit].before(self.model)
        place(f"step:{self.fit}:{self.epoch}:{batch}")

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append([float(logs["loss"]), self.draws.random()])
        if not QUIET:
            writers[self.fit].after(
                self.model, fit=self.fit, epoch=self.epoch, batch=batch
            )

    def on_test_batch_end(self, batch, logs=None):
        self.tests += 1
        place(f"test:{self.fit}:{self.epoch}:{self.tests}")

    def on_epoch_end(self, epoch, logs=None):
        self.losses.append([epoch, *(float(v) for _, v in sorted(logs.items()))])
        place(f"epoch_end:{self.fit}:{epoch}")


watchers, fits, models, writers = [], [], [], {}


def number_of(model):
    """Which model of the script this is."""
    if not any(one is model for one in models):
        models.append(model)
    return next(i for i, one in enumerate(models) if one is model)


def train(model, *args, callbacks=(), **options):
    """``fit`` with a Watcher; keeps what it returns."""
    if watchers:
        place(f"between:{len(watchers)}")
    watcher = Watcher(len(watchers), number_of(model))
    watchers.append(watcher)
    history = model.fit(*args, verbose=0, callbacks=[*callbacks, watcher], **options)
    fits.append([history.history, history.epoch, history.params])
    return history


# --- the result ------------------------------------------------------------------


def digest(values):
    total = hashlib.sha256()
    for value in values:
        inner = getattr(value, "_value", value)
        several = isinstance(inner, tf.distribute.DistributedValues)
        for one in inner.values if several else [value]:
            total.update(np.asarray(one).tobytes())
    return total.hexdigest()


def state_of(callback):
    """Its attributes, as text."""
    return {
        name: digest(value) if name == "best_weights" and value else repr(value)
        for name, value in sorted(vars(callback).items())
        if isinstance(
            value,
            (bool, int, float, str, list, tuple, dict, set, np.ndarray, np.generic),
        )
        and name not in ("params", "filepath", "filename")
    }


def finish(model, *, callbacks=(), **more):
    """Leave everything behind that must be the same."""
    for thread in threading.enumerate():
        if thread.name == KILLER:  # the last step may be shorter than its delay
            thread.join()
    optimizer = getattr(model, "optimizer", None)
    result = {
        "weights": digest(model.variables),
        "optimizer": digest(getattr(optimizer, "variables", ())),
        "metrics": digest(v for m in model.metrics for v in m.variables),
        "fits": fits,
        "callbacks": [state_of(c) for c in callbacks],
        "losses": [w.losses for w in watchers],
        "random": [random.random(), float(np.random.rand())],
        "seen": [[int(i) for i in ledger_of(m).seen.numpy()] for m in models],
        **more,
    }
    if tf.random.get_global_generator is not None and os.environ.get("SEEDED"):
        result["random"] += [
            float(tf.random.uniform([])),
            float(keras.random.uniform([])),
        ]
    with open("result.json.new", "w") as file:
        json.dump(result, file, default=repr)
    os.rename("result.json.new", "result.json")
