"""What common advice about memory gets wrong, by the allocator that GPUs use."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

LIMIT_MIB = 128

BATCHES = """
import json, keras, numpy as np, tensorflow as tf
layers = keras.layers
model = keras.Sequential([keras.Input((8,)),
    *(layers.Dense(512, "relu") for _ in range(4)), layers.Dense(1)])
model.compile("sgd", "mse", run_eagerly=True)  # nothing runs at once, by chance
peaks = {}
for batch in (512, 1024, 2048, 4096):
    x, y = np.zeros((batch, 8), "float32"), np.zeros((batch, 1), "float32")
    model.train_on_batch(x, y)
    tf.config.experimental.reset_memory_stats("CPU:0")
    model.train_on_batch(x, y)
    peaks[batch] = tf.config.experimental.get_memory_info("CPU:0")["peak"]
print(json.dumps(peaks))
"""

PIECES = """
import gc, json, keras, tensorflow as tf
MIB = 2**20
blocks = [tf.zeros([MIB], tf.uint8) for _ in range(108)]
kept = blocks[::2]
del blocks

def fits(size):
    try:
        tf.zeros([size * MIB], tf.uint8)
    except tf.errors.ResourceExhaustedError:
        return False
    return True

def free():
    return LIMIT - tf.config.experimental.get_memory_info("CPU:0")["current"] // MIB

found = {"free": free(), "before": fits(40)}
keras.backend.clear_session()
gc.collect()
found["after clear_session"] = fits(40)
kept.clear()
found["nothing kept"] = fits(40)
print(json.dumps(found))
"""


def told_by(script: str, directory: Path) -> dict[str, Any]:
    """What a script prints as JSON that computes under a limit of 128 MiB."""
    file = directory / "script.py"
    file.write_text(f"LIMIT = {LIMIT_MIB}\n{script}")
    done = subprocess.run(
        [sys.executable, str(file)],
        env={
            **os.environ,
            "TF_CPU_ALLOCATOR_USE_BFC": "1",
            "TF_CPU_BFC_MEM_LIMIT_IN_MB": str(LIMIT_MIB),
            "TF_ENABLE_ONEDNN_OPTS": "0",
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.slow
def test_memory_grows_no_faster_than_the_batch(tmp_path: Path) -> None:
    """Not "exponentially": a sample more never takes more than the one before it did, but
    for a tenth. So slices of half the size take about half of what grows."""
    peaks = told_by(BATCHES, tmp_path)
    sizes = sorted(map(int, peaks))
    per_sample = [
        (peaks[str(large)] - peaks[str(small)]) / (large - small)
        for small, large in itertools.pairwise(sizes)
    ]
    assert all(0 < b < 1.1 * a for a, b in itertools.pairwise(per_sample)), peaks


@pytest.mark.slow
def test_clearing_the_session_does_not_cure_fragmentation(tmp_path: Path) -> None:
    """It frees what Keras holds of its graphs; blocks that the script keeps stay where they
    are, between the free ones. What helps is to keep nothing, or a fresh process."""
    found = told_by(PIECES, tmp_path)
    assert found.pop("free") > 60
    assert found == {
        "before": False,
        "after clear_session": False,
        "nothing kept": True,
    }
