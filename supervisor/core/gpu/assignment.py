"""The GPUs of a box as somebody read them, and which of them a run may use.

Reading them is another's business (NVML may block for ever); here are only values.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

TENANT_PART = 0.05
"""A process of somebody else counts as a tenant from this part of a GPU's memory on:
a desktop or a monitor holds less."""


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that holds memory on a GPU."""

    pid: int
    name: str
    used_bytes: int | None
    """None: the driver does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One GPU, read once. None: not known."""

    uuid: str
    """As ``CUDA_VISIBLE_DEVICES`` takes it: ``GPU-…``."""
    index: int
    total_bytes: int | None = None
    used_bytes: int | None = None
    """By all processes, those of other containers among them."""
    free_bytes: int | None = None
    reserved_bytes: int | None = None
    """By driver and firmware; None: older drivers count it as used."""
    processes: tuple[GpuHolder, ...] = ()
    parts: tuple[str, ...] = ()
    """UUIDs of the MIG devices that it is cut into: ``MIG-…``."""


def names(reading: GpuReading) -> frozenset[int | str]:
    """What a spec may call it."""
    return frozenset({reading.uuid, reading.index, str(reading.index)})


def named(
    wanted: Sequence[int | str] | None, readings: Sequence[GpuReading]
) -> tuple[str, ...]:
    """``wanted`` (None: all of the box) by UUID where known, else as it was given."""
    if wanted is None:
        return tuple(reading.uuid for reading in readings)
    known = {name: reading.uuid for reading in readings for name in names(reading)}
    return tuple(known.get(gpu, str(gpu)) for gpu in wanted)


def with_parts(gpu: str, readings: Sequence[GpuReading]) -> tuple[str, ...]:
    """``gpu`` and the MIG devices that are part of it: what fails with it."""
    parts = next((one.parts for one in readings if one.uuid == gpu), ())
    return (gpu, *parts)


def boards(gpus: Collection[str], readings: Sequence[GpuReading]) -> frozenset[str]:
    """``gpus``, and the GPUs that any of them is a MIG device of."""
    whole = (one.uuid for one in readings if any(part in gpus for part in one.parts))
    return frozenset(gpus).union(whole)


def by_uuid(wanted: Sequence[int | str] | None) -> bool:
    """Whether a spec names its GPUs so that they are known without the driver."""
    return wanted is not None and all(
        isinstance(gpu, str) and gpu.startswith(("GPU-", "MIG-")) for gpu in wanted
    )


def tenants(
    readings: Sequence[GpuReading],
    *,
    gpus: Collection[str],
    ours: Collection[int],
) -> tuple[GpuHolder, ...]:
    """Processes of others that hold a notable part of one of ``gpus``."""
    return tuple(
        process
        for reading in readings
        if reading.uuid in gpus
        for process in reading.processes
        if process.pid not in ours
        and reading.total_bytes
        and (process.used_bytes or 0) >= TENANT_PART * reading.total_bytes
    )


def unnamed_bytes(reading: GpuReading, *, ours: Collection[int], held: int) -> int:
    """What is in use on a GPU by processes that the driver does not name.

    In a container it names none of those outside, and perhaps not ours either: then
    ``held`` is taken for ours, in bytes. 0 where it is not known, or not notable.
    """
    if reading.used_bytes is None or not reading.total_bytes:
        return 0
    named_bytes = sum(one.used_bytes or 0 for one in reading.processes)
    known = any(one.pid in ours for one in reading.processes)
    rest = reading.used_bytes - named_bytes - (0 if known else held)
    return rest if rest >= TENANT_PART * reading.total_bytes else 0


def holders(
    readings: Sequence[GpuReading], *, ours: Collection[int]
) -> tuple[tuple[str, GpuHolder], ...]:
    """Processes of ``ours`` that still hold memory: (GPU's UUID, process)."""
    return tuple(
        (reading.uuid, process)
        for reading in readings
        for process in reading.processes
        if process.pid in ours
    )


def usable(
    wanted: Sequence[int | str] | None,
    readings: Sequence[GpuReading],
    *,
    without: Collection[str],
) -> tuple[str, ...] | None:
    """The GPUs that are left of ``wanted``; None: nothing is to be left out.

    Where nothing is known of the box, nothing can be left out of "all": None as well.
    """
    every = named(wanted, readings)
    left = tuple(gpu for gpu in every if gpu not in without)
    return None if left == every else left
