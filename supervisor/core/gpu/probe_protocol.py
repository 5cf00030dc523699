"""The probe's lines, read without trusting them.

A driver in trouble answers nonsense before it answers nothing: sizes of 2^64 - 1, a
process that holds more than the device has, 511 degrees. Each figure is therefore
either plausible or None (not known). Nothing here raises on what a probe may write.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from supervisor.core.gpu.gpu_readings import (
    CLOCKS,
    ECC_KINDS,
    ECC_SPANS,
    NVLINK_DIRECTIONS,
    NVLINK_ERRORS,
    THROTTLES,
    Absent,
    Gpu,
    GpuMemory,
    GpuProcess,
    GpuSample,
    Hanging,
    KernelLine,
    Logged,
    MigDevice,
    RemappedRows,
    Said,
    Xid,
    short_bus,
)

MOST_BYTES = 2**50
MOST_COUNT = 2**53
MOST_WATTS = 20_000.0
MOST_MEGAHERTZ = 100_000.0
MOST_JOULES = 1e13
MOST_LANES = 32
LEAST_CELSIUS, MOST_CELSIUS = -50.0, 200.0
"""Beyond these it is no measurement but a driver's way of saying that it has none."""
MOST_TEXT = 96
MOST_SENTENCE = 300
"""Of why there is no NVML, with what to do."""
MOST_LINE = 1024
"""Of a line of the kernel log (printk's own limit: LOG_LINE_MAX, kernel/printk)."""

_ECC_NAMES = {
    (span, kind): f"{span}_{kind}" for span in ECC_SPANS for kind in ECC_KINDS
}

T = TypeVar("T")


