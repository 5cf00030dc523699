"""An allocator that finds no memory again and again, each time after a wait of ten seconds:
as XLA's autotuning met on a GPU, where the first step took no end."""

import pytest

from tests.support.command import Trainwarden

AS_AUTOTUNING = """
import os, sys, time

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
import tensorflow as tf

for _ in range(60):
    try:
        tf.zeros([32, 2**20])  # 128 MiB of 64
    except tf.errors.ResourceExhaustedError:
        pass
"""


@pytest.mark.parametrize(
    ("script_text", "limits"),
    [
        (AS_AUTOTUNING, ()),
        pytest.param(FOR_REAL, ("--cpu-memory", "64MiB"), marks=pytest.mark.slow),
    ],
    ids=["as_autotuning", "for_real"],
)
def test_it_is_ended_and_named(
    trainwarden: Trainwarden, script_text: str, limits: tuple[str, ...]
) -> None:
    """Not as a hang, and long before anybody would call it one."""
    script = trainwarden.script(script_text)
    process = trainwarden.start("run", *limits, script)
    trainwarden.until(lambda status: bool(status["incidents"]))
    trainwarden("stop", "train")
    process.wait(60)
    first = trainwarden.json("incidents")[0]
    assert first["cause"] == "device_oom"
    said = first["because"][0]
    assert said["code"] == "refused"
    assert said["text"].startswith("memory ran out 8 times within ")
    assert "GPU_0_bfc" in first["because"][1]["text"] or limits
