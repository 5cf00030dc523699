"""A remedy is told as in force once the attempt has confirmed it, and not before."""

import pytest

from tests.support.command import Trainwarden
from tests.support.samples import sampled

MIXED = "mixed_bfloat16"
SCRIPT = """
import importlib.util, os
for name in ("tensorflow", "keras") * 2:
    assert importlib.util.find_spec(name) is not None
import tensorflow as tf
import keras
import numpy as np
{own}
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")

class Short(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 2 and not os.path.exists("short"):
            open("short", "w").close()
            message = "OOM when allocating tensor with shape[1,2]"
            raise tf.errors.ResourceExhaustedError(None, None, message)

x = np.ones((6, 2), "float32")
model.fit(x, x[:, :1], batch_size=1, verbose=0, callbacks=[Short()])
print("computed in", model.layers[-1].compute_dtype)
"""
SPEC = """
script = "train.py"
name = "train"
[remedies]
mixed_precision = true
"""


@pytest.mark.parametrize(
    "own", sampled(["", "keras.config.set_dtype_policy('float32')"], "")
)
def test_precision_is_told_as_it_is(trainwarden: Trainwarden, own: str) -> None:
    """In force though the script looked for TensorFlow first; where the script sets its
    own policy that is a warning, and stays visible."""
    trainwarden.script(SCRIPT.format(own=own))
    spec = trainwarden.directory / "job.toml"
    spec.write_text(SPEC)
    done = trainwarden("run", "--spec", spec)
    assert done.returncode == 0, done.stdout + done.stderr
    status = trainwarden.status()
    assert status is not None
    (incident,) = trainwarden.json("incidents", "train")
    assert incident["remedy"]["changes"]["precision"] == ["the script's", MIXED]
    said = f"precision {MIXED}: asked for, and not in force"
    told = (done.stdout + done.stderr).count(said)
    explained = trainwarden("explain", str(incident["id"])).stdout
    shown = trainwarden("status").stdout
    if own:
        assert (status["overrides"], status["unmet"]) == ({}, {"precision": MIXED})
        assert told == 1
        assert "asked for, and not in force" in " ".join(explained.split())
        assert f"but not possible: precision {MIXED}" in shown
    else:
        assert (status["overrides"], status["unmet"]) == ({"precision": MIXED}, {})
        assert (told, status["asked"]) == (0, {})
        assert f"set after crashes: precision {MIXED}" in shown
