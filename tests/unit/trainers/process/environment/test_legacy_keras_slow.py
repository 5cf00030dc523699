"""Keras 2 (``tf_keras``): watched, restarted and told why it died. No exact resume."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from supervisor.core.causes import Cause
from tests.support.command import Trainwarden

pytestmark = pytest.mark.slow

if find_spec("tf_keras") is None:
    pytest.skip("tf_keras is not installed", allow_module_level=True)

BEGINNING = """
import os
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np
import tensorflow as tf
"""
KILLED = f"""{BEGINNING}
model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(4,))])
model.compile("sgd", "mse")
model.fit(np.zeros((64, 4)), np.zeros((64, 1)), verbose=0)
if not os.path.exists("died"):
    open("died", "w").close()
    os.kill(os.getpid(), 9)
"""
HUNGRY = f"""{BEGINNING}
given = tf.keras.Input((64, 64, 3))
wide = tf.keras.layers.Conv2D(64, 3, padding="same")(given)
mean = tf.keras.layers.GlobalAveragePooling2D()(wide)
model = tf.keras.Model(given, tf.keras.layers.Dense(1)(mean))
model.compile("sgd", "mse")
model.fit(np.zeros((256, 64, 64, 3), "float32"), np.zeros((256, 1)), batch_size=256)
"""


@pytest.fixture
def trainwarden(tmp_path: Path) -> Trainwarden:
    """The command."""
    return Trainwarden(tmp_path, tmp_path / "state")


def test_it_is_restarted_and_told_that_it_is_not_resumed(
    trainwarden: Trainwarden,
) -> None:
    """The sentence comes at the start of each attempt, and in ``check``."""
    done = trainwarden("run", trainwarden.script(KILLED))
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert said.count("legacy Keras 2: this run is watched and restarted") == 2
    assert [one["cause"] for one in trainwarden.json("incidents")] == [Cause.PREEMPTED]
    checked = {
        one["about"]: one["text"]
        for one in json.loads(trainwarden("check", "--json").stdout)
    }
    assert "fits are not resumed exactly" in checked["tf_keras"]


def test_its_out_of_memory_is_named(trainwarden: Trainwarden) -> None:
    """And nothing is promised of slices: the run stops and says what it was."""
    done = trainwarden("run", "--cpu-memory", "128MiB", trainwarden.script(HUNGRY))
    assert done.returncode == 1
    assert trainwarden.json("incidents")[-1]["cause"] == Cause.DEVICE_OOM
