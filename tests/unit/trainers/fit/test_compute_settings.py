"""What a spec says of how steps are computed: done, or told that it is not."""

import signal
from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.snapshots.proof import Proof
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.zygote import Zygote
from trainers.fit.compute_settings import (
    EAGER,
    NO_LAYER,
    NOT_COMPILED,
    NOT_RECOMPUTED,
)
from trainers.process.applied_directive import OWN_LOOP

HEAD = """
import os, signal
import keras
import numpy as np
import tensorflow as tf
from trainers.session import session
from trainers.process import attempt_reporting as reporting

keras.utils.set_random_seed(5)
x = np.random.default_rng(1).normal(size=(32, 6)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(1)])
optimizer = keras.optimizers.SGD(0.01)
"""
FIT = """
def die(batch, logs):
    if batch == 6 and "DIE" in os.environ:
        reporting.current().wait_for_saver()
        os.kill(os.getpid(), signal.SIGKILL)

model.compile(optimizer, "mse", run_eagerly="EAGER" in os.environ)
for _ in range(2):
    model.fit(x, y, batch_size=4, verbose=0,
        callbacks=[keras.callbacks.LambdaCallback(on_train_batch_end=die)])
"""
DRAWS = """
class Noisy(keras.layers.Layer):
    def call(self, x):
        return tf.nn.dropout(x, 0.5)

model = keras.Sequential([keras.Input((6,)), Noisy(), keras.layers.Dropout(0.5)])
"""
NATIVE, OF_KERAS = "tf.nn.dropout", "keras.random.dropout"
STEP = """
optimizer.build(model.trainable_variables)

@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
"""
OWN_STEPS = """
for _ in range(3):
    step(x, y)
"""
SESSION = """
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
with session(model=model, optimizer=optimizer) as run:
    for _, (a, b) in run.steps(data, epochs=2):
        step(a, b)
"""


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """A snapshot at every other step."""
    return Attempts(tmp_path, {"snapshot_every_steps": 2}, zygote=zygote)


def run(
    attempts: Attempts, text: str, *, fate: str = "", **asked: Any
) -> AttemptOutcome:
    """The next attempt of a script."""
    environment = {fate: "1"} if fate else {}
    script = attempts.script(HEAD + text)
    return attempts.run(script, environment=environment, **asked)


def notices(outcome: AttemptOutcome) -> list[str]:
    """What the person was told."""
    return [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]


@pytest.mark.parametrize(
    "text",
    [pytest.param(STEP + OWN_STEPS, marks=pytest.mark.slow), STEP + SESSION],
    ids=["own steps", "session"],
)
def test_steps_outside_of_fit_stay_as_they_are_and_that_is_told(
    attempts: Attempts, text: str
) -> None:
    """Once, and with what was asked for."""
    outcome = run(attempts, text, jit=True, recompute=True)
    assert outcome.code == 0, outcome.err
    told = OWN_LOOP.format("compute.jit and compute.recompute")
    assert notices(outcome).count(told) == 1


@pytest.mark.slow
def test_an_eager_model_stays_so_and_that_is_told(attempts: Attempts) -> None:
    """Once, however many calls of fit there are."""
    outcome = run(attempts, FIT, fate="EAGER", jit=True, recompute=True)
    assert outcome.code == 0, outcome.err
    for sentence in (NOT_COMPILED, NOT_RECOMPUTED.format(EAGER)):
        assert notices(outcome).count(sentence) == 1
    applied = [(o["name"], o["found"]) for o in outcome.of(RecordKind.APPLIED)]
    assert applied == [("jit", False)]


@pytest.mark.slow
def test_a_model_of_which_nothing_is_recomputed_is_told_of(attempts: Attempts) -> None:
    """Once: here each layer draws, in its call or by a generator of its own."""
    draws = FIT.replace("model.compile", DRAWS + "model.compile")
    outcome = run(attempts, draws, recompute=True)
    assert outcome.code == 0, outcome.err
    assert notices(outcome).count(NOT_RECOMPUTED.format(NO_LAYER)) == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"jit": True}, "jit as in the script → on"),
        pytest.param(
            {"precision": "mixed_bfloat16"},
            "precision as in the script → mixed_bfloat16",
            marks=pytest.mark.slow,
        ),
        pytest.param({"recompute": True}, "recompute off → on", marks=pytest.mark.slow),
        pytest.param({}, None, marks=pytest.mark.slow),
    ],
)
def test_bits_are_not_promised_where_steps_are_computed_in_another_way(
    attempts: Attempts, changed: dict[str, Any], words: str | None
) -> None:
    """Said before training goes on, and no proof is tried then."""
    assert run(attempts, FIT, fate="DIE").code == -signal.SIGKILL
    resumed = run(attempts, FIT, prove=True, **changed)
    assert resumed.code == 0, resumed.err
    assert resumed.of(RecordKind.RESTORED)
    first = resumed.of(RecordKind.PROMISE)[0]
    assert first["bits"] is (words is None)
    if words is not None:
        assert words in first["sentence"]
        assert "differs" not in {o["result"] for o in resumed.of(RecordKind.PROOF)}


def test_a_resume_whose_activations_are_computed_again_is_exact(
    attempts: Attempts,
) -> None:
    """With a layer that is left out, as it draws: it does so once a step, as before."""
    noisy = DRAWS.replace("Noisy(), ", "keras.layers.Dense(8), Noisy(), ")
    draws = FIT.replace(
        "model.compile", noisy.replace(NATIVE, OF_KERAS) + "model.compile"
    )
    assert run(attempts, draws, fate="DIE", recompute=True).code == -signal.SIGKILL
    resumed = run(attempts, draws, prove=True, recompute=True)
    assert resumed.code == 0, resumed.err
    assert resumed.of(RecordKind.PROMISE)[0]["bits"]
    assert resumed.of(RecordKind.PROOF)[-1]["result"] == Proof.PROVED
