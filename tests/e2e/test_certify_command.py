"""``trainwarden certify``: a script of somebody's own, killed, and what it leaves compared."""

import json
import re

import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import os, sys
import keras
import numpy as np

class Hidden(keras.callbacks.Callback):  # no snapshot has what a library keeps
    def on_train_batch_end(self, batch, logs=None):
        os.calls = getattr(os, "calls", 0) + 1
        self.model.optimizer.learning_rate.assign(0.1 / (1 + os.calls))

x = np.random.rand(80, 6).astype("float32")
model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.3)])
model.compile("sgd", "mse")
callbacks = [Hidden()] if "hidden" in sys.argv else []
found = model.fit(x, x[:, :4], batch_size=8, epochs=4, verbose=0, callbacks=callbacks)
os.makedirs("out", exist_ok=True)
with open("out/loss.csv", "a") as file:
    print(*found.history["loss"], sep="\\n", file=file)
"""


@pytest.mark.parametrize(
    ("options", "files"),
    [
        (("--kills", "1"), "1 file"),
        pytest.param(
            ("--kills", "2", "--steps", "25"), "0 files", marks=pytest.mark.slow
        ),
    ],
)
def test_a_script_that_sets_no_seed(
    trainwarden: Trainwarden, options: tuple[str, ...], files: str
) -> None:
    """To its end, or for some steps: certified. Nothing is left where it was started, and
    nothing in the state directory."""
    script = trainwarden.script(SCRIPT)
    done = trainwarden("certify", *options, script)
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("certified (")
    assert f"and {files} are the same" in last
    assert not (trainwarden.directory / "out").exists()
    assert not list(trainwarden.state.glob("certify-*"))


@pytest.mark.slow
def test_hidden_state(trainwarden: Trainwarden) -> None:
    """Not certified: what differs is named, that the run had not known, and the line."""
    script = trainwarden.script(SCRIPT)
    done = trainwarden("certify", "--json", "--seed", "1", script, "hidden")
    assert done.returncode == 1, done.stdout + done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["event"], found["outcome"]) == ("certified", "differs")
    assert len(found["killed_at"]) >= 2  # a disproved resume ends an attempt, too
    assert "model:sequential/dense/kernel" in found["comparison"]["differ"]
    assert "file out/loss.csv" in found["comparison"]["differ"]
    assert found["undisturbed"]["differ"] == []
    assert "in no snapshot" in found["lines"][1]
    assert found["lines"][2:] == [
        "where to look in the script:",
        '  line 8: os.calls = getattr(os, "calls", 0) + 1',
    ]


def test_a_script_that_fails(trainwarden: Trainwarden) -> None:
    """Its own failure is told, and no certificate given."""
    script = trainwarden.script("raise ValueError('no data')")
    done = trainwarden("certify", script)
    assert done.returncode == 1
    assert "it did not come to its end" in done.stderr
    assert "no data" in done.stderr


CLOCK = """
import time
import keras
import numpy as np

keras.utils.set_random_seed(time.time_ns() % 2**31)
x = np.random.rand(80, 6).astype("float32")
model = keras.Sequential([keras.layers.Dense(4)])
model.compile("sgd", "mse")
model.fit(x, x[:, :4], batch_size=8, epochs=4, verbose=0)
"""


@pytest.mark.slow
def test_a_seed_of_the_clock(trainwarden: Trainwarden) -> None:
    """Two runs that nobody kills differ, too: the verdict repeats the reason that the run
    gave. Data that are others in each attempt are told without their hashes."""
    done = trainwarden("certify", "--kills", "1", trainwarden.script(CLOCK))
    assert done.returncode == 1, done.stdout + done.stderr
    before, _, verdict = done.stdout.partition("no verdict (")
    assert verdict, before + done.stderr
    said = [line for line in verdict.splitlines() if "the run had said so" in line]
    assert len([line for line in said if "looks like the clock" in line]) == 1
    assert not re.search(r"\b[0-9a-f]{32}\b", done.stdout + done.stderr)
