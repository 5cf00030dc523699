"""GPU assignment: which GPUs of a box a run may use, and who else is on them."""

from collections.abc import Collection, Sequence

from supervisor.core.gpu.gpu_readings import Gpu, GpuProcess

TENANT_PART = 0.05
"""A process of somebody else counts as a tenant from this part of a GPU's memory on:
a desktop or a monitor holds less."""


def names(gpu: Gpu) -> frozenset[int | str]:
    """What a spec may call it."""
    if gpu.index is None:
        return frozenset({gpu.uuid})
    return frozenset({gpu.uuid, gpu.index, str(gpu.index)})


def named(
    wanted: Sequence[int | str] | None, readings: Sequence[Gpu]
) -> tuple[str, ...]:
    """``wanted`` (None: all of the box) by UUID where known, else as it was given. The
    number of one that is lost is another's once the driver has begun anew."""
    if wanted is None:
        return tuple(reading.uuid for reading in readings)
    lost_first = sorted(readings, key=lambda reading: not reading.lost)
    known = {name: reading.uuid for reading in lost_first for name in names(reading)}
    return tuple(known.get(gpu, str(gpu)) for gpu in wanted)


def with_parts(gpu: str, readings: Sequence[Gpu]) -> tuple[str, ...]:
    """``gpu`` and the MIG devices that are part of it: what fails with it."""
    parts = next((one.mig for one in readings if one.uuid == gpu), ())
    return (gpu, *(part.uuid for part in parts))


def boards(gpus: Collection[str], readings: Sequence[Gpu]) -> frozenset[str]:
    """``gpus``, and the GPUs that any of them is a MIG device of."""
    whole = (one.uuid for one in readings if any(part.uuid in gpus for part in one.mig))
    return frozenset(gpus).union(whole)


def by_uuid(wanted: Sequence[int | str] | None) -> bool:
    """Whether a spec names its GPUs so that they are known without the driver."""
    return wanted is not None and all(
        isinstance(gpu, str) and gpu.startswith(("GPU-", "MIG-")) for gpu in wanted
    )


def tenants(
    readings: Sequence[Gpu],
    *,
    gpus: Collection[str],
    ours: Collection[int],
) -> tuple[GpuProcess, ...]:
    """Processes of others that hold a notable part of one of ``gpus``."""
    return tuple(
        process
        for reading in readings
        if reading.uuid in gpus
        for process in reading.processes or ()
        if process.pid not in ours
        and reading.memory is not None
        and (process.bytes or 0) >= TENANT_PART * reading.memory.total
    )


def unnamed_bytes(reading: Gpu, *, ours: Collection[int], held: int) -> int:
    """What is in use on a GPU by processes that the driver does not name.

    In a container it names none of those outside, and perhaps not ours either: then
    ``held`` is taken for ours, in bytes. 0 where it is not known, or not notable.
    """
    if reading.memory is None:
        return 0
    processes = reading.processes or ()
    named_bytes = sum(one.bytes or 0 for one in processes)
    known = any(one.pid in ours for one in processes)
    rest = reading.memory.used - named_bytes - (0 if known else held)
    return rest if rest >= TENANT_PART * reading.memory.total else 0


def holders(
    readings: Sequence[Gpu], *, ours: Collection[int]
) -> tuple[tuple[str, GpuProcess], ...]:
    """Processes of ``ours`` that still hold memory: (GPU's UUID, process)."""
    return tuple(
        (reading.uuid, process)
        for reading in readings
        for process in reading.processes or ()
        if process.pid in ours
    )


def usable(
    wanted: Sequence[int | str] | None,
    readings: Sequence[Gpu],
    *,
    without: Collection[str],
) -> tuple[str, ...] | None:
    """The GPUs that are left of ``wanted``; None: nothing is to be left out.

    Where nothing is known of the box, nothing can be left out of "all": None as well.
    """
    every = named(wanted, readings)
    left = tuple(gpu for gpu in every if gpu not in without)
    return None if left == every else left
