"""A state that came from memory is not on disk yet, whatever its step."""

from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY
from tests.support.attempts import AttemptOutcome, Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import glob, os, signal, sys, time
import keras
import numpy as np

doing, wanted = sys.argv[1:]


def die():
    ends = time.monotonic() + 20
    while not glob.glob(wanted) and time.monotonic() < ends:
        time.sleep(0.02)
    os._exit(9)


class Misfortune(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if doing == str(batch):
            die()

    def on_test_batch_begin(self, batch, logs=None):
        if doing == "die":
            die()
        if doing == "drain" and batch == 0:
            os.kill(os.getpid(), signal.SIGTERM)


keras.utils.set_random_seed(4)
x = np.linspace(0, 1, 480, dtype="float32").reshape(240, 2)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(
    x, x[:, :1], batch_size=4, verbose=0, callbacks=[Misfortune()],
    validation_data=(x, x[:, :1]), validation_batch_size=4,
)
"""


@pytest.fixture
def attempts(tmp_path: Path, tmpfs: Path, zygote: Zygote) -> Attempts:
    """A run of 60 steps, with a snapshot in memory after each."""
    options = {"memory_directory": str(tmpfs / "memory"), "memory_every_steps": 1}
    return Attempts(tmp_path, options, zygote=zygote)


def restored(outcome: AttemptOutcome) -> tuple[str, int]:
    """What an attempt went on from."""
    (record,) = outcome.of(RecordKind.RESTORED)
    return record["tier"], record["step"]


def on_disk(attempts: Attempts) -> list[int]:
    """Steps of the durable snapshots."""
    names = [path.name for path in attempts.snapshots.iterdir()]
    return sorted(int(name.partition("-")[0]) for name in names if "-" in name)


@pytest.mark.slow
def test_who_crashes_often_is_saved_on_disk_all_the_same(attempts: Attempts) -> None:
    """The interval of the disk goes on from its own newest snapshot: each attempt dies
    before one interval is over since it began."""
    script = attempts.script(SCRIPT)

    def dies(at: int, *, newest: int) -> AttemptOutcome:
        durable = f"{attempts.snapshots}/*{newest}-*[0-9]"
        return attempts.run(script, str(at), durable, snapshot_every_steps=20)

    assert dies(28, newest=20).code == 9
    again = dies(44, newest=40)
    assert (again.code, restored(again)[0]) == (9, MEMORY)
    assert on_disk(attempts) == [20, 40]


def test_a_drain_saves_what_only_memory_has(attempts: Attempts) -> None:
    """In a validation, at the very step of the snapshot in memory."""
    script = attempts.script(SCRIPT)
    newest = f"{attempts.options['memory_directory']}/*60-*[0-9]"
    assert attempts.run(script, "die", newest, snapshot_every_steps=50).code == 9
    drained = attempts.run(script, "drain", "", snapshot_every_steps=50)
    tier, step = restored(drained)
    assert (drained.code, tier, step) == (75, MEMORY, 60)
    assert on_disk(attempts)[-1] == drained.of(RecordKind.DRAINED)[0]["step"] == 60
    assert [
        one["step"] for one in drained.of(RecordKind.SNAPSHOT) if one["tier"] == DURABLE
    ]
