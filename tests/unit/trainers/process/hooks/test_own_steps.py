"""Steps that a script makes outside of ``fit``: told at the first, counted."""

from pathlib import Path
from typing import Any

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.messages.directive import EXIT_DRAINED
from supervisor.wire.page import Phase
from tests.support.attempts import AttemptOutcome, Attempts

LOOP = """
import os, signal, sys, time
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
model.compile("sgd", "mse", jit_compile=False)
x, y = np.ones((16, 4), "float32"), np.ones((16, 3), "float32")
optimizers = [keras.optimizers.Adam(), keras.optimizers.SGD()]

def step(optimizer):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))

compiled = tf.function(step)
if "fit" in sys.argv:
    model.fit(x, y, epochs=2, batch_size=8, verbose=0)
if "compiled" in sys.argv:
    for _ in range(30):
        compiled(optimizers[0])
if "eager" in sys.argv:
    for _ in range(7):
        step(optimizers[1])
if "train_on_batch" in sys.argv:
    model.train_on_batch(x, y)
time.sleep(2.5)  # two looks
if "goes on" in sys.argv:
    for _ in range(5):
        step(optimizers[1])
    time.sleep(1.5)
if "term" in sys.argv:
    os.kill(os.getpid(), signal.SIGTERM)
print("the end")
"""


@pytest.fixture
def attempts(tmp_path: Path) -> Attempts:
    """Started afresh: Keras is imported under the hooks."""
    return Attempts(tmp_path, {"rewind": (".",)})


def told(outcome: AttemptOutcome) -> list[dict[str, Any]]:
    """What was said of such steps."""
    return [
        fields
        for fields in outcome.of(RecordKind.PROMISE)
        if "outside of fit" in fields["sentence"]
    ]


def test_compiled_and_eager_steps_are_counted(attempts: Attempts) -> None:
    """Told once, at the first; the counter of the optimizer that is furthest."""
    outcome = attempts.run(attempts.script(LOOP), "compiled", "eager")
    assert outcome.code == 0, outcome.err
    (fields,) = told(outcome)
    assert not fields["bits"]
    assert outcome.page.step == 30


@pytest.mark.slow
def test_steps_that_nobody_follows_are_timed(attempts: Attempts) -> None:
    """A loop that trains all the time has not trained for no time at all."""
    outcome = attempts.run(attempts.script(LOOP), "eager", "goes on")
    assert outcome.code == 0, outcome.err
    assert outcome.page.step == 12
    assert 5 <= sum(outcome.page.step_counts) <= 11  # the first are only met
    assert (outcome.page.step_seconds_sum or 0.0) > 0.0
    assert outcome.page.phase_seconds[Phase.TRAINING] > 0.0


@pytest.mark.slow
def test_steps_that_are_done_again_are_told_apart(attempts: Attempts) -> None:
    """Where nothing can be saved the next attempt does all of them again: that is no
    training that brings the run on."""
    script = attempts.script(LOOP)
    attempts.run(script, "eager", "goes on")
    outcome = attempts.run(script, "eager", "goes on")
    assert 5 <= sum(outcome.page.step_counts) <= 11
    assert outcome.page.phase_seconds[Phase.TRAINING] == 0.0
    assert outcome.page.phase_seconds[Phase.REPLAYING] > 0.0


@pytest.mark.slow
def test_a_loop_that_is_followed_counts_as_training(attempts: Attempts) -> None:
    """Its steps are timed one by one."""
    outcome = attempts.run(attempts.script(LOOP), "compiled")
    assert sum(outcome.page.step_counts) == 29
    assert outcome.page.phase_seconds[Phase.TRAINING] > 0.0


@pytest.mark.slow
def test_a_fit_is_none_of_them(attempts: Attempts) -> None:
    """Its steps are saved: nothing is said."""
    outcome = attempts.run(attempts.script(LOOP), "fit")
    assert outcome.code == 0, outcome.err
    assert told(outcome) == []
    assert outcome.page.step == 4


@pytest.mark.slow
def test_beside_a_fit(attempts: Attempts) -> None:
    """``train_on_batch`` is followed like a loop; its counter goes on from the fit's."""
    outcome = attempts.run(attempts.script(LOOP), "fit", "train_on_batch")
    assert outcome.code == 0, outcome.err
    assert told(outcome) == []
    assert [one["bits"] for one in outcome.of(RecordKind.PROMISE)] == [True, True]
    assert outcome.page.step == 5


def test_a_drain_says_that_nothing_is_saved(attempts: Attempts) -> None:
    """It ends at once: there is no boundary to wait for, and no state to save."""
    outcome = attempts.run(attempts.script(LOOP), "eager", "term")
    assert outcome.code == EXIT_DRAINED, outcome.err
    assert "the end" not in outcome.out
    (drained,) = outcome.of(RecordKind.DRAINED)
    assert drained["snapshot"] is None
    assert outcome.page.phase == Phase.BETWEEN
