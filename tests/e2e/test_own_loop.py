"""A loop of the script's own, ended on request: what is said of it is true."""

import signal

import pytest

from tests.support.command import Trainwarden

LOOP = """
import time
import keras, tensorflow as tf

model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
optimizer = keras.optimizers.Adam()
while True:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(tf.ones((8, 4))) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    time.sleep(0.05)
"""


def test_a_drain_of_what_is_not_saved(trainwarden: Trainwarden) -> None:
    """Nobody is told to run it again to resume where it would begin anew."""
    process = trainwarden.start("run", trainwarden.script(LOOP))
    trainwarden.until(lambda status: bool(status["step"]))
    assert "outside of fit" in trainwarden("status").stdout
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 75, said
    assert "nothing is saved" in said
    assert "from its top" in said
    assert "run the same command again to resume" not in said


TOO_LARGE = """
import sys
import keras, numpy as np, tensorflow as tf

BATCH = int(sys.argv[1])
keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(2048, 64)).astype("float32")
model = keras.Sequential([keras.Input((64,))])
for _ in range(8):
    model.add(keras.layers.Dense(512, activation="tanh"))
    model.add(keras.layers.Dense(64))
optimizer = keras.optimizers.SGD()

@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for start in range(0, len(x), BATCH):
    train_step(x[start : start + BATCH])
print("done in batches of", BATCH)
"""


@pytest.mark.slow
def test_out_of_memory_says_what_helps_and_that_does(trainwarden: Trainwarden) -> None:
    """It is told as a step of the script's own loop, of which no batch is sliced; with
    the smaller one that is asked for it ends well."""
    script = trainwarden.script(TOO_LARGE)
    limited = ("run", "--cpu-memory", "24MiB", script)
    failed = trainwarden(*limited, "2048")
    told = failed.stdout + failed.stderr
    assert failed.returncode == 1, told
    assert "a step of the script's own loop does not fit" in told
    assert "smaller batch in the script" in told
    last = trainwarden.json("incidents", "train")[-1]
    assert last["cause"] in {"device_oom", "device_oom_fragmentation"}
    assert last["remedy"]["kind"] == "stop"
    explained = " ".join(trainwarden("explain").stdout.split())
    assert "in a step of a loop of the script's own" in explained
    assert "calls of fit" not in explained
    assert "no training step" not in explained
    smaller = trainwarden(*limited, "128")
    assert smaller.returncode == 0, smaller.stdout + smaller.stderr
    assert "done in batches of 128" in smaller.stdout + smaller.stderr


IN_A_SESSION = """
import tensorflow as tf
import keras
from trainers.session import session

keras.utils.set_random_seed(3)
model = keras.Sequential([keras.Input((64,))])
for _ in range(8):
    model.add(keras.layers.Dense(512, activation="tanh"))
    model.add(keras.layers.Dense(64))
optimizer = keras.optimizers.SGD()
data = tf.data.Dataset.from_tensor_slices(tf.random.normal((2048, 64))).batch(2048)

@tf.function
def train_step(batch):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(batch) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

with session(model=model, optimizer=optimizer) as run:
    for epoch in run.epochs(2):
        for batch in run.batches(data):
            train_step(batch)
"""


@pytest.mark.slow
def test_a_session_whose_batch_nobody_slices_stops(trainwarden: Trainwarden) -> None:
    """It is the script's own loop as well, unless it asks for ``run.slices``: no slices
    are promised, and nothing is tried again."""
    script = trainwarden.script(IN_A_SESSION)
    failed = trainwarden("run", "--cpu-memory", "24MiB", script)
    told = failed.stdout + failed.stderr
    assert failed.returncode == 1, told
    assert "a step of the script's own loop does not fit" in told
    assert "run.slices" in told
    (incident,) = trainwarden.json("incidents", "train")
    assert incident["remedy"]["kind"] == "stop"
