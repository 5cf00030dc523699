"""One run that hangs, loses its loss, leaves a worker behind, and is stopped a while.

Real Keras, real processes: it ends with the bits of a run that nothing happened to.
"""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.host.process.proc_files import stat
from tests.support.command import PATIENCE, Trainwarden

SCRIPT = """
import json, os, signal, subprocess, sys, threading, time
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(320, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = keras.Sequential([
    keras.Input((8,)), keras.layers.Dense(8, activation="relu"),
    keras.layers.Dropout(0.2), keras.layers.Dense(1),
])
model.compile("adam", "mse")


def first_time(what):
    # True once in the life of the run, whatever becomes of the process.
    try:
        os.close(os.open(what, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def wait_for_ever():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


class Misfortunes(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.03)
        step = int(self.model.optimizer.iterations.numpy())
        if step == 12 and first_time("hung"):
            wait_for_ever()
        if step == 25 and first_time("lost"):
            bias = self.model.layers[-1].bias
            bias.assign(bias * float("nan"))
        if step == 40 and first_time("orphaned"):
            worker = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(600)"],
                env={}, start_new_session=True,
            )
            open("worker", "w").write(str(worker.pid))
            time.sleep(8)  # the supervisor looks at the tree now and then
            shim = os.getppid()
            os.kill(shim, signal.SIGKILL)  # nobody is left to sweep; we die with it
            time.sleep(600)


history = model.fit(
    x, y, batch_size=16, epochs=4, verbose=0, callbacks=[Misfortunes()]
)
weights = [w.tolist() for w in model.get_weights()]
json.dump([weights, history.history], open(sys.argv[1], "w"))
"""

SPEC = """
script = "train.py"
args = ["{result}"]
name = "{name}"
[snapshots]
every = "2steps"
keep = 4
[liveness]
step = "12s"
"""


def result(path: Path) -> Any:
    """What a script wrote at its end."""
    return json.loads(path.read_text())


@pytest.mark.slow
def test_a_run_of_misfortunes_ends_as_if_nothing_had_happened(
    trainwarden: Trainwarden,
) -> None:
    """Each is named for what it was and answered; SIGSTOP is none of them."""
    here = trainwarden.directory
    trainwarden.script(SCRIPT)
    for name in ("hit", "plain"):
        (here / f"{name}.toml").write_text(
            SPEC.format(name=name, result=f"{name}.json")
        )
    process = trainwarden.start("run", "--spec", here / "hit.toml")
    last = trainwarden.until(
        lambda s: s["attempt"] == 4 and (s["step"] or 0) > 42 and s["pid"], job="hit"
    )
    os.kill(last["pid"], signal.SIGSTOP)
    time.sleep(15)  # longer than the deadline
    os.kill(last["pid"], signal.SIGCONT)
    assert process.wait(PATIENCE) == 0, process.stdout and process.stdout.read()

    hung, lost, orphaned = trainwarden.json("incidents", "hit")
    assert hung["cause"] == "stalled"
    assert "no progress" in hung["because"][0]["text"]
    assert any("wait_for_ever" in reason["text"] for reason in hung["because"])
    assert "wait_for_ever" in hung["stacks"]
    assert hung["remedy"]["kind"] == "restart"

    assert lost["cause"] == "non_finite_loss"
    assert lost["remedy"]["kind"] == "rollback"
    assert lost["restored_step"] < 25

    assert orphaned["failed_step"] >= 39
    assert orphaned["remedy"]["kind"] == "restart"
    worker = stat(int((here / "worker").read_text()))
    assert worker is None or worker.state == "Z"

    explained = trainwarden("explain", str(hung["id"])).stdout
    assert "wait_for_ever" in explained
    plain = trainwarden("run", "--spec", here / "plain.toml")
    assert plain.returncode == 0, plain.stdout
    assert result(here / "hit.json") == result(here / "plain.json")
