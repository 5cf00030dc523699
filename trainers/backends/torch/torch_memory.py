"""The caching allocator of PyTorch for one GPU (``torch.cuda.memory_stats``).

It takes segments from the device and cuts blocks from them. Where it finds no free block
it asks the device for another segment, and where that has none it gives those back of
which nothing is in use, and asks again. So free memory is lost to a large request only in
segments that are partly in use: ``inactive_split_bytes``. Those are what fragmentation
is told by, as a part of what is free in the pool. The largest free block would tell less
(segments that are free as a whole are joined by way of the device), and finding it takes
``memory_snapshot``, a dict for each block.

With ``expandable_segments:True`` parts of segments are given back, too, and
``cudaMallocAsync`` counts no splits: there fragmentation is not known.

The most that may be in use is what the allocator has and what the device has left, or
``set_per_process_memory_fraction``, whichever is less. Nothing here imports PyTorch.
"""

import os
from collections.abc import Mapping
from typing import Any

from supervisor.wire.page import MemorySource
from trainers.backends.memory.allocator_figures import Figures

GLANCE_SECONDS = 2e-4
"""Some hundred numbers in dicts. On a GPU not measured yet, so this is on the safe side."""

SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""Environment variables of the allocator; the first since 2.9."""


def figures_of(
    stats: Mapping[str, Any],
    *,
    device: tuple[int, int] | None = None,
    fraction: float | None = None,
    splits_stuck: bool = True,
) -> Figures | None:
    """What ``memory_stats`` told; None: not even what is in use.

    ``device``: bytes free on it, and in all; ``fraction``: of all, what this process may
    take; ``splits_stuck``: whether free parts of segments stay with the allocator.
    """
    in_use = stats.get("allocated_bytes.all.current")
    peak = stats.get("allocated_bytes.all.peak")
    if in_use is None or peak is None:
        return None
    pool = stats.get("reserved_bytes.all.current")
    stuck = stats.get("inactive_split_bytes.all.current") if splits_stuck else None
    return Figures(
        source=MemorySource.ESTIMATE if pool is None else MemorySource.COUNTS,
        limit=_limit(pool, device, fraction),
        pool=pool,
        in_use=in_use,
        stuck=None if pool is None else stuck,
        peak=peak,
    )


def _limit(
    pool: int | None, device: tuple[int, int] | None, fraction: float | None
) -> int | None:
    if device is None:
        return None
    free, whole = device
    allowed = None if fraction is None else int(fraction * whole)
    there = None if pool is None else pool + free
    return min((one for one in (allowed, there) if one is not None), default=None)


def splits_are_stuck(backend: str, environment: Mapping[str, str]) -> bool:
    """By the allocator's name, and how it is set up."""
    told = ",".join(environment.get(name, "") for name in SETTINGS)
    expandable = "expandable_segments:true" in told.replace(" ", "").lower()
    return backend == "native" and not expandable


class TorchReader:
    """The allocator of one GPU, once the script has begun to use it."""

    glance_seconds = GLANCE_SECONDS

    def __init__(self, cuda: Any, index: int | None) -> None:
        """``cuda``: ``torch.cuda``; ``index``: of the GPU, None: the current one.

        Not a ``torch.device``: one without an index is not taken everywhere.
        """
        self._cuda = cuda
        self._index = index
        backend = cuda.get_allocator_backend()
        self._splits_stuck = splits_are_stuck(backend, os.environ)

    def begin(self) -> bool:
        """Let the peak start again; a GPU that nothing was put on yet has none."""
        try:
            if self._cuda.is_initialized():
                self._cuda.reset_peak_memory_stats(self._index)
        except RuntimeError:
            return False
        return True

    def read(self) -> Figures | None:
        """None where the device is in trouble, too."""
        try:
            if not self._cuda.is_initialized():
                return None
            return figures_of(
                self._cuda.memory_stats(self._index),
                device=self._cuda.mem_get_info(self._index),
                fraction=self._fraction(),
                splits_stuck=self._splits_stuck,
            )
        except RuntimeError:  # PyTorch's own errors are such
            return None

    def _fraction(self) -> float | None:
        ask = getattr(self._cuda, "get_per_process_memory_fraction", None)  # since 2.6
        return None if ask is None else float(ask(self._index))

    def counts(self) -> tuple[int, int] | None:
        """Without the flat names, which take longer."""
        try:
            stats = self._cuda.memory_stats_as_nested_dict(self._index)
            counted = stats["allocated_bytes"]["all"]
        except (RuntimeError, KeyError):
            return None
        return counted["current"], counted["peak"]
