"""The estimate for an allocator that only counts, with what the driver says beside it.

Without the allocator's map there is no limit, no pool and nothing free: TensorFlow's
``get_memory_info`` counts what is in use, and its peak. The driver knows what the
process took from the GPU, and what it could take at most. Together that is an estimate,
and is told as one:

- the limit is the spec's, else what a process can have of this GPU at all: its memory
  less what driver and firmware keep;
- the pool is what the process holds on the GPU; its CUDA context and its libraries are
  in that too (some hundred MiB), and so is what they hold for kernels;
- free is what of the pool is not in use, and what is allocatable is that, or what the
  pool may still grow by, whichever is more: as if nothing were fragmented.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from supervisor.core.gpu.gpu_readings import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Bytes; None: not known."""

    limit: int | None
    pool: int | None
    largest_allocatable: int | None


def gpu_of(
    readings: Sequence[Gpu], *, pid: int | None, wanted: Sequence[str]
) -> Gpu | None:
    """The GPU whose memory training fills: the first of those that it may use, in the
    order of ``wanted`` (UUIDs), that its process ``pid`` was seen on.

    The first of all where the driver tells of no such process, as in a container.
    """
    usable = [one for uuid in wanted for one in readings if one.uuid == uuid]
    seen = (one for one in usable if any(p.pid == pid for p in one.processes or ()))
    return next(seen, usable[0] if usable else None)


def estimated(*, in_use: int, limit: int | None, gpu: Gpu, pid: int | None) -> Estimate:
    """What the counts of an allocator and its GPU tell together; ``limit``: the spec's."""
    most = _least(limit, _most_of(gpu))
    held = next((one.bytes for one in gpu.processes or () if one.pid == pid), None)
    pool = None if held is None else max(_least(held, most) or 0, in_use)
    free = None if gpu.memory is None else gpu.memory.free
    allocatable = _allocatable(in_use=in_use, limit=most, pool=pool, free=free)
    return Estimate(limit=most, pool=pool, largest_allocatable=allocatable)


def _allocatable(
    *, in_use: int, limit: int | None, pool: int | None, free: int | None
) -> int | None:
    """``free``: of the GPU, whoever might take it."""
    if pool is None:
        return None if limit is None else max(limit - in_use, 0)
    growth = _least(None if limit is None else max(limit - pool, 0), free)
    return max(pool - in_use, growth or 0)


def _most_of(gpu: Gpu) -> int | None:
    """What a process can have of it: older drivers count what they keep as used."""
    if gpu.memory is None:
        return None
    return max(gpu.memory.total - (gpu.memory.reserved or 0), 0)


def _least(*sizes: int | None) -> int | None:
    """The smallest that is known."""
    return min((size for size in sizes if size is not None), default=None)
