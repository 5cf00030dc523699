"""Scripts with several calls of ``fit``, and memory that runs out in one of them."""

import pytest

from supervisor.core.causes import Cause
from tests.support.command import Trainwarden

HEAD = """
import keras, numpy as np
from keras import layers
keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(1024, 8)).astype("float32")
y = x.sum(axis=1)


def wide(units):
    model = keras.Sequential([
        keras.Input((8,)), layers.Dense(units, activation="relu"), layers.Dense(1),
    ])
    model.compile("sgd", "mse", jit_compile=False)
    return model
"""

SMALL_FIRST = """
model = wide(400_000)
model.fit(x[:160], y[:160], batch_size=16, verbose=0)
model.fit(x[:256], y[:256], batch_size=128, verbose=0)
"""
"""A step of 128 samples holds several tensors of 195 MiB each; one of 16 of 24 MiB."""

ANOTHER_MODEL_FIRST = """
wide(10).fit(x, y, batch_size=512, verbose=0)
wide(400_000).fit(x[:256], y[:256], batch_size=128, verbose=0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("script", [SMALL_FIRST, ANOTHER_MODEL_FIRST])
def test_the_batch_that_failed_is_told_and_planned_by(
    trainwarden: Trainwarden, script: str
) -> None:
    """Not that of the call before, smaller or larger; and a warm-up, after which the
    pool is in pieces, makes no fragmentation of it that would cost a restart."""
    path = trainwarden.script(HEAD + script)
    done = trainwarden("run", "--cpu-memory", "400MiB", path)
    assert done.returncode == 0, done.stderr[-3000:]
    (incident,) = trainwarden.json("incidents")
    assert incident["cause"] == Cause.DEVICE_OOM
    assert incident["autopsy"]["verdict"] == "capacity"
    assert incident["autopsy"]["subject"] == "step"
    assert incident["remedy"]["because"].startswith("128 samples at once do not fit")


PROMISES = """
def batches():
    for begin in range(0, 64, 16):
        yield x[begin:begin + 16], y[begin:begin + 16]


model = wide(8)
model.fit(x[:64], y[:64], batch_size=16, verbose=0)
model.fit(batches(), verbose=0)
model.fit(x[:64], y[:64], batch_size=16, verbose=0)
"""


def test_a_run_promises_as_much_as_its_weakest_fit(trainwarden: Trainwarden) -> None:
    """A generator in the second call of three: the finished job says so, and which."""
    path = trainwarden.script(HEAD + PROMISES)
    assert trainwarden("run", path).returncode == 0
    (told,) = trainwarden.json("status")
    assert told["promise"] is not None
    assert "generator" in told["promise"]
    assert (told["exact"], told["promise_fit"]) == (False, 1)
    shown = trainwarden("status").stdout
    assert "not promised (call 2 of fit): " in shown
