"""A run on a GPU that others use, that is slowed, and whose link is narrow, is told so."""

import os
from pathlib import Path

import pytest

from tests.support.command import Trainwarden
from tests.support.fake_nvml import GIB, FakeNvml

pytestmark = pytest.mark.slow

TRAINS = """
import time
import keras, numpy as np

x = np.random.default_rng(0).normal(size=(64, 8)).astype("float32")
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
until = time.monotonic() + 75


class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.2)

    def on_epoch_end(self, epoch, logs=None):
        self.model.stop_training = time.monotonic() > until


model.fit(x, x[:, :1], batch_size=8, epochs=1000, verbose=0, callbacks=[Slow()])
"""
HOT = 0x40


@pytest.mark.parametrize("healthy", [False, True])
def test_what_the_driver_says_of_it(
    trainwarden: Trainwarden,
    library: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    healthy: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    """Of a healthy GPU nothing is said, but that TensorFlow does not find it: there is
    none."""
    fake = FakeNvml(library, tmp_path / "script")
    fake.gpus(1)
    fake.set({"0.processes": "", "0.utilization": 97})
    if not healthy:
        stranger = f"{os.getpid()}:{15 * GIB}:4294967295"
        ill = {"processes": stranger, "lanes": 8, "throttle": HOT, "clock.sm": 990}
        fake.set({f"0.{key}": value for key, value in ill.items()})
    for name in ("LD_LIBRARY_PATH", "FAKE_NVML"):
        monkeypatch.setenv(name, fake.environment[name])
    done = trainwarden("run", trainwarden.script(TRAINS))
    assert done.returncode == 0, done.stdout + done.stderr
    (ended,) = trainwarden.json("status")
    told = {one["kind"]: one for one in ended["advisories"]}
    assert told.pop("unused_gpu")["figures"] == {"gpus": 1}
    if healthy:
        assert told == {}
        return
    assert set(told) == {"shared_gpu", "throttling", "pcie_width"}
    assert told["shared_gpu"]["figures"]["other_pid"] == os.getpid()
    assert told["pcie_width"]["figures"] == {"lanes": 8, "most_lanes": 16}
    assert told["throttling"]["figures"]["clock_ratio"] == pytest.approx(0.5)
    assert "hardware thermal" in told["throttling"]["sentence"]
