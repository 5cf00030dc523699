"""GPUs as values: what one round of questions to the driver tells.

Meanings are those of NVML's ``nvml.h``, in base units; ``core.gpu.probe_protocol`` reads what the
probe writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

THROTTLES: tuple[tuple[int, str], ...] = (
    (0x002, "applications_clocks"),
    (0x004, "power_cap"),
    (0x008, "hardware_slowdown"),
    (0x010, "sync_boost"),
    (0x020, "thermal"),
    (0x040, "hardware_thermal"),
    (0x080, "power_brake"),
    (0x100, "display_clocks"),
    (0x200, "board_limit"),
    (0x400, "reliability"),
)
"""Bits of ``nvmlClocksEventReason…`` that slow a busy GPU (``nvml.h``); idling, bit 1,
is not one of them."""

CLOCKS = ("sm", "memory")
"""``nvmlClockType_t``: of the multiprocessors, and of the memory."""
NVLINK_ERRORS = ("crc_flit", "crc_data", "replay", "recovery")
"""``NVML_FI_DEV_NVLINK_…_ERROR_COUNT_TOTAL``: over all links of a GPU."""
NVLINK_DIRECTIONS = ("transmit", "receive")

ECC_SPANS = ("volatile", "aggregate")
"""Since the driver was loaded, and over the life of the board."""
ECC_KINDS = ("corrected", "uncorrected")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """In bytes. ``reserved``: by driver and firmware; older drivers count it as used."""

    total: int
    used: int
    free: int
    reserved: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that has a context on the device. ``bytes``: None where not told."""

    pid: int
    bytes: int | None
    instance: int | None = None
    """GPU instance under MIG."""
    name: str = "?"
    """Of its command, as far as we see the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of memory replaced by spares. ``failed``: no spare was left."""

    corrected: int
    uncorrected: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MigDevice:
    """A slice of a GPU that programs see as a device."""

    uuid: str
    instance: int | None
    compute_instance: int | None
    memory: GpuMemory | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device, in one sample. None: not known, or not of this device."""

    uuid: str
    index: int | None = None
    name: str = ""
    bus: str = ""
    """PCI address as in the kernel log: ``0000:3b:00``."""
    lost: bool = False
    """It has fallen off the bus: nothing else here is from now."""
    memory: GpuMemory | None = None
    utilization: float | None = None
    """Share of the last period in which a kernel ran, 0 to 1."""
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    throttled: frozenset[str] | None = None
    """Of the names in ``THROTTLES``."""
    ecc: Mapping[tuple[str, str], int] = field(
        default_factory=dict[tuple[str, str], int]
    )
    """Errors by span and kind; empty without ECC."""
    rows: RemappedRows | None = None
    pcie_replays: int | None = None
    pcie_lanes: tuple[int, int] | None = None
    """Of its link now, and the most that card and slot can have."""
    clocks_hertz: Mapping[str, float] = field(default_factory=dict[str, float])
    """By the names of ``CLOCKS``, as of now."""
    clock_limits_hertz: Mapping[str, float] = field(default_factory=dict[str, float])
    """The most that they can be."""
    energy_joules: float | None = None
    """Since the driver was loaded."""
    nvlink_errors: Mapping[str, int] = field(default_factory=dict[str, int])
    """By the names of ``NVLINK_ERRORS``; empty without NVLink."""
    nvlink_bytes: Mapping[str, int] = field(default_factory=dict[str, int])
    """By the names of ``NVLINK_DIRECTIONS``: data only, without its wrapping."""
    processes: tuple[GpuProcess, ...] | None = None
    mig: tuple[MigDevice, ...] = ()
    problems: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the driver refused to tell, and how; not what it does not support."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """An error that the driver reported, by its number in NVIDIA's Xid catalogue."""

    code: int
    at: float
    """Monotonic seconds."""
    gpu: str | None = None
    """UUID; None: of a GPU that is not known (any more)."""
    bus: str = ""
    text: str = ""
    """The line of the kernel log, where that is the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSample:
    """Everything that one round of questions told."""

    taken: float
    """Monotonic seconds, at its end."""
    seconds: float
    """How long the driver took to answer."""
    driver: str
    gpus: tuple[Gpu, ...]
    xids: tuple[Xid, ...] = ()


@dataclass(frozen=True, slots=True)
class Absent:
    """There is no NVML here, or nothing that it would speak to: ``because``."""

    because: str


@dataclass(frozen=True, slots=True)
class Hanging:
    """Whoever keeps the probe tells that it hangs, and that SIGKILL does not end it."""


class KernelLine(NamedTuple):
    """One line of the kernel log, and when it was written in monotonic seconds.

    The kernel's own clock for its log is not adjusted as the monotonic clock is: after
    days of uptime the two may be some seconds apart.
    """

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Logged:
    """Lines of the kernel log that somebody else reads."""

    lines: tuple[KernelLine, ...]


Said = GpuSample | Absent | Hanging | Logged
"""What comes from the probe, or from the service that keeps it."""


def with_lost(
    sample: GpuSample, known: Mapping[str, Gpu]
) -> tuple[GpuSample, dict[str, Gpu]]:
    """``sample`` with every GPU of ``known`` that is missing in it marked as lost, and
    what is known from now on: a probe that starts anew cannot see what fell off."""
    now = tuple(_as_it_was(gpu, known) if gpu.lost else gpu for gpu in sample.gpus)
    here = {gpu.uuid for gpu in now}
    gone = tuple(
        _as_it_was(Gpu(uuid=uuid, lost=True), known)
        for uuid in known
        if uuid not in here
    )
    whole = replace(sample, gpus=now + gone)
    return whole, {gpu.uuid: gpu for gpu in whole.gpus}


def _as_it_was(lost: Gpu, known: Mapping[str, Gpu]) -> Gpu:
    """A lost GPU with its place and its MIG devices: they are lost with it."""
    was = known.get(lost.uuid, lost)
    return replace(
        lost,
        index=was.index,
        name=was.name,
        bus=was.bus,
        mig=tuple(replace(part, memory=None) for part in was.mig),
    )


def short_bus(bus: str) -> str:
    """NVML's ``00000000:3B:00.0`` as the kernel log writes it: ``0000:3b:00``."""
    domain, colon, rest = bus.lower().partition(":")
    return f"{domain[-4:]}{colon}{rest.partition('.')[0]}"
