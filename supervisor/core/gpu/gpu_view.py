"""The GPUs of a box as ``trainwarden gpu`` shows them: what is known, and what is not."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from supervisor.core.gpu.gpu_readings import Gpu, GpuSample
from supervisor.core.gpu.xids import XidLog


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUser:
    """A process on a GPU."""

    pid: int
    job: str | None
    """None: it belongs to no job of ours, as far as is known."""
    bytes: int | None
    """None: the driver does not tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuShown:
    """One GPU. None: not known, or not of this device."""

    gpu: str
    """Its UUID."""
    index: int | None
    name: str
    lost: bool
    """It has fallen off the bus."""
    in_service: bool
    """False: it is not handed out."""
    job: str | None
    """Who was given it."""
    memory_total_bytes: int | None
    memory_used_bytes: int | None
    utilization: float | None
    """Share of the last period in which a kernel ran, 0 to 1."""
    temperature_celsius: float | None
    power_watts: float | None
    power_limit_watts: float | None
    throttled: tuple[str, ...] | None
    xids: int
    """Heard of since the daemon began."""
    last_xid: int | None
    processes: tuple[GpuUser, ...] | None
    problems: tuple[str, ...]
    """What the driver refused to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpusShown:
    """All of them."""

    driver: str
    """Its version; empty: not known."""
    answers: bool
    """Whether what is shown is from now."""
    problem: str
    """Why it is not."""
    reboot: bool
    """Only a reboot brings the GPUs back."""
    gpus: tuple[GpuShown, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """What the box adds to what the driver says."""

    owners: Mapping[int, str] = field(default_factory=dict[int, str])
    """Job by pid."""
    holders: Mapping[str, str] = field(default_factory=dict[str, str])
    """Job by the GPU that it was given."""
    out: Collection[str] = ()
    """GPUs that are not handed out."""


def picture(
    sample: GpuSample | None,
    *,
    fresh: bool,
    problem: str,
    reboot: bool,
    xids: XidLog,
    tenancy: Tenancy,
) -> GpusShown:
    """What there is to show; of a sample that is not fresh only which GPUs there are."""
    gpus = () if sample is None else sample.gpus
    return GpusShown(
        driver="" if sample is None else sample.driver,
        answers=fresh,
        problem=problem,
        reboot=reboot,
        gpus=tuple(
            _shown(gpu if fresh else _outline(gpu), xids, tenancy) for gpu in gpus
        ),
    )


def _outline(gpu: Gpu) -> Gpu:
    """What does not change while the driver is silent."""
    return Gpu(
        uuid=gpu.uuid, index=gpu.index, name=gpu.name, bus=gpu.bus, lost=gpu.lost
    )


def _shown(gpu: Gpu, xids: XidLog, tenancy: Tenancy) -> GpuShown:
    memory, last = gpu.memory, xids.last(gpu.uuid)
    return GpuShown(
        gpu=gpu.uuid,
        index=gpu.index,
        name=gpu.name,
        lost=gpu.lost,
        in_service=gpu.uuid not in tenancy.out,
        job=tenancy.holders.get(gpu.uuid),
        memory_total_bytes=None if memory is None else memory.total,
        memory_used_bytes=None if memory is None else memory.used,
        utilization=gpu.utilization,
        temperature_celsius=gpu.temperature_celsius,
        power_watts=gpu.power_watts,
        power_limit_watts=gpu.power_limit_watts,
        throttled=None if gpu.throttled is None else tuple(sorted(gpu.throttled)),
        xids=xids.count(gpu.uuid),
        last_xid=None if last is None else last.code,
        processes=_users(gpu, tenancy.owners),
        problems=tuple(f"{call}: {why}" for call, why in gpu.problems.items()),
    )


def _users(gpu: Gpu, owners: Mapping[int, str]) -> tuple[GpuUser, ...] | None:
    if gpu.processes is None:
        return None
    return tuple(
        GpuUser(pid=process.pid, job=owners.get(process.pid), bytes=process.bytes)
        for process in gpu.processes
    )
