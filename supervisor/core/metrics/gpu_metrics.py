"""The metrics of GPUs.

The label ``gpu`` is the UUID of a GPU or of a MIG device; ``trainwarden_gpu_info`` joins
name and place to it.
"""

from collections.abc import Callable, Iterator

from supervisor.core.gpu.gpu_readings import (
    ECC_KINDS,
    ECC_SPANS,
    THROTTLES,
    Gpu,
    GpuMemory,
)
from supervisor.core.metrics.machine_state import (
    Machine,
    foreign_memory,
    process_memory,
)
from supervisor.core.metrics.metric import (
    Lifetime,
    MetricKind,
    Point,
    ReadMachine,
    Value,
    of_machine,
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


def _kept_out(machine: Machine) -> Iterator[Point]:
    for gpu in machine.gpus:
        for because, those in machine.kept_out.items():
            numbered = str(gpu.index) in those
            for uuid in (gpu.uuid, *(part.uuid for part in gpu.mig)):
                yield (uuid, because), float(uuid in those or numbered)


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
        "1 if the GPU has fallen off the bus; its other series end then.",
        _gpu(lambda gpu: float(gpu.lost)),
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
        "gpu_xids",
        "Errors that the driver reported (Xids) while it was watched.",
        _xids,
        kind=MetricKind.COUNTER,
        source="NVML and kernel log",
    ),
    of_machine(
        "gpu_last_xid",
        "Number of the newest Xid, as in NVIDIA's catalogue; absent without one.",
        _last_xid,
        source="NVML and kernel log",
    ),
)
