"""A batch that cannot be sliced: the next remedy is tried before the run gives up."""

import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import keras, numpy as np

keras.utils.set_random_seed(3)
x = np.random.default_rng(0).normal(size=(2048, 64)).astype("float32")
hidden = inputs = keras.Input(batch_shape=(1024, 64))
for _ in range(8):
    hidden = keras.layers.Dense(512, activation="tanh")(hidden)
    hidden = keras.layers.Dense(64)(hidden)
model = keras.Model(inputs, keras.layers.Dense(1, dtype="float32")(hidden))
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=1024, epochs=2, verbose=0)
print("computed in", model.layers[1].compute_dtype)
"""
SPEC = """
script = "train.py"
name = "train"
[remedies]
mixed_precision = true
"""
LIMIT = "24MiB"
"""Its steps need more in 32 bits, and less in 16."""


@pytest.mark.slow
def test_half_precision_comes_next_where_slices_are_impossible(
    trainwarden: Trainwarden,
) -> None:
    """Nothing was trained yet, and the spec allows it: the whole batch, in 16 bits."""
    trainwarden.script(SCRIPT)
    spec = trainwarden.directory / "job.toml"
    spec.write_text(SPEC)
    done = trainwarden("run", "--cpu-memory", LIMIT, "--spec", spec)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "computed in bfloat16" in done.stdout + done.stderr
    first, second = trainwarden.json("incidents", "train")
    assert first["remedy"]["kind"] == "microbatch"
    assert (second["cause"], second["remedy"]["kind"]) == ("device_oom", "alter")
    assert second["remedy"]["changes"]["precision"][1] == "mixed_bfloat16"
    assert "batches of exactly 1024" in second["because"][0]["text"]
