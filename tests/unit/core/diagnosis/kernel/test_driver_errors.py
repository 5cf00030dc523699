"""What befell an attempt, and what befell somebody else."""

from collections.abc import Collection

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.diagnosis.kernel.driver_errors import DriverErrors, faults_of
from supervisor.core.gpu.gpu_readings import Gpu, Xid

OURS, OTHERS = "GPU-ours", "GPU-others"
PIDS = {4711, 4712}
OTHER = 1881
"""A process that the driver lists on the shared GPU."""
HEALTHY = (Gpu(uuid=OURS, bus="0000:3b:00"), Gpu(uuid=OTHERS, bus="0000:5e:00"))
ABORTED = record_of(None, 6)


def found(
    *xids: Xid,
    lines: tuple[str, ...] = (),
    gpus: tuple[Gpu, ...] = HEALTHY,
    others: Collection[int] = (OTHER,),
) -> DriverErrors:
    """The faults of the attempt that has ``PIDS`` and used ``OURS``."""
    return faults_of(
        xids, lines=lines, gpus=gpus, used={OURS}, pids=PIDS, others={OURS: others}
    )


def fault(code: int, *, pid: int | str, at: float, name: str = "python3") -> Xid:
    """An Xid of the shared GPU that names a process."""
    text = f"NVRM: Xid (PCI:0000:3b:00): {code}, pid={pid}, name={name}, at {at}"
    return Xid(code=code, at=at, gpu=OURS, bus="0000:3b:00", text=text)


def quoted(faults: DriverErrors) -> list[float]:
    """When each Xid that counts happened, in the order in which they are told."""
    return [float(hit.text.rpartition(" ")[2]) for hit in faults.kernel.hits]


def cause(faults: DriverErrors) -> Cause:
    """What an attempt that aborted is diagnosed with."""
    return diagnose(Evidence(exit=ABORTED, kernel=faults.kernel)).cause


@pytest.mark.parametrize(
    ("code", "named", "expected"),
    [
        (79, (OURS,), Cause.GPU_HARDWARE),
        (48, (OURS,), Cause.GPU_HARDWARE),
        (31, (), Cause.CUDA_FAULT),
        (13, (), Cause.CUDA_FAULT),
    ],
)
def test_xids_of_its_gpu(code: int, named: tuple[str, ...], expected: Cause) -> None:
    """A broken device is named; a number that programs cause names none."""
    faults = found(Xid(code=code, at=1.0, gpu=OURS, bus="0000:3b:00"))
    assert faults.gpus == named
    assert cause(faults) is expected


def test_the_neighbours_misfortune() -> None:
    """An Xid of a GPU that it did not use is none of its business."""
    text = "NVRM: Xid (PCI:0000:5e:00): 79, pid=99, GPU has fallen off the bus."
    assert found(Xid(code=79, at=1.0, gpu=OTHERS, text=text)) == DriverErrors()
    lost = (HEALTHY[0], Gpu(uuid=OTHERS, lost=True))
    assert found(gpus=lost) == DriverErrors()


def test_somebody_else_on_the_same_gpu() -> None:
    """An Xid that a program causes is no evidence about an attempt where the driver names
    a process that is known to be another's (a real case: two jobs on one GPU, both of
    which faulted, 50 s apart)."""
    others, own = fault(31, pid=OTHER, at=118.3), fault(31, pid=4712, at=169.6)
    assert quoted(found(others, own)) == [169.6]
    assert found(others) == DriverErrors()
    assert found(fault(45, pid=OTHER, at=1.0)) == DriverErrors()


def test_what_befalls_everybody_on_the_gpu() -> None:
    """A device that fails is the cause, whichever process the driver names with it."""
    for code in (48, 63, 64, 74, 79, 92, 94, 95, 119, 120):
        broken = found(fault(code, pid=OTHER, at=1.0))
        assert quoted(broken) == [1.0]
        assert broken.gpus == (OURS,)


def test_a_process_that_nobody_knows() -> None:
    """In a container the kernel's pids are not ours, and a child may have lived and died
    between two looks: then an Xid of its GPU may be its own. So may one that names no
    process."""
    assert quoted(found(fault(31, pid=OTHER, at=1.0), others=())) == [1.0]
    assert quoted(found(fault(31, pid=1882, at=1.0))) == [1.0]
    assert quoted(found(fault(31, pid="'<unknown>'", at=1.0))) == [1.0]


@pytest.mark.parametrize("name", ["nvidia-cuda-mps", "nvidia-cuda-mps-server"])
def test_the_server_of_mps(name: str) -> None:
    """It is named for any of its clients, and a fault of one may end all of them."""
    assert quoted(found(fault(31, pid=OTHER, at=1.0, name=name))) == [1.0]


def test_of_several_the_own_and_the_newest_come_first() -> None:
    """What names its process comes before what may be its own, and the newest fault
    before older ones; within one fault the order is that of time."""
    unnamed = fault(13, pid="'<unknown>'", at=300.0)
    told = found(
        fault(13, pid=4711, at=20.0),
        fault(31, pid=4711, at=299.0),
        fault(43, pid=4711, at=299.5),
        unnamed,
    )
    assert {hit.line: hit.text.rpartition(" ")[2] for hit in told.kernel.hits} == {
        1: "299.0", 2: "299.5", 3: "20.0", 4: "300.0",
    }  # fmt: skip


def test_its_own_process_is_named() -> None:
    """The kernel's line names one of its processes: it is its own, whatever the GPU."""
    text = "NVRM: Xid (PCI:0000:99:00): 31, pid=4712, name=python3"
    assert (
        cause(found(Xid(code=31, at=1.0, bus="0000:99:00", text=text)))
        is Cause.CUDA_FAULT
    )


def test_a_gpu_that_is_lost() -> None:
    """A GPU of it that has fallen off the bus is the cause, also without an Xid."""
    lost = (Gpu(uuid=OURS, bus="0000:3b:00", lost=True), HEALTHY[1])
    faults = found(gpus=lost)
    assert faults.gpus == (OURS,)
    assert cause(faults) is Cause.GPU_HARDWARE


@pytest.mark.parametrize(("pid", "ours"), [(4711, True), (99, False)])
def test_oom_kills(pid: int, ours: bool) -> None:  # noqa: FBT001  # pytest names it
    """An OOM kill counts where it names one of its processes."""
    line = f"Out of memory: Killed process {pid} (python3) total-vm:12345kB"
    faults = found(lines=("usb 1-1: new device", line))
    assert bool(faults.kernel.hits) is ours
