"""An allocator that finds no memory again and again, each time after a wait of ten seconds:
as XLA's autotuning met on a GPU, where the first step took no end."""

import pytest

from tests.support.command import Trainwarden

SCRIPT = """
import os, sys, time
import keras, numpy as np, tensorflow as tf

class FirstStep(keras.layers.Layer):
    in_fit = False
    def call(self, x):
        if FirstStep.in_fit and not os.path.exists("tried"):
            open("tried", "w").close()
            try_algorithms()
        return x

{algorithms}

model = keras.Sequential([keras.Input((4,)), FirstStep(), keras.layers.Dense(1)])
model.compile("sgd", "mse")
FirstStep.in_fit = True
model.fit(np.zeros((64, 4)), np.zeros((64, 1)), batch_size=16, verbose=0)
"""
AS_AUTOTUNING = """
def try_algorithms():
    time.sleep(5)  # it was looked at before
    # What the allocator leaves behind of a failure: a line, and a dump named by its time.
    for number in range(9):
        at = 1795730577339990 + number * 10_000_000
        open(f"{os.environ['TF_BFC_MEMORY_DUMP']}_GPU_0_bfc.{at}", "w").close()
        print("W0000 00:00:1795730577.339990 6642 bfc_allocator.cc:502] Allocator"
              " (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB (rounded to"
              " 2147483648)requested by op", file=sys.stderr)
    time.sleep(600)
"""
FOR_REAL = """
def try_algorithms():
    with tf.init_scope():
        for _ in range(60):
            try:
                tf.zeros([32, 2**20])  # 128 MiB of 64
            except tf.errors.ResourceExhaustedError:
                pass
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithms", "limits"),
    [(AS_AUTOTUNING, ()), (FOR_REAL, ("--cpu-memory", "64MiB"))],
    ids=["as_autotuning", "for_real"],
)
def test_it_is_ended_and_named(
    trainwarden: Trainwarden, algorithms: str, limits: tuple[str, ...]
) -> None:
    """Not as a hang, and long before anybody would call it one; the next attempt works in
    slices, and tries nothing."""
    script = trainwarden.script(SCRIPT.replace("{algorithms}", algorithms))
    done = trainwarden("run", *limits, script)
    assert done.returncode == 0, done.stdout + done.stderr
    (first,) = trainwarden.json("incidents")
    assert first["cause"] == "device_oom"
    said = first["because"][0]
    assert said["code"] == "refused"
    assert said["text"].startswith("memory ran out 8 times within ")
    assert "GPU_0_bfc" in first["because"][1]["text"] or limits
    assert first["remedy"]["kind"] == "microbatch"
    assert first["remedy"]["changes"]["autotune"] == ["on", "off"]
