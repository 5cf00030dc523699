"""What a framework's allocator says of itself, whichever framework it is of."""

from dataclasses import dataclass

from supervisor.wire.page import MemorySource


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakReading:
    """Bytes of one allocator."""

    current_bytes: int
    peak_bytes: int
    """Highest since the process began or the peak was last reset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMark:
    """One allocator at a boundary, in bytes."""

    in_use: int
    peak: int
    most_between: int
    """The highest that was in use at any boundary since the mark before; 0: none was
    looked at."""
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the allocator says, in bytes; None: not known.

    Peak and largest request count from when the peak was last reset; where that cannot be
    done (JAX), since the process began.
    """

    source: MemorySource
    """Without a map chunks, pool and largest free are None, unless it counts them."""
    chunks: int | None = None
    limit: int | None = None
    pool: int | None = None
    in_use: int
    largest_free: int | None = None
    stuck: int | None = None
    """Free in parts of the pool that are in use otherwise, of an allocator that gives the
    rest of what is free back to the device when it needs other blocks (PyTorch's)."""
    peak: int
    largest_request: int | None = None
    peak_is_known: bool = True
    """Whether ``peak`` is that of steps, and not only the most that was seen between."""

    @property
    def fragmentation(self) -> float | None:
        """(free - largest free) / free, as ``fragmentation_metric`` of TensorFlow's
        ``bfc_allocator.cc``; 0 where nothing is free.

        Of PyTorch, whose blocks are joined again by way of the device: stuck / free.
        """
        if self.pool is None:
            return None
        free = self.pool - self.in_use
        if self.stuck is not None:
            return min(self.stuck / free, 1.0) if free > 0 else 0.0
        if self.largest_free is None:
            return None
        return (free - self.largest_free) / free if free > 0 else 0.0

    @property
    def largest_allocatable(self) -> int | None:
        """The largest block that could be had now, with none freed before.

        Of PyTorch what all free memory that is not stuck would make: holes among what is
        stuck may be larger.
        """
        if self.limit is None:
            return self.largest_free
        if self.pool is None or self.largest_free is None:
            return max(self.limit - self.in_use - (self.stuck or 0), 0)
        return max(self.largest_free, self.limit - self.pool)
