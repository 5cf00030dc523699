"""SIGTERM that finds a child which was forked a moment ago, and SIGTERM that comes again."""

from pathlib import Path

from supervisor.wire.event_file import RecordKind
from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

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


def test_a_request_that_is_repeated_is_one(tmp_path: Path, zygote: Zygote) -> None:
    """However late it comes again: the step is done, and its state saved."""
    attempts = Attempts(tmp_path, zygote=zygote)
    outcome = attempts.run(attempts.script(SLOW_STEP))
    assert outcome.code == 75, outcome.err
    (drained,) = outcome.of(RecordKind.DRAINED)
    assert (drained["step"], drained["snapshot"][:12]) == (3, "000000000003")


AMID_AN_ERROR = """
import os, signal

class MineError(Exception):
    def __str__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        return "of mine"

raise MineError
"""

IN_A_FINALLY = """
import os, signal, time

try:
    raise ValueError("a file of mine")
finally:
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
"""


def test_an_error_that_is_being_reported_is_told_to_its_end(tmp_path: Path) -> None:
    """Asked to end meanwhile, it ends by that error: nobody else would tell of it."""
    attempts = Attempts(tmp_path)
    outcome = attempts.run(attempts.script(AMID_AN_ERROR))
    assert outcome.code == 1, outcome.err
    assert outcome.of(RecordKind.DRAINED) == []
    assert "MineError: of mine" in outcome.err
    assert outcome.paths.crash.exists()


def test_an_error_that_is_on_its_way_is_told_before_it_ends(tmp_path: Path) -> None:
    """Nothing is saved, and the next attempt would come to that error again."""
    attempts = Attempts(tmp_path)
    outcome = attempts.run(attempts.script(IN_A_FINALLY))
    assert outcome.code == 75, outcome.err
    told = [one["sentence"] for one in outcome.of(RecordKind.NOTICE)]
    assert [one for one in told if one.endswith("ValueError: a file of mine")]


def test_a_child_does_not_drain_for_its_parent(tmp_path: Path) -> None:
    """It dies of the signal, and nobody says that the state was saved."""
    attempts = Attempts(tmp_path)
    outcome = attempts.run(attempts.script(SCRIPT))
    assert outcome.code == 0, outcome.err
    assert outcome.out == "child -15\n"
    assert outcome.of(RecordKind.DRAINED) == []
    assert len(outcome.of(RecordKind.FINISHED)) == 1
