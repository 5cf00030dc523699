"""The figures of PyTorch's allocator, as a GPU told them."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.page import MemorySource
from trainers.backends.memory.allocator_figures import Figures
from trainers.backends.torch.torch_memory import (
    TorchReader,
    figures_of,
    splits_are_stuck,
)

SEEN = Path(__file__).parents[4] / "gpu" / "seen" / "memory_stats_torch.json"
RECORDED: dict[str, Any] = json.loads(SEEN.read_text())
"""An H100: 40 blocks of 16 MiB, of which every second one was given back then."""
FREE, WHOLE = RECORDED["mem_get_info"]
MIB = 2**20
BLOCK = 16 * MIB
USED, PEAK = "allocated_bytes.all.current", "allocated_bytes.all.peak"
POOL, SPLIT = "reserved_bytes.all.current", "inactive_split_bytes.all.current"


def known(stats: dict[str, int], **more: Any) -> Figures:
    """Figures that are there."""
    found = figures_of(stats, **more)
    assert found is not None
    return found


def test_figures_of_a_real_gpu() -> None:
    """Blocks that are segments of their own go back to the device when room is needed:
    holes of them are no fragmentation."""
    device = (FREE, WHOLE)
    full = known(RECORDED["full"], device=device, fraction=1.0)
    holes = known(RECORDED["holes"], device=device, fraction=1.0)
    assert full.source is holes.source is MemorySource.COUNTS
    assert (full.in_use, holes.in_use) == (40 * BLOCK, 20 * BLOCK)
    assert full.pool == holes.pool == full.peak == holes.peak == 40 * BLOCK
    assert full.limit == holes.limit == FREE + 40 * BLOCK < WHOLE
    assert full.fragmentation == holes.fragmentation == 0.0
    assert holes.largest_allocatable == FREE + 20 * BLOCK
    assert {holes.largest_free, holes.chunks, holes.largest_request} == {None}


def test_limit_of_a_fraction() -> None:
    """``set_per_process_memory_fraction`` is a part of the whole device, and counts where
    less than that is left, too."""
    part = known(RECORDED["full"], device=(FREE, WHOLE), fraction=0.06)
    assert part.limit == int(0.06 * WHOLE)
    crowded = known(RECORDED["full"], device=(BLOCK, WHOLE), fraction=0.06)
    assert crowded.limit == 41 * BLOCK
    assert known(RECORDED["full"], device=(FREE, WHOLE)).limit == FREE + 40 * BLOCK
    assert known(RECORDED["full"]).limit is None


def test_free_parts_of_segments_are_stuck() -> None:
    """They are told as fragmentation, and no large block is made of them."""
    stats = {USED: 50, PEAK: 90, POOL: 100, SPLIT: 20}
    found = known(stats, device=(10, 200))
    assert found.fragmentation == 20 / 50
    assert found.largest_allocatable == 40  # 10 of the device, 30 that go back to it
    unknown = known(stats, device=(10, 200), splits_stuck=False)
    assert unknown.fragmentation is None
    assert unknown.largest_allocatable == 60


def test_whose_splits_are_stuck() -> None:
    """Not those of segments that shrink, nor of an allocator that counts none."""
    expandable = "garbage_collection_threshold:0.8, expandable_segments: True"
    assert splits_are_stuck("native", {})
    assert splits_are_stuck(
        "native", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}
    )
    assert not splits_are_stuck("native", {"PYTORCH_ALLOC_CONF": expandable})
    assert not splits_are_stuck("native", {"PYTORCH_CUDA_ALLOC_CONF": expandable})
    assert not splits_are_stuck("cudaMallocAsync", {})


@given(
    st.dictionaries(
        st.sampled_from([USED, PEAK, POOL, SPLIT]), st.integers(0, 2**40), max_size=4
    ),
    st.none() | st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)),
    st.none() | st.floats(0, 1),
)
def test_figures_make_sense(
    stats: dict[str, int], device: tuple[int, int] | None, fraction: float | None
) -> None:
    """Whatever is told, and whatever is missing."""
    found = figures_of(stats, device=device, fraction=fraction)
    if found is None:
        assert not {USED, PEAK} <= stats.keys()
        return
    assert found.fragmentation is None or 0 <= found.fragmentation <= 1
    assert found.largest_allocatable is None or found.largest_allocatable >= 0
    assert found.pool == stats.get(POOL)
    assert (found.fragmentation is None) == (not {POOL, SPLIT} <= stats.keys())


class Cuda:
    """``torch.cuda``, as far as it is asked; it tells what was recorded."""

    initialized = True
    broken = False
    resets = 0

    def get_allocator_backend(self) -> str:
        """PyTorch's own."""
        return "native"

    def is_initialized(self) -> bool:
        """Whether it has begun to use the GPU."""
        return self.initialized

    def reset_peak_memory_stats(self, _device: Any) -> None:
        """Counted."""
        self.resets += 1

    def memory_stats(self, _device: Any) -> dict[str, int]:
        """What was recorded."""
        if self.broken:
            message = "CUDA error: an illegal memory access was encountered"
            raise RuntimeError(message)
        stats: dict[str, int] = RECORDED["holes"]
        return stats

    def memory_stats_as_nested_dict(self, device: Any) -> dict[str, Any]:
        """Nothing, as long as the GPU is not used."""
        stats = self.memory_stats(device) if self.initialized else {}
        if not stats:
            return {}
        counted = {"current": stats[USED], "peak": stats[PEAK]}
        return {"allocated_bytes": {"all": counted}}

    def mem_get_info(self, _device: Any) -> tuple[int, int]:
        """What was recorded."""
        assert self.initialized, "this would take memory of a GPU that nobody uses"
        return FREE, WHOLE


def test_gpu_that_is_not_used_yet() -> None:
    """It is not touched: that would take memory of it."""
    cuda = Cuda()
    cuda.initialized = False
    reader = TorchReader(cuda, None)
    assert reader.begin()
    assert cuda.resets == 0
    assert reader.read() is None
    assert reader.counts() is None
    cuda.initialized = True
    found = reader.read()
    assert found is not None
    assert found.limit == FREE + 40 * BLOCK  # this PyTorch tells no fraction
    assert reader.counts() == (20 * BLOCK, 40 * BLOCK)
    assert reader.begin()
    assert cuda.resets == 1


@pytest.mark.parametrize("ask", ["read", "counts"])
def test_device_in_trouble(ask: str) -> None:
    """Nothing is read, and the step says what is wrong."""
    cuda = Cuda()
    cuda.broken = True
    assert getattr(TorchReader(cuda, None), ask)() is None
