"""What the framework's allocator had, held and was asked for."""

from dataclasses import dataclass


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
