"""Keras on JAX: watched, restarted and told why it died. Nothing of ours is in its way."""

import os
import sys
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from tests.support.command import Trainwarden

OTHER_BACKENDS = Path(sys.prefix) / "other-backends"
"""Where ``make test-slow`` installs them."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not OTHER_BACKENDS.is_dir(),
        reason="make test-slow installs JAX; it is not here",
    ),
]

BEGINNING = """
import os
os.environ["KERAS_BACKEND"] = "jax"
import keras
import numpy as np

x = np.random.default_rng(1).random((64, 8), "float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
"""
KILLED = f"""{BEGINNING}
model.compile("adam", "mse")
history = model.fit(x, y, epochs=2, verbose=0)
model.evaluate(x, y, verbose=0)
model.save("model.keras")
keras.models.load_model("model.keras")
if not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), 9)
print("backend", keras.backend.backend(), len(history.history["loss"]))
"""
OWN_LOOP = f"""{BEGINNING}
import jax

optimizer = keras.optimizers.Adam()
optimizer.build(model.trainable_variables)


def loss_of(trainable, fixed):
    found, fixed = model.stateless_call(trainable, fixed, x)
    return ((found - y) ** 2).mean(), fixed


@jax.jit
def step(trainable, fixed, slots):
    (loss, fixed), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable, fixed)
    trainable, slots = optimizer.stateless_apply(slots, gradients, trainable)
    return loss, trainable, fixed, slots


state = [
    [one.value for one in many]
    for many in (
        model.trainable_variables, model.non_trainable_variables, optimizer.variables
    )
]
for _ in range(5):
    loss, *state = step(*state)
print("steps", int(state[2][0]))
"""


@pytest.fixture
def trainwarden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trainwarden:
    """The command; its scripts find JAX."""
    monkeypatch.setenv("PYTHONPATH", os.fspath(OTHER_BACKENDS))
    return Trainwarden(tmp_path, tmp_path / "state")


def test_a_fit_is_restarted_and_told_that_it_is_not_resumed(
    trainwarden: Trainwarden,
) -> None:
    """The sentence comes at the start of each attempt; the second one ends."""
    done = trainwarden("run", trainwarden.script(KILLED))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert said.count("the backend is JAX: this run is watched and restarted") == 2
    assert "backend jax 2" in said
    assert [one["cause"] for one in trainwarden.json("incidents")] == [Cause.PREEMPTED]


def test_a_loop_of_the_scripts_own_runs(trainwarden: Trainwarden) -> None:
    """Its optimizer is applied to tracers, inside of ``jax.jit``."""
    done = trainwarden("run", trainwarden.script(OWN_LOOP))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "steps 5" in said
