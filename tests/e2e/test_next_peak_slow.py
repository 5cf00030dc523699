"""A validation that will not fit any more is told of before it fails; one that fits is not."""

from typing import Any

import pytest

from tests.support.command import PATIENCE, Trainwarden

pytestmark = pytest.mark.slow

SCRIPT = """
import os, time
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(80, 64)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")
model = keras.Sequential([
    keras.Input((64,)), keras.layers.Dense(512, activation="relu"), keras.layers.Dense(1),
])
model.compile("sgd", keras.losses.BinaryCrossentropy(from_logits=True))
kept = []


class Keeps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if len(kept) > 3:
            time.sleep(0.6)  # the supervisor sees it within an epoch, on a busy machine too

    def on_epoch_end(self, epoch, logs=None):
        if epoch < int(os.environ["GROWS"]):
            kept.append(tf.fill([24 * 2**18], float(epoch)))  # 24 MiB


wide = np.tile(x, (256, 1)), np.tile(y, 256)
model.fit(
    x, y, batch_size=8, epochs=9, validation_data=wide, validation_batch_size=20480,
    callbacks=[Keeps()], verbose=0,
)
"""
TOLD = "advice: the last validations needed at least "


def kinds(job: dict[str, Any]) -> list[str]:
    """What its advisories are about."""
    return [one["kind"] for one in job["advisories"]]


def failures(trainwarden: Trainwarden) -> list[dict[str, Any]]:
    """The incidents that ended an attempt."""
    found = trainwarden.json("incidents")
    return [one for one in found if one["happened"] == "ended"]


def test_a_validation_is_told_of_before_it_fails(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its activations are 40 MiB and more; each epoch leaves 24 MiB of 200 on the device."""
    monkeypatch.setenv("GROWS", "9")
    script = trainwarden.script(SCRIPT)
    process = trainwarden.start("run", "--cpu-memory", "200MiB", script)
    job = trainwarden.until(lambda job: "next_peak" in kinds(job))
    (told,) = [one for one in job["advisories"] if one["kind"] == "next_peak"]
    assert told["attempt"] == 1
    assert told["figures"]["need_bytes"] > told["figures"]["left_bytes"]
    trainwarden.until(lambda job: (job["attempt"] or 0) > 1)
    (failed,) = failures(trainwarden)
    assert failed["cause"] == "device_oom"
    assert (failed["attempt"], failed["failed_step"] % 10) == (1, 0)
    assert "next peak" in trainwarden("status", "train").stdout
    process.terminate()
    said, _ = process.communicate(timeout=PATIENCE)
    assert said.count(TOLD) == 1, said
    assert said.index(TOLD) < said.index("attempt 1 failed at step "), said


def test_nothing_is_said_of_one_that_fits(
    trainwarden: Trainwarden, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same script, which stops growing while its validations still fit."""
    monkeypatch.setenv("GROWS", "3")
    done = trainwarden("run", "--cpu-memory", "200MiB", trainwarden.script(SCRIPT))
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert TOLD not in said
    (job,) = trainwarden.json("status", "train")
    assert "next_peak" not in kinds(job)
