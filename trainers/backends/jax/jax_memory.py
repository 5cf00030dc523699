"""The allocator of a device as JAX tells of it (``Device.memory_stats``).

XLA's allocator by default (BFC, TensorFlow's as well) counts its pool, which is the whole
limit from the start unless ``XLA_PYTHON_CLIENT_PREALLOCATE=false``, and its largest free
block; others, and older versions, count less. Nothing here imports JAX.

Peak and largest request cannot be reset: they count since the process began. What a
``fit`` needs is known from them once they have risen; until then the most that was seen
between two steps stands for the peak, which is less than it was.
"""

from collections.abc import Mapping
from dataclasses import replace
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


def since(earlier: Figures | None, found: Figures, *, highest: int) -> Figures:
    """``found``, of what came after ``earlier`` alone; ``highest``: the most that was seen
    in use since."""
    if earlier is None:
        return found
    asked, before = found.largest_request, earlier.largest_request
    return replace(
        found,
        peak=found.peak if found.peak > earlier.peak else highest,
        peak_is_known=found.peak > earlier.peak,
        largest_request=None if before is not None and asked == before else asked,
    )


class JaxReader:
    """The allocator of one device."""

    glance_seconds = GLANCE_SECONDS

    def __init__(self, device: Any) -> None:
        """``device``: one of JAX."""
        self._device = device
        self._earlier: Figures | None = None
        """As it was when the steps began."""
        self._highest = 0
        """In use between two steps since then."""

    def begin(self) -> bool:
        """What was before is not of the steps from here on."""
        self._earlier = figures_of(self._stats())
        self._highest = 0
        return self._earlier is not None

    def read(self) -> Figures | None:
        """None where the device is in trouble, too."""
        found = figures_of(self._stats())
        if found is None:
            return None
        self._highest = max(self._highest, found.in_use)
        return since(self._earlier, found, highest=self._highest)

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
