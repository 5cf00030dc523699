"""What a person is told of snapshots and of the promise, without asking for it."""

import signal

import pytest

from tests.support.command import PATIENCE, Trainwarden

SCRIPT = """
import time
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(640, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("adam", "mse")

def batches():
    while True:
        yield x[:32], x[:32, :1]

class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.02)

model.fit(batches(), steps_per_epoch=20, epochs=EPOCHS, callbacks=[Slow()], verbose=0)
"""
SENTENCE = "the training data come from a Python generator"


@pytest.mark.slow
def test_generator_status_and_changed_script(trainwarden: Trainwarden) -> None:
    """A generator: the run says in one sentence that bits are not promised, and so does
    `status`, beside both intervals and what they rest on. The script is changed then:
    refused, until that is allowed."""
    script = trainwarden.script(SCRIPT.replace("EPOCHS", "900"))
    running = trainwarden.start("run", script)
    told = trainwarden.until(
        lambda s: s["snapshot_plan"] is not None and (s["step"] or 0) > 5
    )
    assert SENTENCE in told["promise"]
    assert told["snapshot_plan"]["memory_seconds"] > 0
    assert told["snapshot_plan"]["durable_seconds"] > 0
    shown = trainwarden("status").stdout
    assert f"bit-identical resume is not promised: {SENTENCE}" in shown
    assert "to memory every" in shown
    assert "to disk every" in shown
    assert "the budget is 1.0%" in shown
    assert "a failure is expected every" in shown
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=PATIENCE)
    assert running.returncode == 75, out
    lines = [line for line in out.splitlines() if SENTENCE in line]
    assert len(lines) == 1, out
    assert "a bit-identical resume is not promised" in lines[0]
    trainwarden.script(SCRIPT.replace("EPOCHS", "1"))
    refused = trainwarden("run", script)
    assert refused.returncode == 2
    assert "changed since its snapshots were made" in refused.stderr
    assert "--accept-changes" in refused.stderr
    allowed = trainwarden("run", "--accept-changes", script)
    assert allowed.returncode == 0, allowed.stdout
    assert trainwarden.json("incidents") == []
