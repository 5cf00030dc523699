"""Xids from NVML and from the kernel log, each told once."""

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.log_scanner import scan
from supervisor.core.diagnosis.signatures.all_rows import BY_ID
from supervisor.core.gpu.gpu_readings import Gpu, Xid
from supervisor.core.gpu.xids import KEPT, XidLog, as_kernel_line, heard, parse_xid

GPUS = (
    Gpu(uuid="GPU-a", bus="0000:3b:00"),
    Gpu(uuid="GPU-b", bus="0000:5e:00"),
    Gpu(uuid="GPU-c"),
)
LINE = (
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, name=python3, "
    "GPU has fallen off the bus."
)


def told(log: XidLog, source: str, *xids: Xid) -> XidLog:
    """``log`` after ``source`` told of ``xids``."""
    return heard(log, xids, source=source, gpus=GPUS)


@pytest.mark.parametrize(
    ("text", "code", "bus"),
    [
        (LINE, 79, "0000:3b:00"),
        ("NVRM: Xid (PCI:0000:3B:00.0): 13, Graphics Exception", 13, "0000:3b:00"),
        ("NVRM: Xid (0000:03:00): 31, pid=1", 31, "0000:03:00"),
        ("NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7", 94, "0000:3b:00"),
    ],
)
def test_lines_of_the_kernel(text: str, code: int, bus: str) -> None:
    """The driver's lines are read, with what stands beside the address."""
    xid = parse_xid(text, at=2.0)
    assert xid == Xid(code=code, at=2.0, bus=bus, text=text)


def test_other_lines() -> None:
    """A line about something else is none."""
    assert parse_xid("NVRM: loading NVIDIA UNIX x86_64 Kernel Module", at=1.0) is None


def test_two_tellings_are_one() -> None:
    """NVML and the kernel log tell of one Xid, in either order; the text is kept."""
    kernel = parse_xid(LINE, at=10.4)
    assert kernel is not None
    event = Xid(code=79, at=10.0, gpu="GPU-a")
    for sources in (
        [("nvml", event), ("kernel", kernel)],
        [("kernel", kernel), ("nvml", event)],
    ):
        log = XidLog()
        for source, xid in sources:
            log = told(log, source, xid)
        assert log.count("GPU-a") == 1
        (known,) = log.xids
        assert (known.gpu, known.bus, known.text) == ("GPU-a", "0000:3b:00", LINE)


@pytest.mark.parametrize(
    "other",
    [
        Xid(code=79, at=20.0, bus="0000:3b:00"),
        Xid(code=48, at=10.0, bus="0000:3b:00"),
        Xid(code=79, at=10.0, bus="0000:5e:00"),
        Xid(code=79, at=10.0, bus="0000:99:00"),
    ],
)
def test_others_are_others(other: Xid) -> None:
    """Another time, number or GPU is another Xid."""
    log = told(XidLog(), "nvml", Xid(code=79, at=10.0, gpu="GPU-a"))
    assert len(told(log, "kernel", other).xids) == 2


def test_one_source_repeats_itself() -> None:
    """Two of one source are two, and each finds its own in the other source."""
    log = XidLog()
    for at in (10.0, 10.5):
        log = told(log, "nvml", Xid(code=13, at=at, gpu="GPU-c"))
    assert log.count("GPU-c") == 2
    for at in (10.1, 10.6, 10.7):
        log = told(log, "kernel", Xid(code=13, at=at, gpu="GPU-c"))
    assert log.count("GPU-c") == 3


def test_a_storm_is_counted_not_kept() -> None:
    """All are counted, the newest are kept."""
    storm = [Xid(code=13, at=float(at), gpu="GPU-b") for at in range(1000)]
    log = told(XidLog(), "nvml", *storm)
    assert log.count("GPU-b") == 1000
    assert len(log.xids) == KEPT
    assert log.last("GPU-b") == Xid(code=13, at=999.0, gpu="GPU-b", bus="0000:5e:00")
    assert log.last("GPU-a") is None
    assert log.count("GPU-a") == XidLog().count("GPU-a") == 0
    assert len(log.since(990.0)) == 10


@pytest.mark.parametrize("gpu", ["GPU-a", "GPU-c", None])
def test_an_event_reads_as_the_line_would(gpu: str | None) -> None:
    """What NVML told leads to the cause that the kernel's line leads to."""
    log = told(XidLog(), "nvml", Xid(code=79, at=1.0, gpu=gpu))
    (hit,) = scan(f"{as_kernel_line(log.xids[0])}\n".encode()).hits
    assert BY_ID[hit.signature].cause is Cause.GPU_HARDWARE
    assert as_kernel_line(Xid(code=79, at=1.0, text=LINE)) == LINE


def test_a_gpu_that_is_named_later() -> None:
    """What the kernel told before NVML had named any GPU is of that GPU all the same."""
    kernel = parse_xid(LINE, at=10.0)
    other = parse_xid("NVRM: Xid (PCI:0000:99:00): 31, pid=1", at=11.0)
    assert kernel is not None
    assert other is not None
    log = heard(XidLog(), [kernel, other], source="kernel", gpus=())
    assert (log.count("GPU-a"), log.last("GPU-a")) == (0, None)
    log = told(log, "nvml")
    assert log.codes("GPU-a") == {79: 1}
    assert [xid.gpu for xid in log.xids] == ["GPU-a", None]
    log = told(log, "nvml", Xid(code=79, at=10.5, gpu="GPU-a"))
    assert log.codes("GPU-a") == {79: 1}
