"""Where a callback runs decides which deadline of ``[liveness]`` is its own."""

import json
from pathlib import Path

from supervisor.core.liveness.hang_detection import PHASES
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import json
import keras, numpy as np
from trainers.process.attempt_reporting import current

seen = {}


class Asks(keras.callbacks.Callback):
    def asks(self, where):
        seen.setdefault(where, []).append(current().phase.name.lower())

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            self.asks("between two steps")

    def on_epoch_end(self, epoch, logs=None):
        self.asks("between two epochs")

    def on_epoch_begin(self, epoch, logs=None):
        if epoch:
            self.asks("between two epochs")


x = np.ones((32, 1), "float32")
model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x, batch_size=8, epochs=2, verbose=0, callbacks=[Asks()])
json.dump(seen, open("result.json", "w"))
"""


def test_only_callbacks_between_epochs_have_the_time_of_startup(
    tmp_path: Path, zygote: Zygote
) -> None:
    """Those between two steps of an epoch count as part of a step."""
    attempts = Attempts(tmp_path / "run", {}, zygote=zygote)
    ended = attempts.run(attempts.script(SCRIPT))
    assert ended.code == 0, ended.err
    seen = json.loads((attempts.directory / "result.json").read_text())
    deadlines = {where: {PHASES[one] for one in all_} for where, all_ in seen.items()}
    assert deadlines == {
        "between two steps": {"step"},
        "between two epochs": {"startup"},
    }
