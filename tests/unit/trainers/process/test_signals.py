"""SIGTERM that finds a child which was forked a moment ago, and SIGTERM that comes again."""

from pathlib import Path

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts

SCRIPT = """
import os, signal

handler = signal.getsignal(signal.SIGTERM)
child = os.fork()
if child == 0:
    handler(signal.SIGTERM, None)  # as if it came before the child forgot it
    os._exit(1)
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status))
"""

SLOW_STEP = """
import os, signal, time
import keras, numpy as np

class Asked(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            for pause in (0.1, 2.5, 0.1):  # as Slurm does, and once more, later
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(pause)

model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.zeros((64, 2), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[Asked()])
"""


def test_a_request_that_is_repeated_is_one(tmp_path: Path) -> None:
    """However late it comes again: the step is done, and its state saved."""
    attempts = Attempts(tmp_path)
    outcome = attempts.run(attempts.script(SLOW_STEP))
    assert outcome.code == 75, outcome.err
    (drained,) = outcome.of(RecordKind.DRAINED)
    assert (drained["step"], drained["snapshot"][:12]) == (3, "000000000003")


def test_a_child_does_not_drain_for_its_parent(tmp_path: Path) -> None:
    """It dies of the signal, and nobody says that the state was saved."""
    attempts = Attempts(tmp_path)
    outcome = attempts.run(attempts.script(SCRIPT))
    assert outcome.code == 0, outcome.err
    assert outcome.out == "child -15\n"
    assert outcome.of(RecordKind.DRAINED) == []
    assert len(outcome.of(RecordKind.FINISHED)) == 1
