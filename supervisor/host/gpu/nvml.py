"""NVML, through NVIDIA's own binding: one round of questions, as plain values.

Runs in the probe process only: any call here may take for ever. What a device does not
support is left out; what it refuses is named under ``problems``; a device that has
fallen off the bus is told as ``lost``. ``core.gpu.gpu_readings`` decides what to believe.
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pynvml as _untyped  # pyright: ignore[reportMissingTypeStubs]  # it has none

pynvml: Any = _untyped

Value = dict[str, Any]

LOST = {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED}
CLOCKS = {"sm": pynvml.NVML_CLOCK_SM, "memory": pynvml.NVML_CLOCK_MEM}
NVLINK_ERRORS = {
    "crc_flit": pynvml.NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL,
    "crc_data": pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL,
    "replay": pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL,
    "recovery": pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL,
}
NVLINK_DATA = {
    "transmit": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
    "receive": pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
}
ALL_LINKS = 0xFFFFFFFF
"""The scope of a throughput field over all links (nvml.h)."""
SILENT = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_NOT_FOUND,
}
"""Not of this device, or not of this driver: no problem, just no answer."""
EVENTS_A_ROUND = 256
"""So many Xids are taken in at once; a storm of them leaves some for the next."""


_ABSENT = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "there is no NVIDIA driver here"
    " (NVML, its library libnvidia-ml.so.1, is not found): on a machine with an NVIDIA GPU install its driver; into a"
    " container it comes with --gpus all",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is installed and not loaded:"
    " try modprobe nvidia, or reboot; dmesg tells why it was not",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "the NVIDIA driver was updated and its old"
    " kernel module is still loaded (a version mismatch): reboot",
    pynvml.NVML_ERROR_NO_PERMISSION: "the NVIDIA driver does not answer this user: they"
    " must be able to read and write /dev/nvidiactl and /dev/nvidia0",
}
"""Why there is no NVML (nvml.h), and what to do; of others the driver's own word."""


class LostError(Exception):
    """The device has fallen off the bus, or must be reset before it answers."""


class AbsentError(Exception):
    """There is no NVML here; the message says why."""


@dataclass(slots=True)
class Device:
    """One GPU, with what does not change while the driver is loaded."""

    handle: Any
    index: int
    uuid: str
    name: str
    bus: str
    problems: dict[str, str] = field(default_factory=dict[str, str])

    def ask(self, question: Callable[..., Any], *more: Any) -> Any:
        """The answer to one question; None: there is none. Raises LostError."""
        try:
            return question(self.handle, *more)
        except pynvml.NVMLError as error:
            if error.value in LOST:
                raise LostError from None
            if error.value not in SILENT:
                self.problems[question.__name__] = str(error)
            return None


class Nvml:
    """An open NVML session."""

    def __init__(self) -> None:
        """Load the library and find every device. Raises AbsentError."""
        try:
            pynvml.nvmlInit()
            self.driver = str(pynvml.nvmlSystemGetDriverVersion())
            count = int(pynvml.nvmlDeviceGetCount())
        except pynvml.NVMLError as error:
            raise AbsentError(_ABSENT.get(error.value, str(error))) from None
        found = (_device(index) for index in range(count))
        self.devices = [device for device in found if device is not None]
        self._events = self._listen()

    def _listen(self) -> Any | None:
        """An event set for Xids of every device that has them; None: no device has."""
        try:
            events = pynvml.nvmlEventSetCreate()
        except pynvml.NVMLError:
            return None
        kind = pynvml.nvmlEventTypeXidCriticalError
        heard = False
        for device in self.devices:
            try:
                pynvml.nvmlDeviceRegisterEvents(device.handle, kind, events)
                heard = True
            except pynvml.NVMLError as error:
                if error.value not in SILENT:
                    device.problems["nvmlDeviceRegisterEvents"] = str(error)
        return events if heard else None

    def wait(self, *, seconds: float) -> list[Value]:
        """Wait for Xids, at most so long; those that came. The first one ends it."""
        ends = time.monotonic() + seconds
        xids: list[Value] = []
        while len(xids) < EVENTS_A_ROUND:
            left = 0.0 if xids else max(ends - time.monotonic(), 0.0)
            event = self._next_event(left)
            if event is None:
                break
            if event.eventType & pynvml.nvmlEventTypeXidCriticalError:
                xids.append(self._xid(event))
            elif time.monotonic() >= ends:
                break
        if not xids:
            time.sleep(max(ends - time.monotonic(), 0.0))
        return xids

    def _next_event(self, seconds: float) -> Any | None:
        """None: nothing came, or the driver would not say (a lost GPU ends the wait)."""
        if self._events is None:
            return None
        try:
            return pynvml.nvmlEventSetWait(self._events, int(1000 * seconds))
        except pynvml.NVMLError:
            return None

    def _xid(self, event: Any) -> Value:
        uuid = _uuid_of(event.device, self.devices)
        return {"code": int(event.eventData), "at": time.monotonic(), "gpu": uuid}

    def sample(self) -> Value:
        """Ask every device everything."""
        began = time.monotonic()
        gpus = [_read(device) for device in self.devices]
        ended = time.monotonic()
        return {
            "taken": ended,
            "seconds": ended - began,
            "driver": self.driver,
            "gpus": gpus,
        }


