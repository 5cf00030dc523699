"""A script that logs every step faster than it is taken is told so."""

import pytest

from tests.support.command import Trainwarden

pytestmark = pytest.mark.slow

LOGS = """
import os, sys, threading, time
import keras, numpy as np

FAULTY = sys.argv[1] == "faulty"
x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
until = time.monotonic() + 35
os.mkfifo(sys.argv[2])


def take():
    with open(sys.argv[2], "rb", buffering=0) as log:
        while log.read(65536):
            time.sleep(0.05 if FAULTY else 0)


threading.Thread(target=take, daemon=True).start()
log = open(sys.argv[2], "wb", buffering=0)


class Log(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        log.write(bytes(65536 if FAULTY else 100))
        time.sleep(0.005)

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = time.monotonic() > until


model.fit(x, x[:, :1], batch_size=8, epochs=100000, verbose=0, callbacks=[Log()])
"""


@pytest.mark.parametrize("fault", ["faulty", "sound"])
def test_writes_that_are_waited_for(trainwarden: Trainwarden, fault: str) -> None:
    """What is written is the same each time; who takes it is slow, or is not."""
    script, log = trainwarden.script(LOGS), trainwarden.directory / "log"
    done = trainwarden("run", script, fault, log)
    assert done.returncode == 0, done.stdout + done.stderr
    (ended,) = trainwarden.json("status")
    kinds = [one["kind"] for one in ended["advisories"]]
    assert kinds == (["slow_writes"] if fault == "faulty" else [])
    if kinds:
        assert f"a write to {log}" in ended["advisories"][0]["sentence"]
