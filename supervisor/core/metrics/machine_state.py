"""The machine as the exporter shows it: GPUs, processes, memory and disks, as values."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.gpu.xids import XidLog
from supervisor.core.jobs.job_status import JobState

KEPT_OUT = ("out_of_service", "quarantine")
"""Why a GPU is given to nobody: a person took it out, or it failed under a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collector:
    """How somebody's last round of measuring went."""

    success: bool
    seconds: float | None = None
    """How long it took; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupMemory:
    """The memory cgroup that training is in. None: not told by this kernel."""

    used_bytes: int | None
    limit_bytes: int | None
    """None: no limit as well."""
    oom_kills: int | None
    refusals: int | None
    """How often the limit was hit: v1's ``failcnt``, v2's ``max``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUse:
    """What the processes of one attempt use together. None: may not be read."""

    resident_bytes: int
    proportional_bytes: int | None
    """Shared pages divided among those that share them; measured seldom."""
    cpu_seconds: float
    """Since the attempt began, ended processes included."""
    processes: int
    threads: int
    descriptors: int | None
    cgroup: CgroupMemory | None


@dataclass(frozen=True, slots=True)
class Space:
    """Room on a file system, in bytes; ``free`` for whom the supervisor runs as."""

    size: int
    free: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsView:
    """What only whoever hands out the GPUs can tell. A run in the foreground tells of
    itself alone: what it was given."""

    counts: Mapping[tuple[JobState, str], int] = field(
        default_factory=dict[tuple[JobState, str], int]
    )
    """How many jobs there are, by state and owner."""
    waits: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long the job that waits longest has waited, in seconds, by owner; who has
    none that waits is not here."""
    holders: Mapping[str, tuple[str, str]] = field(
        default_factory=dict[str, tuple[str, str]]
    )
    """The run that each GPU is given to, and its owner, by the GPU's UUID."""
    unwritten: bool | None = None
    """Whether something waits to be written to the ledger. None: nobody says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTimes:
    """What became of the time of GPUs, in seconds, since the exporter began."""

    seen: float | None = None
    """When they were looked at last (monotonic seconds)."""
    devices: Mapping[tuple[str, str], float] = field(
        default_factory=dict[tuple[str, str], float]
    )
    """By GPU and use (``core.metrics.gpu_time``)."""
    runs: Mapping[tuple[str, str], float] = field(
        default_factory=dict[tuple[str, str], float]
    )
    """By run and use: what the GPUs that it held did."""
    users: Mapping[tuple[str, str], float] = field(
        default_factory=dict[tuple[str, str], float]
    )
    """By user and use, over all that their runs held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Everything that is measured beside the runs' own telemetry."""

    driver: str = ""
    gpus: tuple[Gpu, ...] = ()
    xids: XidLog = field(default_factory=XidLog)
    owners: Mapping[int, str] = field(default_factory=dict[int, str])
    """The run that a process belongs to, by its pid."""
    trees: Mapping[str, TreeUse] = field(default_factory=dict[str, TreeUse])
    """By run: those that have processes now."""
    spaces: Mapping[str, Space] = field(default_factory=dict[str, Space])
    """``state``: the state directory's; ``memory``: where snapshots in memory lie."""
    collectors: Mapping[str, Collector] = field(default_factory=dict[str, Collector])
    """``host``; where a GPU is to be expected ``nvml``, and ``kernel_log`` where that is
    read, or should be."""
    kept_out: Mapping[str, Collection[str]] = field(
        default_factory=dict[str, Collection[str]]
    )
    """GPUs by one of ``KEPT_OUT``, by UUID, or by number where the driver was silent
    then. One that is missing cannot be told now."""
    jobs: JobsView = field(default_factory=JobsView)
    gpu_times: GpuTimes = field(default_factory=GpuTimes)
    started_at: float | None = None
    """When the exporter began, in seconds since 1970."""


def unlisted(machine: Machine, reasons: Iterable[str]) -> list[str]:
    """The GPUs kept out for one of ``reasons`` that the driver does not list (now): one
    that fell off is not there after a reboot, and nobody saw it go."""
    listed = {gpu.uuid for gpu in machine.gpus}
    listed |= {part.uuid for gpu in machine.gpus for part in gpu.mig}
    listed |= {str(gpu.index) for gpu in machine.gpus}
    kept = chain.from_iterable(machine.kept_out.get(one, ()) for one in reasons)
    return sorted(set(kept) - listed)


def process_memory(machine: Machine, gpu: Gpu) -> dict[str, int]:
    """Bytes on ``gpu`` by run; what the driver does not tell is left out."""
    held: dict[str, int] = {}
    for process in gpu.processes or ():
        run = machine.owners.get(process.pid)
        if run is not None and process.bytes is not None:
            held[run] = held.get(run, 0) + process.bytes
    return held


def foreign_memory(machine: Machine, gpu: Gpu) -> int | None:
    """Bytes on ``gpu`` of processes that belong to no run; None: not known."""
    if gpu.processes is None:
        return None
    strangers = [one for one in gpu.processes if one.pid not in machine.owners]
    if any(one.bytes is None for one in strangers):
        return None
    return sum(one.bytes or 0 for one in strangers)
