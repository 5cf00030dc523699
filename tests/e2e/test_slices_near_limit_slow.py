"""A run that cannot stay at the slices of its spec says so, and why."""

import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import keras
import numpy as np

layers = keras.layers
keras.utils.set_random_seed(1)
x = np.random.default_rng(1).random((640, 32, 32, 3), dtype="float32")
model = keras.Sequential([
    keras.Input((32, 32, 3)),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.MaxPooling2D(),
    layers.Conv2D(64, 3, padding="same", activation="relu"),
    layers.Flatten(),
    layers.Dense(64),
    layers.Dense(10),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile("adam", loss)
model.fit(x, np.arange(640) % 10, batch_size=128, epochs=2, verbose=0)
"""
SPEC = """
script = "train.py"
name = "train"
[compute]
slice = 4
[memory]
cpu = "70MiB"
"""
"""Buffers of 27 MiB, of which a convolution takes one whatever the slice, leave no room."""


@pytest.mark.slow
def test_more_slices_than_the_spec_asks_for_are_told(trainwarden: Trainwarden) -> None:
    """32 slices come near the limit: the run goes on in more, which is in its output, and
    in its status with the figures."""
    trainwarden.script(SCRIPT)
    spec = trainwarden.directory / "job.toml"
    spec.write_text(SPEC)
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "slices, not in 32 as it began: a step needed " in said
    (job,) = trainwarden.json("status", "train")
    (told,) = [one for one in job["advisories"] if one["kind"] == "near_limit"]
    assert told["figures"]["first_slices"] == 32
    assert told["figures"]["slices"] > 32
    assert told["figures"]["peak_bytes"] > 0.98 * told["figures"]["limit_bytes"]
    assert told["sentence"] in trainwarden("status", "train").stdout
