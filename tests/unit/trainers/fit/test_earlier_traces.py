"""A fit of other shapes than one before it gets the trace that it would have got."""

import signal
from pathlib import Path

import pytest

from tests.support.attempts import Attempts
from tests.support.zygote import Zygote

SCRIPT = """
import hashlib, json, os, signal, sys
import keras, numpy as np, tensorflow as tf

keras.utils.set_random_seed(7)
x = np.random.default_rng(0).normal(size=(96, 5)).astype("float32")
y = (x.sum(1) > 0).astype("int32")
model = keras.Sequential([
    keras.Input((5,)), keras.layers.Dense(8, "relu"), keras.layers.BatchNormalization(),
    keras.layers.GaussianNoise(0.1), keras.layers.Dropout(0.3), keras.layers.Dense(2),
])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(keras.optimizers.Adam(0.01), loss)
model.fit(x, y, batch_size=12, epochs=3, verbose=0)  # batches of 12, as TensorFlow knows
if "compiled" in sys.argv:
    model.compile(keras.optimizers.Adam(0.002), loss)
if "die" in sys.argv:
    os.kill(os.getpid(), signal.SIGKILL)
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96).batch(12)
model.fit(data, epochs=2, verbose=0)  # batches of any size
model.fit(x[:48], y[:48], batch_size=12, epochs=8, shuffle=False, verbose=0)
bits = b"".join(np.asarray(one).tobytes() for one in model.variables)
json.dump(hashlib.sha256(bits).hexdigest(), open("result.json", "w"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "also",
    [(), ("compiled",)],
    ids=["as it was", "compiled anew"],
)
def test_killed_between_fits_of_other_shapes(
    tmp_path: Path, zygote: Zygote, also: tuple[str, ...]
) -> None:
    """The same bits as undisturbed, where one trace of the step rounds otherwise than
    another; where the script compiles anew there is no trace of before."""
    ends = []
    for name in ("whole", "torn"):
        attempts = Attempts(tmp_path / name, zygote=zygote)
        script = attempts.script(SCRIPT)
        if name == "torn":
            died = attempts.run(script, *also, "die")
            assert died.code == -signal.SIGKILL, died.err
        done = attempts.run(script, *also)
        assert done.code == 0, done.err
        ends.append((script.parent / "result.json").read_text())
    assert ends[0] == ends[1]
