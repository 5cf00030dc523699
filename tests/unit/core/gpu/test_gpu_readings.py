"""What the probe writes, believed as far as it is plausible."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.gpu.gpu_readings import (
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
    Xid,
    short_bus,
    with_lost,
)
from supervisor.core.gpu.probe_protocol import parse_line

MEMORY = {"total": 100, "used": 60, "free": 30, "reserved": 10}
WHOLE: dict[str, Any] = {
    "uuid": "GPU-1",
    "index": 0,
    "name": "NVIDIA H200",
    "bus": "00000000:3B:00.0",
    "memory": MEMORY,
    "utilization_percent": 97,
    "temperature_celsius": 61,
    "power_milliwatts": 512_345,
    "power_limit_milliwatts": 700_000,
    "throttle_bits": 0x45,
    "ecc": {"volatile_corrected": 3, "aggregate_uncorrected": None},
    "rows": {"corrected": 1, "uncorrected": 2, "pending": True, "failed": False},
    "pcie_replays": 7,
    "pcie_lanes": 8,
    "pcie_lanes_most": 16,
    "clocks_megahertz": {"sm": 1755, "memory": 3201},
    "clock_limits_megahertz": {"sm": 1980, "memory": 0},
    "energy_millijoules": 86_400_000,
    "nvlink_errors": {"crc_flit": 0, "crc_data": None, "replay": 2, "recovery": 1},
    "nvlink_kibibytes": {"transmit": 4, "receive": None},
    "processes": [{"pid": 4711, "bytes": 50, "instance": 4294967295}],
    "mig": [{"uuid": "MIG-1", "instance": 1, "compute_instance": 0, "memory": MEMORY}],
    "problems": {"nvmlDeviceGetPowerUsage": "Unknown Error"},
}


def parsed(*gpus: Any, **more: Any) -> GpuSample:
    """The sample in a line with these GPUs."""
    value = {"taken": 5.0, "seconds": 0.1, "driver": "580", "gpus": gpus, **more}
    sample = parse_line(json.dumps(value).encode())
    assert isinstance(sample, GpuSample)
    return sample


def one(**changes: Any) -> Gpu:
    """The GPU that ``WHOLE`` is with these changes."""
    (gpu,) = parsed(WHOLE | changes).gpus
    return gpu


def test_everything_is_read() -> None:
    """Each figure of a healthy device arrives, in base units."""
    memory = GpuMemory(total=100, used=60, free=30, reserved=10)
    assert one() == Gpu(
        uuid="GPU-1",
        index=0,
        name="NVIDIA H200",
        bus="0000:3b:00",
        memory=memory,
        utilization=0.97,
        temperature_celsius=61.0,
        power_watts=512.345,
        power_limit_watts=700.0,
        throttled=frozenset({"power_cap", "hardware_thermal"}),
        ecc={("volatile", "corrected"): 3},
        rows=RemappedRows(corrected=1, uncorrected=2, pending=True, failed=False),
        pcie_replays=7,
        pcie_lanes=(8, 16),
        clocks_hertz={"sm": 1.755e9, "memory": 3.201e9},
        clock_limits_hertz={"sm": 1.98e9},
        energy_joules=86_400.0,
        nvlink_errors={"crc_flit": 0, "replay": 2, "recovery": 1},
        nvlink_bytes={"transmit": 4096},
        processes=(GpuProcess(pid=4711, bytes=50),),
        mig=(MigDevice(uuid="MIG-1", instance=1, compute_instance=0, memory=memory),),
        problems={"nvmlDeviceGetPowerUsage": "Unknown Error"},
    )


@pytest.mark.parametrize(
    ("field", "value", "attribute"),
    [
        ("memory", None, "memory"),
        ("memory", MEMORY | {"total": 0}, "memory"),
        ("memory", MEMORY | {"total": 80}, "memory"),
        ("memory", MEMORY | {"used": 2**64 - 1}, "memory"),
        ("memory", MEMORY | {"free": None}, "memory"),
        ("utilization_percent", 101, "utilization"),
        ("utilization_percent", -1, "utilization"),
        ("utilization_percent", True, "utilization"),
        ("temperature_celsius", 511, "temperature_celsius"),
        ("temperature_celsius", float("nan"), "temperature_celsius"),
        ("power_milliwatts", 4_294_967_295, "power_watts"),
        ("throttle_bits", None, "throttled"),
        ("rows", {"corrected": 1}, "rows"),
        ("rows", [1, 2], "rows"),
        ("pcie_replays", 4_294_967_295, "pcie_replays"),
        ("pcie_replays", "7", "pcie_replays"),
        ("pcie_lanes", 0, "pcie_lanes"),
        ("pcie_lanes", 33, "pcie_lanes"),
        ("pcie_lanes_most", None, "pcie_lanes"),
        ("energy_millijoules", -1, "energy_joules"),
        ("processes", None, "processes"),
    ],
)
def test_nonsense_is_not_known(field: str, value: Any, attribute: str) -> None:
    """What cannot be a measurement is None; the other figures stay."""
    gpu = one(**{field: value})
    assert getattr(gpu, attribute) is None
    assert gpu.name == "NVIDIA H200"


def test_nonsense_about_clocks_and_links() -> None:
    """A driver without them, or one that answers what is none, tells nothing of them."""
    wrong = ("clocks_megahertz", "clock_limits_megahertz", "nvlink_errors")
    gpu = one(**dict.fromkeys(wrong, 7), nvlink_kibibytes={"transmit": 2**32 - 1})
    assert gpu.clocks_hertz == gpu.clock_limits_hertz == {}
    assert gpu.nvlink_errors == gpu.nvlink_bytes == {}


def test_a_process_cannot_hold_more_than_there_is() -> None:
    """The process is told, what it holds is not known; pid 0 is nobody."""
    gpu = one(processes=[{"pid": 1, "bytes": 101}, {"pid": 0, "bytes": 1}, "x"])
    assert gpu.processes == (GpuProcess(pid=1, bytes=None),)
    without = one(memory=None, processes=[{"pid": 1, "bytes": 101, "instance": 3}])
    assert without.processes == (GpuProcess(pid=1, bytes=101, instance=3),)


def test_what_has_no_name_is_left_out() -> None:
    """A device without a UUID, a MIG device without one and an Xid without a number."""
    assert parsed({"index": 0}).gpus == ()
    assert one(mig=[{"instance": 1}], ecc=None, problems=None).mig == ()
    assert parsed(xids=[{"code": 79}, {"at": 1.0}]).xids == ()


def test_xids() -> None:
    """An Xid has its number, its time and its GPU, if it has one."""
    xids = [{"code": 79, "at": 4.5, "gpu": "GPU-1"}, {"code": 13, "at": 4.6}]
    assert parsed(xids=xids).xids == (
        Xid(code=79, at=4.5, gpu="GPU-1"),
        Xid(code=13, at=4.6),
    )


def test_no_nvml() -> None:
    """The probe says that there is no NVML, and why."""
    assert parse_line(b'{"absent":"Driver Not Loaded"}') == Absent("Driver Not Loaded")
    assert parse_line(b'{"absent":7}') == Absent("")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1]",
        b"{",
        b'{"taken":1}',
        b'{"taken":1,"seconds":1}',
        b'{"taken":"now","seconds":1,"gpus":[]}',
        b'{"taken":1' + b"0" * 400 + b',"seconds":1,"gpus":[]}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_sample(line: bytes) -> None:
    """A line that is none says nothing."""
    assert parse_line(line) is None


@given(
    st.recursive(st.none() | st.floats() | st.text(), st.lists, max_leaves=12).map(
        json.dumps
    )
)
def test_any_json_is_survived(text: str) -> None:
    """Whatever stands in a field, reading does not raise."""
    for field in WHOLE:
        value = '{"taken":1,"seconds":1,"gpus":[{"uuid":"a","%s":%s}]}'
        assert parse_line((value % (field, text)).encode()) is not None


def test_a_gpu_that_is_missing_is_lost() -> None:
    """A known GPU that a new probe cannot find is told as lost, until it is back."""
    both = parsed(WHOLE, WHOLE | {"uuid": "GPU-2", "bus": "00000000:5E:00.0"})
    sample, known = with_lost(both, {})
    assert sample == both
    sample, known = with_lost(parsed(WHOLE), known)
    assert [(gpu.uuid, gpu.lost, gpu.bus) for gpu in sample.gpus] == [
        ("GPU-1", False, "0000:3b:00"),
        ("GPU-2", True, "0000:5e:00"),
    ]
    assert [part.uuid for part in sample.gpus[1].mig] == ["MIG-1"]
    assert sample.gpus[1].mig[0].memory is None
    silent = parsed(WHOLE, {"uuid": "GPU-2", "lost": True})
    assert with_lost(silent, known)[0].gpus == sample.gpus
    sample, known = with_lost(both, known)
    assert not any(gpu.lost for gpu in sample.gpus)
    assert set(known) == {"GPU-1", "GPU-2"}


def test_the_driver_may_say_so_itself() -> None:
    """A device that answers only that it is lost is lost."""
    assert parsed({"uuid": "GPU-1", "lost": True}).gpus[0].lost


@pytest.mark.parametrize(
    ("bus", "short"),
    [("00000000:3B:00.0", "0000:3b:00"), ("0001:3b:00", "0001:3b:00"), ("", "")],
)
def test_bus(bus: str, short: str) -> None:
    """NVML's name of a place on the bus becomes the kernel log's."""
    assert short_bus(bus) == short


def test_what_a_service_adds() -> None:
    """That the probe hangs, and lines of the kernel log, cut to what the kernel writes;
    those that make no sense are left out."""
    assert parse_line(b'{"hanging": true}') == Hanging()
    lines = [
        {"at": 5.5, "text": "NVRM: Xid"}, {"at": 6, "text": "x" * 5000},
        {"at": None, "text": "a"}, {"at": 7.0}, 7,
    ]  # fmt: skip
    said = parse_line(json.dumps({"kernel": lines}).encode())
    assert said == Logged((KernelLine(5.5, "NVRM: Xid"), KernelLine(6.0, "x" * 1024)))
    assert parse_line(b'{"kernel": "none"}') == Logged(())
