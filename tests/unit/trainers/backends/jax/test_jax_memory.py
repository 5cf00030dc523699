"""The figures of JAX's allocator: as a GPU told them, and on the page of an attempt."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.page import MemorySource
from supervisor.wire.readings import unpack
from tests.support.attempts import Attempts
from tests.support.zygote import OTHER_BACKENDS
from trainers.backends.jax.jax_memory import JaxReader, figures_of

SEEN = Path(__file__).parents[4] / "gpu" / "seen" / "memory_stats_jax.json"
RECORDED: dict[str, Any] = json.loads(SEEN.read_text())
"""An H100: 40 blocks of 16 MiB, of which every second one was given back then."""
MIB = 2**20
BLOCK = 16 * MIB
LIMIT = 63763906560

SCRIPT = f"""
import json, sys
import keras, numpy as np
from trainers.backends.jax import jax_backend

class Device:
    platform = "gpu"
    steps = 0

    def memory_stats(self):
        told = json.load(open({str(SEEN)!r}))
        return told["full" if Device.steps < 8 else "holes"]

class Counting(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        Device.steps += 1

if sys.argv[1] == "gpu":
    jax_backend.device_in_use = Device
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.zeros((96, 4), "float32")
model.fit(x, x[:, :1], batch_size=8, verbose=0, callbacks=[Counting()])
"""


def test_figures_of_a_real_gpu() -> None:
    """The pool is all of the limit from the start, and most of it is one free block behind
    the holes: that is little fragmentation."""
    full, holes = figures_of(RECORDED["full"]), figures_of(RECORDED["holes"])
    assert full is not None
    assert holes is not None
    assert full.source is holes.source is MemorySource.COUNTS
    assert full.limit == full.pool == LIMIT
    assert (full.in_use, holes.in_use) == (40 * BLOCK, 20 * BLOCK)
    assert full.peak == holes.peak == 40 * BLOCK + 256
    assert full.fragmentation == pytest.approx(0.0, abs=1e-6)
    assert full.largest_allocatable == LIMIT - 40 * BLOCK - 512
    # The last block was given back as well, and is one with what lies behind it.
    assert holes.fragmentation == pytest.approx(
        19 * BLOCK / (LIMIT - 20 * BLOCK), rel=1e-5
    )
    assert holes.largest_allocatable == LIMIT - 39 * BLOCK - 512
    assert holes.largest_request == BLOCK
    assert holes.chunks is None


def test_what_a_cpu_tells() -> None:
    """None, or nothing: there are no figures."""
    assert figures_of(None) is None
    assert figures_of({}) is None


def test_an_allocator_without_blocks() -> None:
    """Of one that counts no pool and no free blocks those are not known, and not 0."""
    told = {
        "bytes_in_use": 5 * MIB,
        "peak_bytes_in_use": 7 * MIB,
        "bytes_limit": 0,
        "pool_bytes": 0,
        "largest_free_block_bytes": 0,
        "largest_alloc_size": 0,
    }
    found = figures_of(told)
    assert found is not None
    assert found.source is MemorySource.ESTIMATE
    assert (found.in_use, found.peak) == (5 * MIB, 7 * MIB)
    assert {found.limit, found.pool, found.largest_free, found.fragmentation} == {None}
    assert {found.largest_request, found.largest_allocatable} == {None}


def test_largest_free_block_of_older_versions() -> None:
    """It is always 0 there: that is no fragmentation."""
    found = figures_of({**RECORDED["holes"], "largest_free_block_bytes": 0})
    assert found is not None
    assert found.largest_free is None
    assert found.fragmentation is None
    assert found.largest_allocatable == LIMIT - 20 * BLOCK


@given(
    st.dictionaries(
        st.sampled_from(sorted(RECORDED["full"])), st.integers(0, 2**40), max_size=12
    )
)
def test_figures_make_sense(stats: dict[str, int]) -> None:
    """Whatever is told, and whatever is missing."""
    found = figures_of(stats)
    if found is None:
        assert not {"bytes_in_use", "peak_bytes_in_use"} <= stats.keys()
        return
    assert found.in_use == stats["bytes_in_use"] <= found.peak
    assert found.fragmentation is None or 0 <= found.fragmentation <= 1
    assert found.largest_allocatable is None or found.largest_allocatable >= 0
    if found.pool is not None:
        assert found.in_use + (found.largest_free or 0) <= found.pool


def test_device_in_trouble() -> None:
    """Nothing is read, and the step says what is wrong."""

    class Broken:
        def memory_stats(self) -> None:
            message = "INTERNAL: CUDA error"
            raise RuntimeError(message)

    reader = JaxReader(Broken())
    assert reader.read() is None
    assert reader.counts() is None
    assert not reader.begin()


@pytest.mark.skipif(not OTHER_BACKENDS.is_dir(), reason="JAX is not here")
def test_page_of_an_attempt(tmp_path: Path) -> None:
    """What a device tells gets to the page; a CPU tells nothing, and nothing is there."""
    attempts = Attempts(tmp_path)
    script = attempts.script(SCRIPT)
    environment = {"KERAS_BACKEND": "jax", "PYTHONPATH": str(OTHER_BACKENDS)}
    plain = attempts.run(script, "cpu", environment=environment)
    assert plain.code == 0, plain.err
    assert plain.page.step == 12
    assert plain.page.memory_source is None
    assert plain.page.memory_in_use_bytes is None
    assert not any(plain.page.memory_recent)
    told = attempts.run(script, "gpu", environment=environment, restore=False)
    assert told.code == 0, told.err
    page = told.page
    assert page.memory_source == MemorySource.COUNTS
    assert page.memory_limit_bytes == page.memory_pool_bytes == LIMIT
    assert page.memory_peak_bytes == 40 * BLOCK  # what was more was before the fit
    assert page.memory_in_use_bytes in {20 * BLOCK, 40 * BLOCK}
    assert page.memory_fragmentation is not None
    assert page.memory_largest_allocatable_bytes is not None
    readings = unpack(page.memory_recent, after_ns=0)
    assert readings[0].limit == LIMIT
    assert [one["peak_bytes"] for one in told.of("peak")] in ([], [40 * BLOCK])


def test_what_was_needed_before_is_not_of_these_steps() -> None:
    """Peaks of JAX cannot be reset: a large predict before ``fit`` is no need of a step."""
    gib = 2**30
    told = {
        "bytes_in_use": 2 * gib,
        "peak_bytes_in_use": 57 * gib,
        "bytes_limit": 60 * gib,
        "largest_alloc_size": 50 * gib,
    }

    class Device:
        def memory_stats(self) -> dict[str, int]:
            return told

    reader = JaxReader(Device())
    assert reader.begin()
    first = reader.read()
    assert first is not None
    assert (first.peak, first.largest_request) == (2 * gib, None)
    told["bytes_in_use"] = 5 * gib
    reader.read()
    told |= {"bytes_in_use": 3 * gib, "largest_alloc_size": 51 * gib}
    second = reader.read()
    assert second is not None
    assert (second.peak, second.largest_request) == (5 * gib, 51 * gib)
    told["peak_bytes_in_use"] = 58 * gib
    third = reader.read()
    assert third is not None
    assert third.peak == 58 * gib
