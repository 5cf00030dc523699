"""The metrics of GPUs.

The label ``gpu`` is the UUID of a GPU or of a MIG device; ``trainwarden_gpu_info`` joins
name and place to it.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from supervisor.core.diagnosis.signatures.cuda_rows import HARDWARE_XIDS, SOFTWARE_XIDS
from supervisor.core.gpu.gpu_readings import (
    CLOCKS,
    ECC_KINDS,
    ECC_SPANS,
    NVLINK_DIRECTIONS,
    NVLINK_ERRORS,
    THROTTLES,
    Gpu,
    GpuMemory,
)
from supervisor.core.metrics.machine_state import (
    Machine,
    foreign_memory,
    process_memory,
    unlisted,
)
from supervisor.core.metrics.metric import (
    Lifetime,
    MetricKind,
    Point,
    ReadMachine,
    Value,
    of_machine,
)

XID_KINDS = ("memory", "nvlink", "bus", "hardware", "software", "other")
"""What NVIDIA's catalogue says of an Xid: ECC and row remapping, NVLink, fallen off the
bus, other faults of the board or its firmware, faults of a program, and the rest."""
_XID_NUMBERS = (
    ("memory", re.compile("48|63|64|9[245]")),
    ("nvlink", re.compile("74|14[4-9]|150")),
    ("bus", re.compile("79")),
    ("hardware", re.compile(HARDWARE_XIDS)),
    ("software", re.compile(SOFTWARE_XIDS)),
)


def xid_kind(code: int) -> str:
    """The first kind that an Xid is of."""
    number = str(code)
    return next(
        (kind for kind, numbers in _XID_NUMBERS if numbers.fullmatch(number)), "other"
    )


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
    for gpu in machine.gpus:
        counts: dict[str, int] = dict.fromkeys(XID_KINDS, 0)
        for code, count in machine.xids.codes(gpu.uuid).items():
            counts[xid_kind(code)] += count
        for kind, count in counts.items():
            yield (gpu.uuid, kind), count


def _last_xid(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        last = machine.xids.last(gpu.uuid)
        if last is not None:
            yield (gpu.uuid,), last.code


def _held(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        for run, held in process_memory(machine, gpu).items():
            yield (run, gpu.uuid), held


def _kept_out(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        for because, those in machine.kept_out.items():
            numbered = str(gpu.index) in those
            for uuid in (gpu.uuid, *(part.uuid for part in gpu.mig)):
                yield (uuid, because), float(uuid in those or numbered)
    for gone in unlisted(machine, machine.kept_out):
        for because, those in machine.kept_out.items():
            yield (gone, because), float(gone in those)


def _lost(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        yield (gpu.uuid,), float(gpu.lost)
    nvml = machine.collectors.get("nvml")
    if nvml is not None and nvml.success:
        known = machine.kept_out.get("out_of_service", ())
        for gone in unlisted(machine, ("quarantine",)):
            # Numbers are those of the GPUs that are left, parts (MIG-…) come and go.
            if gone.startswith("GPU-") and gone not in known:
                yield (gone,), 1.0


def _by_name(
    get: Callable[[Gpu], Mapping[str, float]], names: tuple[str, ...]
) -> ReadMachine:
    def read(machine: Machine) -> Iterator[Point]:
        for gpu in machine.gpus:
            known = get(gpu)
            for name in names:
                yield (gpu.uuid, name), known.get(name)

    return read


def _allocated(machine: Machine) -> Iterator[Point]:
    return (((run, gpu), 1.0) for gpu, (run, _) in machine.jobs.holders.items())


def _foreign(machine: Machine) -> Iterator[Point]:
    return (((gpu.uuid,), foreign_memory(machine, gpu)) for gpu in machine.gpus)


GPU_METRICS = (
    of_machine(
        "gpu",
        "Name and place of a GPU, the driver, and the GPU that a MIG device is part of.",
        _info,
        kind=MetricKind.INFO,
        labels=("gpu", "name", "bus", "driver", "parent"),
    ),
    of_machine(
        "gpu_lost",
        "1 if the GPU has fallen off the bus, or failed before and is no longer listed; "
        "its other series end then.",
        _lost,
    ),
    of_machine(
        "gpu_kept_out",
        "1 if the GPU is given to no run: it failed, or a person took it out of service.",
        _kept_out,
        labels=("gpu", "reason"),
        source="ledger",
    ),
    of_machine(
        "gpu_memory_size",
        "Memory that the device has.",
        _memory(lambda memory: memory.total),
        unit="bytes",
    ),
    of_machine(
        "gpu_memory_used",
        "Memory of the device that is in use, whoever uses it.",
        _memory(lambda memory: memory.used),
        unit="bytes",
    ),
    of_machine(
        "gpu_memory_reserved",
        "Memory that driver and firmware keep; older drivers count it as used.",
        _memory(lambda memory: memory.reserved),
        unit="bytes",
    ),
    of_machine(
        "gpu_memory_free",
        "Memory of the device that nobody uses.",
        _memory(lambda memory: memory.free),
        unit="bytes",
    ),
    of_machine(
        "gpu_process_memory",
        "Memory of the device that the processes of a run hold.",
        _held,
        unit="bytes",
        labels=("run", "gpu"),
        lifetime=Lifetime.ATTEMPT,
    ),
    of_machine(
        "gpu_foreign_memory",
        "Memory of the device that processes of no run hold.",
        _foreign,
        unit="bytes",
    ),
    of_machine(
        "gpu_utilization",
        "Part of the last sample period in which a kernel ran.",
        _gpu(lambda gpu: gpu.utilization),
        unit="ratio",
    ),
    of_machine(
        "gpu_temperature",
        "Temperature of the chip.",
        _gpu(lambda gpu: gpu.temperature_celsius),
        unit="celsius",
    ),
    of_machine(
        "gpu_power",
        "Power that the board draws.",
        _gpu(lambda gpu: gpu.power_watts),
        unit="watts",
    ),
    of_machine(
        "gpu_power_limit",
        "Power that the board may draw.",
        _gpu(lambda gpu: gpu.power_limit_watts),
        unit="watts",
    ),
    of_machine(
        "gpu_throttled",
        "1 for each reason that keeps the clocks down now, 0 for the others.",
        _throttled,
        labels=("gpu", "reason"),
    ),
    of_machine(
        "gpu_ecc_errors",
        "Memory errors since the driver was loaded, and over the board's life.",
        _ecc,
        kind=MetricKind.COUNTER,
        labels=("gpu", "span", "kind"),
    ),
    of_machine(
        "gpu_remapped_rows",
        "Rows of memory that spares stand in for, by the errors that led to it.",
        _rows,
        labels=("gpu", "kind"),
    ),
    of_machine(
        "gpu_remap_pending",
        "1 if a row is to be remapped at the next reset.",
        _gpu(lambda gpu: None if gpu.rows is None else float(gpu.rows.pending)),
    ),
    of_machine(
        "gpu_remap_failed",
        "1 if there was no spare left: the board should be replaced.",
        _gpu(lambda gpu: None if gpu.rows is None else float(gpu.rows.failed)),
    ),
    of_machine(
        "gpu_pcie_replays",
        "Packets that had to be sent again over PCIe.",
        _gpu(lambda gpu: gpu.pcie_replays),
        kind=MetricKind.COUNTER,
    ),
    of_machine(
        "gpu_pcie_lanes",
        "Lanes of the PCIe link; an idle link may have fewer than it can.",
        _gpu(lambda gpu: None if gpu.pcie_lanes is None else gpu.pcie_lanes[0]),
    ),
    of_machine(
        "gpu_pcie_lanes_limit",
        "The most that card and slot can have.",
        _gpu(lambda gpu: None if gpu.pcie_lanes is None else gpu.pcie_lanes[1]),
    ),
    of_machine(
        "gpu_clock",
        "How fast the clocks of the multiprocessors and of the memory run.",
        _by_name(lambda gpu: gpu.clocks_hertz, CLOCKS),
        unit="hertz",
        labels=("gpu", "clock"),
    ),
    of_machine(
        "gpu_clock_limit",
        "The most that they can run at.",
        _by_name(lambda gpu: gpu.clock_limits_hertz, CLOCKS),
        unit="hertz",
        labels=("gpu", "clock"),
    ),
    of_machine(
        "gpu_energy",
        "Energy that the board took since the driver was loaded.",
        _gpu(lambda gpu: gpu.energy_joules),
        unit="joules",
        kind=MetricKind.COUNTER,
    ),
    of_machine(
        "gpu_nvlink_errors",
        "Errors of all NVLinks of the GPU; those that were recovered from, too.",
        _by_name(lambda gpu: gpu.nvlink_errors, NVLINK_ERRORS),
        kind=MetricKind.COUNTER,
        labels=("gpu", "kind"),
    ),
    of_machine(
        "gpu_nvlink_data",
        "Data that went over all NVLinks of the GPU.",
        _by_name(lambda gpu: gpu.nvlink_bytes, NVLINK_DIRECTIONS),
        unit="bytes",
        kind=MetricKind.COUNTER,
        labels=("gpu", "direction"),
    ),
    of_machine(
        "gpu_allocated",
        "1 for each GPU that is given to a run.",
        _allocated,
        labels=("run", "gpu"),
        lifetime=Lifetime.ATTEMPT,
        source="daemon, or the run's spec",
    ),
    of_machine(
        "gpu_time",
        "Time of the GPU by use: busy or idle in a run (unknown: the driver does not "
        "say), free, or out of use.",
        lambda machine: machine.gpu_times.devices.items(),
        unit="seconds",
        kind=MetricKind.COUNTER,
        labels=("gpu", "use"),
        source="exporter",
    ),
    of_machine(
        "run_gpu_time",
        "Time of GPUs that the run held, by use; all its GPUs together.",
        lambda machine: machine.gpu_times.runs.items(),
        unit="seconds",
        kind=MetricKind.COUNTER,
        labels=("run", "use"),
        lifetime=Lifetime.RUN,
        source="exporter",
    ),
    of_machine(
        "user_gpu_time",
        "Time of GPUs that the runs of the user held, by use.",
        lambda machine: machine.gpu_times.users.items(),
        unit="seconds",
        kind=MetricKind.COUNTER,
        labels=("user", "use"),
        source="exporter",
    ),
    of_machine(
        "gpu_xids",
        "Errors that the driver reported (Xids) while it was watched, by kind.",
        _xids,
        kind=MetricKind.COUNTER,
        labels=("gpu", "kind"),
        source="NVML and kernel log",
    ),
    of_machine(
        "gpu_last_xid",
        "Number of the newest Xid, as in NVIDIA's catalogue; absent without one.",
        _last_xid,
        source="NVML and kernel log",
    ),
)
