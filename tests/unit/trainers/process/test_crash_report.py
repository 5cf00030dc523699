"""What goes wrong inside of ``fit``, and what is said of it."""

from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import RefusalReason
from tests.support.attempts import AttemptOutcome, Attempts

SCRIPT = """
import os, resource, signal, sys, threading, time
import numpy as np
import keras
import trainers

assert trainers.WHO == "the project's own"

keras.utils.set_random_seed(1)
x = np.random.rand(64, 200).astype("float32")
y = x[:, :1]

def make():
    model = keras.Sequential([keras.layers.Dense(int(os.environ.get("WIDTH", "500"))),
                              keras.layers.Dense(1)])
    model.compile("adam", "mse", jit_compile=False)
    return model

def settle():
    for thread in threading.enumerate():
        if thread.name == "trainwarden-saver":
            thread._target.__self__.wait()  # it lives on: for its work

class FullDisk(keras.callbacks.Callback):
    # no file can grow beyond 200 kB during the third and fourth step
    def on_train_batch_end(self, batch, logs=None):
        settle()
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = 200_000 if batch in (2, 3) else limits[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))

class Inner(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        make().fit(x[:8], y[:8], verbose=0)

class Unsavable(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.lines = (line for line in "abc")

model = make()
model.train_on_batch(x[:4], y[:4])
model.train_on_batch(x[:4], y[:4])
model.fit(x, y, batch_size=8, epochs=1, verbose=0,
          callbacks=[FullDisk(), Inner(), Unsavable()])

def batches():
    while True:
        yield x[:8], y[:8]

class Fails(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2:
            raise MemoryError("too large")

try:
    model.fit(x, y, batch_size=16, verbose=0, callbacks=[Fails()])
except MemoryError:
    model.fit(batches(), steps_per_epoch=5, verbose=0)

class Stuck(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3:
            settle()
            os.kill(os.getpid(), signal.SIGTERM)  # asks for a drain
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGTERM)  # the same request, by another way
            time.sleep(2.2)
            os.kill(os.getpid(), signal.SIGTERM)  # and so does a scheduler that repeats it
            print("still there", flush=True)

model.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Stuck()])
"""


def sentences(outcome: AttemptOutcome, kind: str) -> str:
    """All sentences of one kind of records."""
    return "\n".join(fields["sentence"] for fields in outcome.of(kind))


@pytest.mark.slow
def test_what_goes_wrong_is_told_and_training_goes_on(tmp_path: Path) -> None:
    """A full disk, a failed fit that the script tries again, a fit in a fit, a
    generator, a callback that cannot be saved, a SIGTERM that is repeated: each is told, also in
    a project with a package ``trainers`` of its own. Then a model that is not the
    snapshot's is refused before it trains."""
    options = {
        "snapshot_every_steps": 2,
        "memory_limit_bytes": 400 * 2**20,
        "rewind": (".",),  # as always: loops are followed then
    }
    attempts = Attempts(tmp_path, options)
    allocator = {
        "TF_CPU_ALLOCATOR_USE_BFC": "1",
        "TF_CPU_BFC_MEM_LIMIT_IN_MB": "400",
    }
    attempts.script('WHO = "the project\'s own"', "trainers/__init__.py")
    script = attempts.script(SCRIPT)
    outcome = attempts.run(script, environment=allocator)
    assert outcome.code == 75, outcome.err
    assert outcome.out.endswith("still there\n")
    failed = outcome.of(RecordKind.SNAPSHOT_FAILED)
    assert [record["step"] for record in failed] == [6]
    assert failed[0]["errno"] is not None
    steps = [record["step"] for record in outcome.of(RecordKind.SNAPSHOT)]
    assert steps == [4, 8, 10, 10, 12, 15, 17, 18, 20, 22]
    assert [fields["step"] for fields in outcome.of(RecordKind.FIT_ENDED)] == [10, 18]
    assert outcome.of(RecordKind.FIT_FAILED)[0]["step"] == 13  # the script tries again
    assert "a fit inside a fit" in sentences(outcome, RecordKind.NOTICE)
    assert "Python generator" in sentences(outcome, RecordKind.PROMISE)
    assert "Unsavable keeps builtins.generator in lines" in sentences(
        outcome, RecordKind.PROMISE
    )
    assert outcome.of(RecordKind.PEAK)[0]["peak_bytes"] > 1_000_000
    assert outcome.of(RecordKind.PEAK)[0]["slice_size"] == 8
    assert [fields["step"] for fields in outcome.of(RecordKind.DRAINED)] == [22]
    assert outcome.page.memory_limit_bytes == 400 * 2**20

    other = attempts.run(script, environment={**allocator, "WIDTH": "501"})
    assert other.code == 78
    assert "is not that of the snapshot" in sentences(other, RecordKind.REFUSED)
    assert other.of(RecordKind.REFUSED)[0]["reason"] == RefusalReason.MODEL_CHANGED
    assert "shape" in other.err