def _device(index: int) -> Device | None:
    """None: it does not even say who it is."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        uuid = str(pynvml.nvmlDeviceGetUUID(handle))
    except pynvml.NVMLError:
        return None
    device = Device(handle, index, uuid, "", "")
    try:
        device.name = str(device.ask(pynvml.nvmlDeviceGetName) or "")
        pci = device.ask(pynvml.nvmlDeviceGetPciInfo)
    except LostError:
        return device
    if pci is not None:
        device.bus = _string(pci.busId)
    return device


def _string(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _uuid_of(handle: Any, devices: list[Device]) -> str | None:
    """Whose event it is. Handles are pointers, and the same for the whole session."""
    address = _address(handle)
    for device in devices:
        if _address(device.handle) == address:
            return device.uuid
    return None


def _address(handle: Any) -> int:
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def _read(device: Device) -> Value:
    device.problems.clear()
    known: Value = {
        "uuid": device.uuid,
        "index": device.index,
        "name": device.name,
        "bus": device.bus,
    }
    try:
        known |= _health(device) | _use(device)
        known["mig"] = _mig(device)
    except LostError:
        known["lost"] = True
    known["problems"] = dict(device.problems)
    return known


def _health(device: Device) -> Value:
    throttle = device.ask(pynvml.nvmlDeviceGetCurrentClocksEventReasons)
    if throttle is None:  # drivers before 535 know it by its old name
        throttle = device.ask(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons)
    return {
        "temperature_celsius": device.ask(
            pynvml.nvmlDeviceGetTemperature, pynvml.NVML_TEMPERATURE_GPU
        ),
        "power_milliwatts": device.ask(pynvml.nvmlDeviceGetPowerUsage),
        "power_limit_milliwatts": device.ask(pynvml.nvmlDeviceGetEnforcedPowerLimit),
        "throttle_bits": throttle,
        "ecc": _ecc(device),
        "rows": _rows(device),
        "pcie_replays": device.ask(pynvml.nvmlDeviceGetPcieReplayCounter),
        "pcie_lanes": device.ask(pynvml.nvmlDeviceGetCurrPcieLinkWidth),
        "pcie_lanes_most": device.ask(pynvml.nvmlDeviceGetMaxPcieLinkWidth),
        "clocks_megahertz": _clocks(device, pynvml.nvmlDeviceGetClockInfo),
        "clock_limits_megahertz": _clocks(device, pynvml.nvmlDeviceGetMaxClockInfo),
        "energy_millijoules": device.ask(pynvml.nvmlDeviceGetTotalEnergyConsumption),
        **_nvlink(device),
    }


def _clocks(device: Device, question: Callable[..., Any]) -> Value:
    return {name: device.ask(question, kind) for name, kind in CLOCKS.items()}


def _nvlink(device: Device) -> Value:
    """All that is asked about NVLink, in one call; nothing where there is none."""
    asked = [(kind, 0) for kind in NVLINK_ERRORS.values()]
    asked += [(kind, ALL_LINKS) for kind in NVLINK_DATA.values()]
    told = device.ask(pynvml.nvmlDeviceGetFieldValues, asked)
    known = {one.fieldId: _field(one) for one in told or ()}
    return {
        "nvlink_errors": {
            name: known.get(kind) for name, kind in NVLINK_ERRORS.items()
        },
        "nvlink_kibibytes": {
            name: known.get(kind) for name, kind in NVLINK_DATA.items()
        },
    }


def _field(field: Any) -> int | None:
    """One counter; None: this device, or this driver, has none of the kind."""
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        return None
    if field.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT:
        return int(field.value.uiVal)
    return int(field.value.ullVal)


def _ecc(device: Device) -> Value:
    spans = {
        "volatile": pynvml.NVML_VOLATILE_ECC,
        "aggregate": pynvml.NVML_AGGREGATE_ECC,
    }
    kinds = {
        "corrected": pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
        "uncorrected": pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
    }
    return {
        f"{span}_{kind}": device.ask(pynvml.nvmlDeviceGetTotalEccErrors, error, counter)
        for span, counter in spans.items()
        for kind, error in kinds.items()
    }


def _rows(device: Device) -> Value | None:
    rows = device.ask(pynvml.nvmlDeviceGetRemappedRows)
    if rows is None:
        return None
    corrected, uncorrected, pending, failed = rows
    return {
        "corrected": corrected,
        "uncorrected": uncorrected,
        "pending": bool(pending),
        "failed": bool(failed),
    }


def _use(device: Device) -> Value:
    utilization = device.ask(pynvml.nvmlDeviceGetUtilizationRates)
    return {
        "memory": _memory(device, device.handle),
        "utilization_percent": None if utilization is None else utilization.gpu,
        "processes": _processes(device),
    }


def _memory(device: Device, handle: Any) -> Value | None:
    """Version 2 tells apart what driver and firmware keep for themselves."""
    part = Device(handle, device.index, "", "", "", device.problems)
    info = part.ask(pynvml.nvmlDeviceGetMemoryInfo, pynvml.nvmlMemory_v2)
    if info is None:
        info = part.ask(pynvml.nvmlDeviceGetMemoryInfo)
    if info is None:
        return None
    names = ("total", "used", "free", "reserved")
    return {name: getattr(info, name, None) for name in names}


def _processes(device: Device) -> list[Value] | None:
    """Programs that compute and programs that draw; some do both and count once."""
    computing = device.ask(pynvml.nvmlDeviceGetComputeRunningProcesses)
    drawing = device.ask(pynvml.nvmlDeviceGetGraphicsRunningProcesses)
    if computing is None:
        return None
    found: dict[tuple[int, int], Value] = {}
    for process in (*computing, *(drawing or ())):
        instance = process.gpuInstanceId
        found.setdefault(
            (process.pid, instance),
            {"pid": process.pid, "bytes": process.usedGpuMemory, "instance": instance},
        )
    return list(found.values())


def _mig(device: Device) -> list[Value]:
    mode = device.ask(pynvml.nvmlDeviceGetMigMode)
    if mode is None or mode[0] != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    count = device.ask(pynvml.nvmlDeviceGetMaxMigDeviceCount) or 0
    handles = (
        device.ask(pynvml.nvmlDeviceGetMigDeviceHandleByIndex, place)
        for place in range(count)
    )
    return [_mig_device(device, handle) for handle in handles if handle is not None]


def _mig_device(device: Device, handle: Any) -> Value:
    part = Device(handle, device.index, "", "", "", device.problems)
    return {
        "uuid": part.ask(pynvml.nvmlDeviceGetUUID),
        "instance": part.ask(pynvml.nvmlDeviceGetGpuInstanceId),
        "compute_instance": part.ask(pynvml.nvmlDeviceGetComputeInstanceId),
        "memory": _memory(device, handle),
    }
