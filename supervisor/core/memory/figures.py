"""Figures of the framework's allocator: what it had, held and was asked for."""

import enum
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryFigures:
    """One allocator at one moment, in bytes; None: not known."""

    limit_bytes: int | None = None
    in_use_bytes: int | None = None
    requested_bytes: int | None = None
    """The request that failed."""
    largest_free_bytes: int | None = None
    """Largest free chunk in the pool."""
    fragmentation: float | None = None
    """(free in pool - largest free chunk) / free in pool; 0 to 1."""
    peak_bytes: int | None = None
    pool_bytes: int | None = None
    """What the allocator took from the device so far."""
    free_bytes: int | None = None
    """Free inside the pool."""
    growth_bytes: int | None = None
    """What the pool may still take from the device."""
    step_bytes: int | None = None
    """What a whole step of that size needs at the least, as far as is known."""
    allocator: str | None = None
    """Its name, such as ``GPU_0_bfc`` or ``mklcpu``."""


class OomVerdict(enum.StrEnum):
    """Why memory did not suffice; of one allocator's figures the first three."""

    CAPACITY = "capacity"
    """Less was free than was asked for."""
    FRAGMENTATION = "fragmentation"
    """Enough was free, in no block that large, and the pool could not grow; in one
    piece it would have done, as far as is known."""
    OVERSIZE = "oversize"
    """One request above the whole limit: nothing can make room for it."""
    FOREIGN_TENANT = "foreign_tenant"
    LEAK = "leak"
    HOST = "host"


def fragmentation_of(*, free_bytes: int, largest_free_bytes: int) -> float:
    """(free - largest) / free, from 0 (one block) to 1; 0 where nothing is free.

    The same quantity as ``fragmentation_metric`` in ``bfc_allocator.cc``.
    """
    if free_bytes <= 0:
        return 0.0
    return max(0.0, min(1.0, (free_bytes - largest_free_bytes) / free_bytes))


USED_UP = 0.001
"""So small a part of the limit is nothing that is left, in whatever pieces."""
CRUMBS_BYTES = 1 << 20
"""... and at most so much: of a large GPU a thousandth is room for many a tensor."""


def verdict(figures: MemoryFigures) -> OomVerdict | None:
    """Capacity, fragmentation or oversize; None: the figures do not tell.

    A pool that may still grow by the request was refused by the device, not by its
    own holes: that is capacity. So is a step that needs more than the limit: a pool
    that grew by regions (small ones, for a small step before) looks fragmented when a
    large step comes, and a pool in one piece would not hold that step either.
    """
    asked = figures.requested_bytes
    if asked is None:
        return None
    if figures.limit_bytes is not None and asked > figures.limit_bytes:
        return OomVerdict.OVERSIZE
    free = figures.free_bytes
    if free is None:
        return _without_pool(figures, asked)
    if free < asked or (figures.growth_bytes or 0) >= asked:
        return OomVerdict.CAPACITY
    if figures.limit_bytes is not None and _used_up(figures.limit_bytes, figures, free):
        return OomVerdict.CAPACITY
    largest = figures.largest_free_bytes
    return OomVerdict.CAPACITY if (largest or 0) >= asked else OomVerdict.FRAGMENTATION


def _used_up(limit: int, figures: MemoryFigures, free: int) -> bool:
    """Whether one piece would not help either: a step needs more than the limit, or a
    small request found the last crumbs too small."""
    return (figures.step_bytes or 0) > limit or free < min(
        USED_UP * limit, CRUMBS_BYTES
    )


def _without_pool(figures: MemoryFigures, asked: int) -> OomVerdict | None:
    """With the limit alone only a shortage is certain: with memory growth on,
    limit - in use may never have been available."""
    if figures.limit_bytes is None or figures.in_use_bytes is None:
        return None
    short = figures.limit_bytes - figures.in_use_bytes < asked
    return OomVerdict.CAPACITY if short else None


def complete(figures: MemoryFigures) -> MemoryFigures:
    """Fill in what follows from the rest: free, growth and fragmentation."""
    pool, used, free = figures.pool_bytes, figures.in_use_bytes, figures.free_bytes
    if free is None and pool is not None and used is not None:
        free = max(0, pool - used)
    growth, limit = figures.growth_bytes, figures.limit_bytes
    if growth is None and pool is not None and limit is not None:
        growth = max(0, limit - pool)
    share, largest = figures.fragmentation, figures.largest_free_bytes
    if share is None and free is not None and largest is not None:
        share = fragmentation_of(free_bytes=free, largest_free_bytes=largest)
    return replace(figures, free_bytes=free, growth_bytes=growth, fragmentation=share)
