"""The allocator of a device as JAX tells of it (``Device.memory_stats``).

XLA's allocator by default (BFC, TensorFlow's as well) counts its pool, which is the whole
limit from the start unless ``XLA_PYTHON_CLIENT_PREALLOCATE=false``, and its largest free
block; others, and older versions, count less. Nothing here imports JAX.

Peak and largest request cannot be reset: they count since the process began.
"""

from collections.abc import Mapping
from typing import Any

from supervisor.wire.page import MemorySource
from trainers.backends.memory.allocator_figures import Figures

GLANCE_SECONDS = 1e-4
"""A dozen numbers in a dict. On a GPU not measured yet, so this is on the safe side."""


def figures_of(stats: Mapping[str, int] | None) -> Figures | None:
    """What ``memory_stats`` told; None: not even what is in use, as on a CPU.

    A count that an allocator does not keep may be there as 0 (XLA's ``AllocatorStats``):
    what contradicts the others is not known.
    """
    stats = stats or {}
    in_use, peak = stats.get("bytes_in_use"), stats.get("peak_bytes_in_use")
    if in_use is None or peak is None:
        return None
    pool = stats.get("pool_bytes") or None
    if pool is not None and pool < in_use:
        pool = None
    free = None if pool is None else pool - in_use
    largest = stats.get("largest_free_block_bytes")
    if free is None or largest is None or largest > free or (free and not largest):
        largest = None
    return Figures(
        source=MemorySource.ESTIMATE if pool is None else MemorySource.COUNTS,
        limit=stats.get("bytes_limit") or None,
        pool=pool,
        in_use=in_use,
        largest_free=largest,
        peak=max(peak, in_use),
        largest_request=stats.get("largest_alloc_size") or None,
    )


class JaxReader:
    """The allocator of one device."""

    glance_seconds = GLANCE_SECONDS

    def __init__(self, device: Any) -> None:
        """``device``: one of JAX."""
        self._device = device

    def begin(self) -> bool:
        """There is no peak that could be reset."""
        return self.read() is not None

    def read(self) -> Figures | None:
        """None where the device is in trouble, too."""
        return figures_of(self._stats())

    def counts(self) -> tuple[int, int] | None:
        """By the same call: there is no cheaper one."""
        found = self.read()
        return None if found is None else (found.in_use, found.peak)

    def _stats(self) -> Mapping[str, int] | None:
        try:
            found: Mapping[str, int] | None = self._device.memory_stats()
        except RuntimeError:  # JAX's own errors are such
            return None
        return found
