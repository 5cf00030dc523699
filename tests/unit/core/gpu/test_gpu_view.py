"""What ``trainwarden gpu`` shows."""

from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess, GpuSample, Xid
from supervisor.core.gpu.gpu_view import GpusShown, GpuUser, Tenancy, picture
from supervisor.core.gpu.xids import Known, XidLog

BUSY = Gpu(
    uuid="GPU-1",
    index=0,
    name="NVIDIA H200",
    memory=GpuMemory(total=100, used=60, free=40),
    temperature_celsius=61.0,
    throttled=frozenset({"thermal", "power_cap"}),
    processes=(GpuProcess(pid=7, bytes=50), GpuProcess(pid=8, bytes=None)),
    problems={"nvmlDeviceGetPowerUsage": "Unknown Error"},
)
BARE = Gpu(uuid="GPU-2", lost=True)
SAMPLE = GpuSample(taken=5.0, seconds=0.1, driver="580", gpus=(BUSY, BARE))
XIDS = XidLog(
    newest=(Known(Xid(code=79, at=1.0, gpu="GPU-2"), frozenset({"nvml"})),),
    counts={("GPU-2", 79): 2, ("GPU-2", 31): 1},
)
TENANCY = Tenancy(owners={7: "digits"}, holders={"GPU-1": "digits"}, out={"GPU-2"})


def shown(sample: GpuSample | None, *, fresh: bool) -> GpusShown:
    """The picture of a sample."""
    return picture(
        sample,
        fresh=fresh,
        problem="" if fresh else "silent",
        reboot=False,
        xids=XIDS,
        tenancy=TENANCY,
    )


def test_whose_it_is_and_how_it_does() -> None:
    """Figures, the job that was given it, and the processes on it with their jobs."""
    seen = shown(SAMPLE, fresh=True)
    busy, bare = seen.gpus
    assert (seen.driver, seen.answers, seen.problem) == ("580", True, "")
    assert (busy.job, busy.in_service, busy.xids, busy.last_xid) == (
        "digits", True, 0, None,
    )  # fmt: skip
    assert (busy.memory_used_bytes, busy.memory_total_bytes) == (60, 100)
    assert busy.throttled == ("power_cap", "thermal")
    assert busy.processes == (
        GpuUser(pid=7, job="digits", bytes=50),
        GpuUser(pid=8, job=None, bytes=None),
    )
    assert busy.problems == ("nvmlDeviceGetPowerUsage: Unknown Error",)
    assert (bare.lost, bare.in_service, bare.job) == (True, False, None)
    assert (bare.xids, bare.last_xid) == (3, 79)
    assert (bare.memory_total_bytes, bare.throttled, bare.processes) == (
        None, None, None,
    )  # fmt: skip


def test_what_is_old_is_not_shown() -> None:
    """While the driver is silent no figure is told, only which GPUs there are."""
    seen = shown(SAMPLE, fresh=False)
    assert (seen.answers, seen.problem) == (False, "silent")
    assert [(gpu.gpu, gpu.index) for gpu in seen.gpus] == [
        ("GPU-1", 0),
        ("GPU-2", None),
    ]
    assert seen.gpus[0].memory_used_bytes is None
    assert seen.gpus[0].processes is None
    assert shown(None, fresh=False).gpus == ()