def parse_line(line: bytes) -> Said | None:
    """What a line of the probe says, or of the service that keeps it; None: nothing
    that can be understood."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return None
    record = cast("dict[str, Any]", value)
    if "absent" in record:
        return Absent(_text(record, "absent", most=MOST_SENTENCE))
    if "hanging" in record:
        return Hanging()
    if "kernel" in record:
        return Logged(_all(_logged, record["kernel"]))
    return _sample(record)


def _sample(record: Mapping[str, Any]) -> GpuSample | None:
    taken, seconds = _number(record, "taken"), _number(record, "seconds")
    gpus = record.get("gpus")
    if taken is None or seconds is None or not isinstance(gpus, list):
        return None
    return GpuSample(
        taken=taken,
        seconds=max(seconds, 0.0),
        driver=_text(record, "driver"),
        gpus=_all(_gpu, cast("list[object]", gpus)),
        xids=_all(_xid, record.get("xids")),
    )


def _gpu(value: Mapping[str, Any]) -> Gpu | None:
    uuid = _text(value, "uuid")
    if not uuid:
        return None
    memory = _memory(value.get("memory"))
    return Gpu(
        uuid=uuid,
        index=_count(value, "index"),
        name=_text(value, "name"),
        bus=short_bus(_text(value, "bus")),
        lost=value.get("lost") is True,
        memory=memory,
        utilization=_scaled(value, "utilization_percent", 100, most=1.0),
        temperature_celsius=_between(
            value, "temperature_celsius", LEAST_CELSIUS, MOST_CELSIUS
        ),
        power_watts=_scaled(value, "power_milliwatts", 1000, most=MOST_WATTS),
        power_limit_watts=_scaled(
            value, "power_limit_milliwatts", 1000, most=MOST_WATTS
        ),
        throttled=_throttled(value),
        ecc=_ecc(value.get("ecc")),
        rows=_rows(value.get("rows")),
        pcie_replays=_count(value, "pcie_replays"),
        pcie_lanes=_lanes(value),
        clocks_hertz=_clocks(value.get("clocks_megahertz")),
        clock_limits_hertz=_clocks(value.get("clock_limits_megahertz")),
        energy_joules=_scaled(value, "energy_millijoules", 1000, most=MOST_JOULES),
        nvlink_errors=_counts(value.get("nvlink_errors"), NVLINK_ERRORS),
        nvlink_bytes=_kibibytes(value.get("nvlink_kibibytes")),
        processes=_processes(value.get("processes"), memory),
        mig=_all(_mig, value.get("mig")),
        problems=_problems(value.get("problems")),
    )


def _memory(value: object) -> GpuMemory | None:
    """Sizes of ``nvmlMemory_v2_t``. None unless they fit into each other."""
    if not isinstance(value, dict):
        return None
    sizes = cast("dict[str, Any]", value)
    total, used, free = (_size(sizes, name) for name in ("total", "used", "free"))
    if not total or used is None or free is None or used + free > total:
        return None
    return GpuMemory(
        total=total, used=used, free=free, reserved=_size(sizes, "reserved")
    )


def _throttled(value: Mapping[str, Any]) -> frozenset[str] | None:
    bits = _count(value, "throttle_bits")
    if bits is None:
        return None
    return frozenset(name for bit, name in THROTTLES if bits & bit)


def _ecc(value: object) -> dict[tuple[str, str], int]:
    if not isinstance(value, dict):
        return {}
    counts = cast("dict[str, Any]", value)
    known = {key: _count(counts, name) for key, name in _ECC_NAMES.items()}
    return {key: count for key, count in known.items() if count is not None}


def _clocks(value: object) -> dict[str, float]:
    """0 is no clock but a device that is asleep or does not tell."""
    if not isinstance(value, dict):
        return {}
    told = cast("dict[str, Any]", value)
    known = {
        name: _scaled(told, name, 1e-6, most=1e6 * MOST_MEGAHERTZ) for name in CLOCKS
    }
    return {name: hertz for name, hertz in known.items() if hertz}


def _lanes(value: Mapping[str, Any]) -> tuple[int, int] | None:
    """None unless both are known; 0 is a link that is asleep."""
    now = _whole(value, "pcie_lanes", MOST_LANES + 1)
    most = _whole(value, "pcie_lanes_most", MOST_LANES + 1)
    return (now, most) if now and most else None


def _counts(value: object, names: tuple[str, ...]) -> dict[str, int]:
    if not isinstance(value, dict):
        return {}
    told = cast("dict[str, Any]", value)
    known = {name: _count(told, name) for name in names}
    return {name: count for name, count in known.items() if count is not None}


def _kibibytes(value: object) -> dict[str, int]:
    known = _counts(value, NVLINK_DIRECTIONS)
    return {name: 1024 * count for name, count in known.items()}


def _rows(value: object) -> RemappedRows | None:
    if not isinstance(value, dict):
        return None
    rows = cast("dict[str, Any]", value)
    corrected, uncorrected = _count(rows, "corrected"), _count(rows, "uncorrected")
    if corrected is None or uncorrected is None:
        return None
    return RemappedRows(
        corrected=corrected,
        uncorrected=uncorrected,
        pending=rows.get("pending") is True,
        failed=rows.get("failed") is True,
    )


def _processes(
    value: object, memory: GpuMemory | None
) -> tuple[GpuProcess, ...] | None:
    """None: they could not be listed, which is not the same as none."""
    if not isinstance(value, list):
        return None
    most = MOST_BYTES if memory is None else memory.total

    def read(one: Mapping[str, Any]) -> GpuProcess | None:
        pid, held = _count(one, "pid"), _size(one, "bytes")
        if not pid:
            return None
        return GpuProcess(
            pid=pid,
            bytes=held if held is not None and held <= most else None,
            instance=_instance(one, "instance"),
        )

    return _all(read, cast("list[object]", value))


def _mig(value: Mapping[str, Any]) -> MigDevice | None:
    uuid = _text(value, "uuid")
    if not uuid:
        return None
    return MigDevice(
        uuid=uuid,
        instance=_instance(value, "instance"),
        compute_instance=_instance(value, "compute_instance"),
        memory=_memory(value.get("memory")),
    )


def _xid(value: Mapping[str, Any]) -> Xid | None:
    code, at = _count(value, "code"), _number(value, "at")
    if code is None or at is None:
        return None
    return Xid(code=code, at=at, gpu=_text(value, "gpu") or None)


def _logged(value: Mapping[str, Any]) -> KernelLine | None:
    at, text = _number(value, "at"), value.get("text")
    if at is None or not isinstance(text, str):
        return None
    return KernelLine(at, text[:MOST_LINE])


def _problems(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {
        str(name)[:MOST_TEXT]: str(text)[:MOST_TEXT]
        for name, text in cast("dict[str, Any]", value).items()
    }


def _all(
    read: Callable[[Mapping[str, Any]], T | None], values: object
) -> tuple[T, ...]:
    """Every item that can be read; the others are left out."""
    items = cast("list[object]", values) if isinstance(values, list) else []
    found = (
        read(cast("dict[str, Any]", item)) for item in items if isinstance(item, dict)
    )
    return tuple(one for one in found if one is not None)


def _number(value: Mapping[str, Any], name: str) -> float | None:
    found = value.get(name)
    if type(found) is not float and type(found) is not int:
        return None
    try:
        return float(found) if math.isfinite(found) else None
    except OverflowError:  # of an int that no float can hold
        return None


def _between(
    value: Mapping[str, Any], name: str, least: float, most: float
) -> float | None:
    found = _number(value, name)
    return found if found is not None and least <= found <= most else None


def _scaled(
    value: Mapping[str, Any], name: str, divisor: float, *, most: float
) -> float | None:
    found = _number(value, name)
    if found is None or not 0 <= found / divisor <= most:
        return None
    return found / divisor


def _whole(value: Mapping[str, Any], name: str, most: int) -> int | None:
    found = value.get(name)
    return found if type(found) is int and 0 <= found < most else None


def _count(value: Mapping[str, Any], name: str) -> int | None:
    """Below 2^32 - 1 where that stands for "not available" in a 32-bit field."""
    found = _whole(value, name, MOST_COUNT)
    return None if found == 2**32 - 1 else found


def _size(value: Mapping[str, Any], name: str) -> int | None:
    return _whole(value, name, MOST_BYTES)


def _instance(value: Mapping[str, Any], name: str) -> int | None:
    return _whole(value, name, 2**16)


def _text(value: Mapping[str, Any], name: str, *, most: int = MOST_TEXT) -> str:
    found = value.get(name)
    return found[:most] if isinstance(found, str) else ""
