"""A killed run proves its resume, or says that it did not continue to the bit."""

import numpy as np
import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import os, signal, sys, time
import keras
import numpy as np

HIDDEN = "hidden" in sys.argv


class Misfortune(keras.callbacks.Callback):
    count = 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        calls = os.calls = getattr(os, "calls", 0) + 1  # this, no snapshot has
        if HIDDEN:
            self.model.optimizer.learning_rate.assign(0.01 / (1 + calls))
        if self.count in KILLS and not os.path.exists(f"killed-{self.count}"):
            open(f"killed-{self.count}", "w").close()
            time.sleep(1)  # the snapshot of two steps ago is whole then
            os.kill(os.getpid(), signal.SIGKILL)


KILLS = () if "whole" in sys.argv else (26,) if HIDDEN else (26, 45)
keras.utils.set_random_seed(3)
x = np.random.default_rng(1).normal(size=(80, 6)).astype("float32")
y = x.sum(1, keepdims=True)
model = keras.Sequential([
    keras.layers.Dense(8, "relu"), keras.layers.Dropout(0.3), keras.layers.Dense(1),
])
model.compile("adam", "mse")
history = model.fit(
    x, y, batch_size=8, epochs=6, verbose=0, validation_data=(x, y),
    callbacks=[Misfortune()],
)
np.savez(sys.argv[1], *[np.asarray(one) for one in model.variables],
    loss=history.history["loss"])
"""
SPEC = '[snapshots]\nmemory_every = "4 steps"\nevery = "20 steps"\n[restart]\nproof = "first"\n'


def weights(trainwarden: Trainwarden, name: str) -> dict[str, bytes]:
    """What a script left."""
    with np.load(trainwarden.directory / name) as found:
        return {key: found[key].tobytes() for key in found}


@pytest.mark.parametrize(
    "kind", [pytest.param("exact", marks=pytest.mark.slow), "hidden"]
)
def test_killed(trainwarden: Trainwarden, kind: str) -> None:
    """Exact, killed twice: the first restart is proved, the run keeps its promise. State
    that no snapshot holds, killed once: disproved, the promise withdrawn; it goes on from
    the newer snapshot, and ends. Neither costs more than the kills themselves."""
    script = trainwarden.script(SCRIPT)
    spec = trainwarden.script(SPEC, "spec.toml")
    ran = trainwarden("run", "--spec", spec, script, "torn.npz", kind)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    status = trainwarden.status()
    assert status is not None
    incidents = trainwarden.json("incidents")
    assert [one["attempt"] for one in incidents] == (
        [1] if kind == "hidden" else [1, 2]
    )
    first, *others = incidents
    assert (first["restored_step"], first["lost_steps"]) == (24, 1)
    assert [one["proof"] for one in others] == [None] * len(others)
    assert status["proof"] == first["proof"]["sentence"]
    metric = {"proved": 0, "differs": 0, "skipped": 0}
    if kind == "hidden":
        assert status["proofs"] == metric | {"differs": 1}
        assert status["attempt"] == 3
        assert first["proof"]["result"] == "differs"
        assert "kernel" in first["proof"]["because"]
        assert "did not continue to the bit" in status["promise"]
        return
    assert status["proofs"] == metric | {"proved": 1}
    assert first["proof"]["result"] == "proved"
    assert (first["proof"]["steps"], status["promise"]) == (4, None)
    whole = trainwarden("run", "--name", "whole", script, "whole.npz", "whole")
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert weights(trainwarden, "torn.npz") == weights(trainwarden, "whole.npz")
