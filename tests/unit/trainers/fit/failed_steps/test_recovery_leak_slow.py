"""Many recoveries in one process leave nothing behind."""

import json
from pathlib import Path

import pytest

from supervisor.wire.event_file import RecordKind
from tests.support.answering import answering
from tests.support.attempts import AttemptOutcome, Attempts

PATIENCE = 900.0
RECOVERIES = 200
SLACK_BYTES = 16 << 20
"""So much more may be resident after the last than after the second: 6.6 MiB were seen,
2.5 of them within the first five; a leak of the model's 66 KiB alone were 13."""
SCRIPT = """
import gc
import keras, numpy as np

keras.utils.set_random_seed(1)
x = np.random.default_rng(0).normal(size=(4096, 64)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((64,)), keras.layers.Dense(256, activation="relu"), keras.layers.Dense(1)
])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))


class Looks(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        gc.collect()
        pages = int(open("/proc/self/statm").read().split()[1])
        with open("sizes.txt", "a") as file:
            file.write(f"{pages * 4096}\\n")


model.fit(x, y, batch_size=32, epochs=4, verbose=0, callbacks=[Looks()])
"""


@pytest.mark.slow
def test_memory_after_many_is_as_after_the_second(tmp_path: Path, tmpfs: Path) -> None:
    """Resident memory, by what the process itself reads when training begins again."""
    options = {
        "memory_directory": str(tmpfs / "tier"),
        "memory_every_steps": 1,
        "snapshot_every_steps": 1000,
        "watch_loss": True,
    }
    attempts = Attempts(tmp_path / "run", options)
    script = attempts.script(SCRIPT)
    steps = tuple(range(4, 4 + 2 * RECOVERIES, 2))
    process, paths = attempts.start(script, in_place=True, lose_at_steps=steps)
    with answering(paths):
        out, err = process.communicate(timeout=PATIENCE)
    outcome = AttemptOutcome(process.returncode, out, err, paths)
    assert outcome.code == 0, outcome.err
    assert len(outcome.of(RecordKind.GOES_ON)) == RECOVERIES
    lines = (attempts.directory / "sizes.txt").read_text().split()
    sizes = list(map(json.loads, lines))
    assert len(sizes) == RECOVERIES + 1
    assert sizes[-1] - sizes[2] < SLACK_BYTES, sizes[::20]
