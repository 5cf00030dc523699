"""What an attempt says of its allocator, beside what the driver says of its GPU."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from supervisor.core.gpu.assignment import named
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.memory.estimate import estimated, gpu_of
from supervisor.wire.page import MemorySource, Page


def completed(
    page: Page | None,
    wanted: Sequence[int | str] | None,
    *,
    gpus: Callable[[], Sequence[Gpu]],
    out: Collection[str] = (),
) -> Page | None:
    """``page``; where its memory is an estimate, with what ``gpus`` adds to it.

    ``gpus`` is asked only then. ``wanted``: as a spec names those that an attempt may
    use, None: all of the box; less those that are ``out``.
    """
    if page is None or page.memory_source != MemorySource.ESTIMATE:
        return page
    if page.memory_in_use_bytes is None:
        return page
    box = gpus()
    usable = [gpu for gpu in named(wanted, box) if gpu not in out]
    gpu = gpu_of(box, pid=page.pid, wanted=usable)
    if gpu is None:
        return page
    found = estimated(
        in_use=page.memory_in_use_bytes,
        limit=page.memory_limit_bytes,
        gpu=gpu,
        pid=page.pid,
    )
    return replace(
        page,
        memory_limit_bytes=found.limit,
        memory_pool_bytes=found.pool,
        memory_largest_allocatable_bytes=found.largest_allocatable,
    )
