"""The metrics of the machine: its GPUs, what training uses of it, and who measures.

The label ``gpu`` is the UUID of a GPU or of a MIG device; ``trainwarden_gpu_info`` joins
name and place to it.
"""

from collections.abc import Callable, Iterator

from supervisor.core.gpu import ECC_KINDS, ECC_SPANS, THROTTLES, Gpu, GpuMemory
from supervisor.core.machine import (
    CgroupMemory,
    Machine,
    Space,
    TreeUse,
    foreign_memory,
    process_memory,
)
from supervisor.core.metrics_row import Kind, Lifetime, Metric, Point, Value

ReadMachine = Callable[[Machine], Iterator[Point]]


def _gpu(get: Callable[[Gpu], Value]) -> ReadMachine:
    return lambda machine: (((gpu.uuid,), get(gpu)) for gpu in machine.gpus)


def _memory(get: Callable[[GpuMemory], Value]) -> ReadMachine:
    """Of GPUs, and of MIG devices, which have memory of their own."""

    def read(machine: Machine) -> Iterator[Point]:
        for gpu in machine.gpus:
            parts = ((mig.uuid, mig.memory) for mig in gpu.mig)
            for uuid, memory in ((gpu.uuid, gpu.memory), *parts):
                if memory is not None:
                    yield (uuid,), get(memory)

    return read


