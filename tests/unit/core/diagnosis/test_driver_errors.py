"""What befell an attempt, and what befell somebody else."""

import pytest

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.driver_errors import DriverErrors, faults_of
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.gpu.gpu_readings import Gpu, Xid

OURS, OTHERS = "GPU-ours", "GPU-others"
PIDS = {4711, 4712}
HEALTHY = (Gpu(uuid=OURS, bus="0000:3b:00"), Gpu(uuid=OTHERS, bus="0000:5e:00"))
ABORTED = record_of(None, 6)


def found(
    *xids: Xid, lines: tuple[str, ...] = (), gpus: tuple[Gpu, ...] = HEALTHY
) -> DriverErrors:
    """The faults of the attempt that has ``PIDS`` and used ``OURS``."""
    return faults_of(xids, lines=lines, gpus=gpus, used={OURS}, pids=PIDS)


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
