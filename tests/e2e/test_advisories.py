"""A script that waits for its data is told so: while it runs, and afterwards."""

import pytest

from tests.support.command import Trainwarden

WAITS = """
import time
import keras, numpy as np, tensorflow as tf

x = np.random.default_rng(0).normal(size=(400, 8)).astype("float32")
y = x.sum(axis=1, keepdims=True)


def late(row):
    time.sleep(0.02)
    return row


def read(a, b):
    return tf.ensure_shape(tf.numpy_function(late, [a], tf.float32), (8,)), b


data = tf.data.Dataset.from_tensor_slices((x, y)).map(read).batch(4)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(data, epochs=2, verbose=0)
"""


@pytest.mark.slow
def test_it_is_told_everywhere(trainwarden: Trainwarden) -> None:
    """It is said once, stands in ``status`` while it holds, and in ``explain`` and the
    report when the run is over."""
    script = trainwarden.script(WAITS)
    process = trainwarden.start("run", script)
    living = trainwarden.until(lambda job: any(job["advisories"]))
    (told,) = living["advisories"]
    assert (told["kind"], told["active"], told["attempt"]) == ("input_bound", True, 1)
    assert told["figures"]["waited_ratio"] > 0.5
    said, _ = process.communicate(timeout=180)
    assert process.returncode == 0, said
    assert said.count("advice: training waits for its data") == 1

    (ended,) = trainwarden.json("status")
    assert [one["active"] for one in ended["advisories"]] == [False]
    assert (
        "advice (input bound, seen in attempt 1): training waits"
        in trainwarden("status").stdout
    )
    explained = trainwarden("explain")
    assert "nothing went wrong" in explained.stdout
    assert "num_parallel_calls" in explained.stdout
    (known,) = trainwarden.json("explain")["advisories"]
    assert known["kind"] == "input_bound"
    page = trainwarden("report", "train", "-o", "-").stdout
    assert '<h2 id="advice-heading">Advice</h2>' in page
    assert "training waits for its data" in page


SEARCHES = """
import sys, time

for size in ("785.27MiB", "2.20GiB"):
    print(
        "2024-05-18 08:20:15: W tensorflow/core/common_runtime/bfc_allocator.cc:239] Allocator"
        f" (GPU_0_bfc) ran out of memory trying to allocate {size} with freed_by_count=0. The"
        " caller indicates that this is not a failure, but may mean that there could be"
        " performance gains if more memory were available.",
        file=sys.stderr,
        flush=True,
    )
time.sleep(3)
"""


def test_what_the_log_tells_is_told_while_it_runs(trainwarden: Trainwarden) -> None:
    """Of a log of two lines, long before a block of it is full."""
    script = trainwarden.script(SEARCHES)
    process = trainwarden.start("run", script)
    living = trainwarden.until(lambda job: any(job["advisories"]))
    (told,) = living["advisories"]
    assert (told["kind"], told["figures"]["requests"]) == ("autotuning", 2)
    said, _ = process.communicate(timeout=180)
    assert process.returncode == 0, said
    assert said.count("advice: cuDNN or XLA asked 2 times") == 1
    assert told["figures"]["largest_bytes"] == int(2.2 * 2**30)