def _info(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        yield (gpu.uuid, gpu.name, gpu.bus, machine.driver, ""), 1.0
        for mig in gpu.mig:
            yield (mig.uuid, gpu.name, gpu.bus, machine.driver, gpu.uuid), 1.0


def _throttled(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        if gpu.throttled is not None:
            for _, reason in THROTTLES:
                yield (gpu.uuid, reason), float(reason in gpu.throttled)


def _ecc(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        for span in ECC_SPANS:
            for kind in ECC_KINDS:
                yield (gpu.uuid, span, kind), gpu.ecc.get((span, kind))


def _rows(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        if gpu.rows is not None:
            yield (gpu.uuid, "corrected"), gpu.rows.corrected
            yield (gpu.uuid, "uncorrected"), gpu.rows.uncorrected


def _xids(machine: Machine) -> Iterator[Point]:
    return (((gpu.uuid,), machine.xids.count(gpu.uuid)) for gpu in machine.gpus)


def _last_xid(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        last = machine.xids.last(gpu.uuid)
        if last is not None:
            yield (gpu.uuid,), last.code


def _held(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        for run, held in process_memory(machine, gpu).items():
            yield (run, gpu.uuid), held


def _foreign(machine: Machine) -> Iterator[Point]:
    return (((gpu.uuid,), foreign_memory(machine, gpu)) for gpu in machine.gpus)


def _tree(get: Callable[[TreeUse], Value]) -> ReadMachine:
    return lambda machine: (((run,), get(use)) for run, use in machine.trees.items())


def _cgroup(get: Callable[[CgroupMemory], Value]) -> ReadMachine:
    return _tree(lambda use: None if use.cgroup is None else get(use.cgroup))


def _space(get: Callable[[Space], Value]) -> ReadMachine:
    return lambda machine: (((name,), get(one)) for name, one in machine.spaces.items())


def _success(machine: Machine) -> Iterator[Point]:
    return (
        ((name,), float(collector.success))
        for name, collector in machine.collectors.items()
    )


def _duration(machine: Machine) -> Iterator[Point]:
    return (
        ((name,), collector.seconds) for name, collector in machine.collectors.items()
    )


def _row(
    name: str,
    text: str,
    read: ReadMachine,
    *,
    unit: str = "",
    kind: Kind = Kind.GAUGE,
    labels: tuple[str, ...] = ("gpu",),
    lifetime: Lifetime = Lifetime.DEVICE,
    source: str = "NVML",
) -> Metric:
    return Metric(
        name=name,
        kind=kind,
        help=text,
        source=source,
        unit=unit,
        labels=labels,
        lifetime=lifetime,
        read_machine=read,
    )


GPU_METRICS = (
    _row(
        "gpu",
        "Name and place of a GPU, the driver, and the GPU that a MIG device is part of.",
        _info,
        kind=Kind.INFO,
        labels=("gpu", "name", "bus", "driver", "parent"),
    ),
    _row(
        "gpu_lost",
        "1 if the GPU has fallen off the bus; its other series end then.",
        _gpu(lambda gpu: float(gpu.lost)),
    ),
    _row(
        "gpu_memory_size",
        "Memory that the device has.",
        _memory(lambda memory: memory.total),
        unit="bytes",
    ),
    _row(
        "gpu_memory_used",
        "Memory of the device that is in use, whoever uses it.",
        _memory(lambda memory: memory.used),
        unit="bytes",
    ),
    _row(
        "gpu_memory_reserved",
        "Memory that driver and firmware keep; older drivers count it as used.",
        _memory(lambda memory: memory.reserved),
        unit="bytes",
    ),
    _row(
        "gpu_memory_free",
        "Memory of the device that nobody uses.",
        _memory(lambda memory: memory.free),
        unit="bytes",
    ),
    _row(
        "gpu_process_memory",
        "Memory of the device that the processes of a run hold.",
        _held,
        unit="bytes",
        labels=("run", "gpu"),
        lifetime=Lifetime.ATTEMPT,
    ),
    _row(
        "gpu_foreign_memory",
        "Memory of the device that processes of no run hold.",
        _foreign,
        unit="bytes",
    ),
    _row(
        "gpu_utilization",
        "Part of the last sample period in which a kernel ran.",
        _gpu(lambda gpu: gpu.utilization),
        unit="ratio",
    ),
    _row(
        "gpu_temperature",
        "Temperature of the chip.",
        _gpu(lambda gpu: gpu.temperature_celsius),
        unit="celsius",
    ),
    _row(
        "gpu_power",
        "Power that the board draws.",
        _gpu(lambda gpu: gpu.power_watts),
        unit="watts",
    ),
    _row(
        "gpu_power_limit",
        "Power that the board may draw.",
        _gpu(lambda gpu: gpu.power_limit_watts),
        unit="watts",
    ),
    _row(
        "gpu_throttled",
        "1 for each reason that keeps the clocks down now, 0 for the others.",
        _throttled,
        labels=("gpu", "reason"),
    ),
    _row(
        "gpu_ecc_errors",
        "Memory errors since the driver was loaded, and over the board's life.",
        _ecc,
        kind=Kind.COUNTER,
        labels=("gpu", "span", "kind"),
    ),
    _row(
        "gpu_remapped_rows",
        "Rows of memory that spares stand in for, by the errors that led to it.",
        _rows,
        labels=("gpu", "kind"),
    ),
    _row(
        "gpu_remap_pending",
        "1 if a row is to be remapped at the next reset.",
        _gpu(lambda gpu: None if gpu.rows is None else float(gpu.rows.pending)),
    ),
    _row(
        "gpu_remap_failed",
        "1 if there was no spare left: the board should be replaced.",
        _gpu(lambda gpu: None if gpu.rows is None else float(gpu.rows.failed)),
    ),
    _row(
        "gpu_pcie_replays",
        "Packets that had to be sent again over PCIe.",
        _gpu(lambda gpu: gpu.pcie_replays),
        kind=Kind.COUNTER,
    ),
    _row(
        "gpu_xids",
        "Errors that the driver reported (Xids) while it was watched.",
        _xids,
        kind=Kind.COUNTER,
        source="NVML and kernel log",
    ),
    _row(
        "gpu_last_xid",
        "Number of the newest Xid, as in NVIDIA's catalogue; absent without one.",
        _last_xid,
        source="NVML and kernel log",
    ),
)

_OF_RUN = ("run",)

HOST_METRICS = tuple(
    _row(
        name,
        text,
        read,
        unit=unit,
        kind=kind,
        labels=_OF_RUN,
        lifetime=Lifetime.ATTEMPT,
        source=source,
    )
    for name, unit, kind, source, text, read in (
        (
            "processes_resident_memory", "bytes", Kind.GAUGE, "/proc",
            "Main memory that all processes of the attempt have resident.",
            _tree(lambda use: use.resident_bytes),
        ),
        (
            "processes_proportional_memory", "bytes", Kind.GAUGE, "/proc",
            "The same with shared pages divided among their users; measured seldom.",
            _tree(lambda use: use.proportional_bytes),
        ),
        (
            "processes_cpu", "seconds", Kind.COUNTER, "/proc",
            "Processor time of all processes of the run.",
            _tree(lambda use: use.cpu_seconds),
        ),
        (
            "processes", "", Kind.GAUGE, "/proc",
            "Processes of the attempt.",
            _tree(lambda use: use.processes),
        ),
        (
            "processes_threads", "", Kind.GAUGE, "/proc",
            "Threads of all processes of the attempt.",
            _tree(lambda use: use.threads),
        ),
        (
            "processes_open_files", "", Kind.GAUGE, "/proc",
            "File descriptors that all processes of the attempt have open.",
            _tree(lambda use: use.descriptors),
        ),
        (
            "cgroup_memory_used", "bytes", Kind.GAUGE, "cgroup",
            "Memory charged to the cgroup that training is in.",
            _cgroup(lambda cgroup: cgroup.used_bytes),
        ),
        (
            "cgroup_memory_limit", "bytes", Kind.GAUGE, "cgroup",
            "The most that may be charged to it; absent without a limit.",
            _cgroup(lambda cgroup: cgroup.limit_bytes),
        ),
        (
            "cgroup_memory_refusals", "", Kind.COUNTER, "cgroup",
            "How often that limit was hit.",
            _cgroup(lambda cgroup: cgroup.refusals),
        ),
        (
            "cgroup_oom_kills", "", Kind.COUNTER, "cgroup",
            "Processes that the kernel killed there for want of memory.",
            _cgroup(lambda cgroup: cgroup.oom_kills),
        ),
    )
)  # fmt: skip

EXPORTER_METRICS = (
    _row(
        "filesystem_size",
        "Size of the file system of the state directory, and of that of snapshots in memory.",
        _space(lambda space: space.size),
        unit="bytes",
        labels=("filesystem",),
        source="statvfs",
    ),
    _row(
        "filesystem_free",
        "What of it may still be written.",
        _space(lambda space: space.free),
        unit="bytes",
        labels=("filesystem",),
        source="statvfs",
    ),
    _row(
        "collector_success",
        "1 if what it measures is from now, 0 if it hangs or fails.",
        _success,
        labels=("collector",),
        source="exporter",
    ),
    _row(
        "collector_duration",
        "How long its last round took.",
        _duration,
        unit="seconds",
        labels=("collector",),
        source="exporter",
    ),
)

MACHINE_METRICS: tuple[Metric, ...] = (*GPU_METRICS, *HOST_METRICS, *EXPORTER_METRICS)
