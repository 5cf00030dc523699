"""Where an attempt is killed, or stops, by plan."""

import json
import signal
from pathlib import Path

import pytest

from supervisor.wire.messages.directive import EXIT_DRAINED
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import keras, numpy as np

class Steps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        with open("steps", "a") as file:
            print(int(self.model.optimizer.iterations), file=file)

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(np.ones((40, 2)), np.ones((40, 1)), batch_size=4, epochs=2, verbose=0,
          shuffle=False, callbacks=[Steps()])
open("ended", "w").close()
"""


@pytest.fixture
def attempts(tmp_path: Path, zygote: Zygote) -> Attempts:
    """Of a run in a directory of its own."""
    return Attempts(tmp_path / "run", zygote=zygote)


def test_an_attempt_dies_and_the_next_stops_where_that_was_planned(
    attempts: Attempts,
) -> None:
    """Killed after step 7, from the snapshot of step 6; the state is saved at step 15."""
    script = attempts.script(SCRIPT)
    attempts.options |= {"snapshot_every_steps": 3, "stop_at_step": 15}
    died = attempts.run(script, die_at_step=7, die_after_seconds=0.0)
    assert died.code == -signal.SIGKILL, died.err
    stopped = attempts.run(script)
    assert stopped.code == EXIT_DRAINED, stopped.err
    assert not (attempts.directory / "ended").exists()
    steps = [int(line) for line in (attempts.directory / "steps").read_text().split()]
    assert steps[-1] == 15
    newest = max(attempts.snapshots.glob("*-*"), key=lambda path: path.name)
    assert json.loads((newest / "manifest.json").read_text())["step"] == 15
