"""``trainwarden advise``: other ways to read the data, measured on somebody's own script."""

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.core.memory.trial_results import TrialOutcome
from tests.e2e.test_advise_command import patiently
from tests.support.command import Trainwarden

MIB = 2**20
LIMIT = "300MiB"
IMAGES = """
import keras
import numpy as np
import tensorflow as tf

x = np.random.default_rng(1).random((4096, 32, 32, 1), "float32")
y = np.random.default_rng(2).integers(0, 10, 4096)
model = keras.Sequential([
    keras.Input((SIDES, 1)),
    keras.layers.Conv2D(8, 3, padding="same", activation="relu"),
    keras.layers.GlobalAveragePooling2D(),
    keras.layers.Dense(10),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(DATA, epochs=2, verbose=0)
"""
ARRAYS = "x, y, batch_size=64"
SLICES = "tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256, seed=1).batch(64).prefetch(8)"
DATA_BYTES = 4096 * 32 * 32 * 4
IN_PYTHON = """
import time
import keras
import numpy as np
import tensorflow as tf

def read(i):
    time.sleep(0.02)
    return np.full((16,), i % 7, "float32")

def sample(i):
    x = tf.numpy_function(read, [i], tf.float32, stateful=STATEFUL)
    x.set_shape([16])
    return x, tf.reduce_sum(x)

model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(tf.data.Dataset.range(400).map(sample).batch(8), epochs=2, verbose=0)
"""


def tried(
    trainwarden: Trainwarden, text: str, *axes: str
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The trials by their titles, and why others were not made."""
    only = [word for axis in axes for word in ("--only", axis)]
    script: Path = trainwarden.script(text)
    done = patiently(trainwarden, "--json", "--cpu-memory", LIMIT, *only, script)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert {one["outcome"] for one in found["trials"]} == {TrialOutcome.MEASURED}
    left = {one["title"]: one["because"] for one in found["not_tried"]}
    return {one["title"]: one for one in found["trials"]}, left


@pytest.mark.slow
def test_arrays_given_to_fit_are_cut_in_main_memory_and_images_halved(
    trainwarden: Trainwarden,
) -> None:
    """The allocator holds no copy of the data then, and the bits stay; a smaller image is
    another computation."""
    text = IMAGES.replace("SIDES", "None, None").replace("DATA", ARRAYS)
    found, left = tried(trainwarden, text, "arrays", "size", "read_ahead")
    plain, cut = found["as it is"], found["arrays streamed"]
    assert cut["numbers"] == "bits"
    assert plain["peak_bytes"] - cut["peak_bytes"] > 0.9 * DATA_BYTES
    smaller = found["half the size of images"]
    assert smaller["numbers"] == "different computation"
    assert smaller["fit"]["half_size"]
    assert list(left) == ["prefetch(1)"]


@pytest.mark.slow
def test_a_pipeline_of_slices_is_cut_in_main_memory_and_reads_less_ahead(
    trainwarden: Trainwarden,
) -> None:
    """In the order of its own shuffle; some blocks of rows on their way are held instead,
    here an eighth of the data. What was read ahead while the first step was traced
    is not timed."""
    text = IMAGES.replace("SIDES", "32, 32").replace("DATA", SLICES)
    found, left = tried(trainwarden, text, "arrays", "read_ahead", "size")
    plain, cut = found["as it is"], found["arrays streamed"]
    assert cut["numbers"] == found["prefetch(1)"]["numbers"] == "bits"
    assert plain["peak_bytes"] - cut["peak_bytes"] > 0.75 * DATA_BYTES
    assert (plain["fit"]["read_ahead"], plain["fit"]["untimed"]) == (8, 8)
    assert list(left.values()) == ["the model is built for images of 32 x 32 alone"]


@pytest.mark.slow
def test_a_map_in_python_is_called_side_by_side(trainwarden: Trainwarden) -> None:
    """Its samples come in order: the same, to the bit."""
    text = IN_PYTHON.replace("STATEFUL", "True")
    found, left = tried(trainwarden, text, "parallel_maps", "arrays", "cache")
    assert found["map calls in parallel"]["numbers"] == "bits"
    assert found["as it is"]["fit"]["lone_maps"] == 1
    assert "the same in each pass" in left["cache on disk"]


@pytest.mark.slow
def test_what_is_read_slowly_comes_from_a_cache_on_disk(
    trainwarden: Trainwarden,
) -> None:
    """In the order of its shuffle, to the bit, and without the wait for it: 160 ms a step. Where
    Python may give something else in each pass nobody is told to keep it."""
    text = IN_PYTHON.replace("STATEFUL", "False").replace(
        ".map(sample)", ".map(sample, num_parallel_calls=1).shuffle(16, seed=1)"
    )
    found, _ = tried(trainwarden, text, "cache")
    cached = found["cache on disk before shuffle"]
    assert cached["numbers"] == "bits"
    assert cached["fit"]["cache_bytes"] > 400 * 16 * 4
    plain = found["as it is"]
    assert plain["fit"]["cache_bytes"] is None
