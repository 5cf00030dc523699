"""Training data that differ at a restart: it goes on, unless a person has to decide."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import glob, json, os, time
import numpy as np, keras

with open(os.environ["TRAINWARDEN_DIRECTIVE"]) as file:
    snapshots = json.load(file)["snapshot_directory"]

{data}
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Die(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        if epoch in (1, 3) and not os.path.exists(f"died-{{epoch}}"):
            while not glob.glob(f"{{snapshots}}/*-*[0-9]"):
                time.sleep(0.01)
            open(f"died-{{epoch}}", "w").close()
            os._exit(9)

model.fit(x, x[:, :1], batch_size=8, epochs=6, verbose=0, callbacks=[Die()])
"""
NOISE = """
samples = int.from_bytes(os.urandom(1), "big") % 32 + 64
noise = np.frombuffer(os.urandom(4 * samples), "uint8").reshape(samples, 4)
x = noise.astype("float32") / 255
"""
FROM_THE_SYSTEM = SCRIPT.format(data=NOISE)
UNSEEDED = SCRIPT.format(data='x = np.random.rand(64, 4).astype("float32")')
TOLD = "the training data are not those of the snapshot"
TOLD_BEFORE = "draws from os.urandom"


def spec(trainwarden: Trainwarden, name: str, **restart: str) -> Path:
    """A job file with this table."""
    path = trainwarden.directory / f"{name}.toml"
    values = {"back_off": "10ms", **restart}
    table = "".join(f'{key} = "{value}"\n' for key, value in values.items())
    path.write_text(
        f'script = "train.py"\n[snapshots]\nevery = "3steps"\n[restart]\n{table}'
    )
    return path


def told(trainwarden: Trainwarden) -> dict[str, Any]:
    """The status of the job."""
    status = trainwarden.status()
    assert status is not None
    return status


@pytest.mark.slow
def test_a_restart_goes_on_with_other_data(trainwarden: Trainwarden) -> None:
    """What the system draws is another number of other samples each time: that is said
    at the start, nothing is promised, and the run comes to its end."""
    trainwarden.script(FROM_THE_SYSTEM)
    ended = trainwarden("run", "--spec", spec(trainwarden, "job"))
    assert ended.returncode == 0, ended.stdout
    assert ended.stderr.count("goes on from there with what there is") == 2
    status = told(trainwarden)
    assert status["attempt"] == 3
    assert TOLD_BEFORE in status["promise"]


@pytest.mark.slow
def test_unseeded_data_are_the_same(trainwarden: Trainwarden) -> None:
    """Nothing is to be said of them; the promise holds."""
    trainwarden.script(UNSEEDED)
    ended = trainwarden("run", "--spec", spec(trainwarden, "job"))
    assert ended.returncode == 0, ended.stdout
    assert TOLD not in ended.stderr
    status = told(trainwarden)
    assert (status["attempt"], status["promise"]) == (3, None)


@pytest.mark.slow
def test_who_wants_to_be_asked_is(trainwarden: Trainwarden) -> None:
    """By the spec at each restart; who lets the run go on by hand always is. What is
    accepted then goes through later restarts as well."""
    trainwarden.script(FROM_THE_SYSTEM)
    asks = spec(trainwarden, "asks", data_changed="stop")
    goes_on = spec(trainwarden, "goes-on", data_changed="go on")
    for attempts, file in ((2, asks), (3, goes_on)):
        ended = trainwarden("run", "--spec", file)
        assert ended.returncode not in (0, 2), ended.stderr
        assert "--accept-changes goes on with them" in ended.stderr
        assert told(trainwarden)["attempt"] == attempts
    ended = trainwarden("run", "--accept-changes", "--spec", goes_on)
    assert ended.returncode == 0, ended.stdout
    assert told(trainwarden)["attempt"] == 5
    assert TOLD_BEFORE in told(trainwarden)["promise"]
