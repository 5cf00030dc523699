"""Counts beside the driver: never more than there is, and never sure of what is not told."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess
from supervisor.core.memory.estimate import Estimate, estimated, gpu_of

PID = 7
BOTH = ("GPU-a", "GPU-b")
GPU = Gpu(
    uuid="GPU-a",
    index=0,
    memory=GpuMemory(total=1000, used=500, free=400, reserved=100),
    processes=(
        GpuProcess(pid=8, name="other", bytes=200),
        GpuProcess(pid=PID, name="python", bytes=300),
    ),
)
OTHER = replace(GPU, uuid="GPU-b", index=1, processes=())
sizes = st.integers(0, 2**40)
perhaps = st.none() | sizes


def of_gpu(in_use: int, limit: int | None = None, gpu: Gpu = GPU) -> Estimate:
    """The estimate of the process on ``gpu``."""
    return estimated(in_use=in_use, limit=limit, gpu=gpu, pid=PID)


def test_the_driver_tells_limit_and_pool() -> None:
    """The limit is the GPU less what is reserved, the pool what the process holds, and
    the pool grows into what is free."""
    assert of_gpu(250) == Estimate(limit=900, pool=300, largest_allocatable=400)


def test_the_limit_of_the_spec_counts_first() -> None:
    """What the process holds beyond it is its context, and no pool."""
    assert of_gpu(150, limit=280) == Estimate(
        limit=280, pool=280, largest_allocatable=130
    )


def test_a_process_that_the_driver_does_not_tell() -> None:
    """In a container there is a limit and no pool: allocatable is what the limit leaves."""
    for processes in ((), (GpuProcess(pid=PID, name="python", bytes=None),)):
        hidden = replace(GPU, processes=processes)
        assert of_gpu(250, gpu=hidden) == Estimate(
            limit=900, pool=None, largest_allocatable=650
        )


def test_an_older_driver() -> None:
    """What it does not tell apart is not taken off; a size that is not told is no limit."""
    older = GpuMemory(total=1000, used=600, free=400)
    assert of_gpu(1, gpu=replace(GPU, memory=older)).limit == 1000
    unknown = replace(GPU, memory=None)
    assert of_gpu(250, gpu=unknown) == Estimate(
        limit=None, pool=300, largest_allocatable=50
    )
    nothing = replace(unknown, processes=())
    assert of_gpu(250, gpu=nothing) == Estimate(
        limit=None, pool=None, largest_allocatable=None
    )


@given(
    in_use=sizes, limit=perhaps, total=perhaps, reserved=perhaps, left=sizes,
    held=perhaps,
)  # fmt: skip
def test_never_more_than_there_is(
    *,
    in_use: int,
    limit: int | None,
    total: int | None,
    reserved: int | None,
    left: int,
    held: int | None,
) -> None:
    """Whatever is told: no limit is exceeded, what is in use is in the pool, and what is
    allocatable lies between the two."""
    memory = None
    if total is not None:
        memory = GpuMemory(total=total, used=0, free=left, reserved=reserved)
    free = None if memory is None else left
    processes = (GpuProcess(pid=PID, name="python", bytes=held),)
    gpu = replace(GPU, memory=memory, processes=processes)
    found = of_gpu(in_use, limit, gpu)
    assert (found.limit is None) == (limit is None and total is None)
    assert (found.pool is None) == (held is None)
    if found.pool is not None:
        assert found.pool >= in_use
    if found.limit is None:
        return
    assert 0 <= found.limit <= min(x for x in (limit, total) if x is not None)
    assert found.largest_allocatable is not None
    assert 0 <= found.largest_allocatable <= max(found.limit - in_use, 0)
    if found.pool is not None:
        assert found.pool <= max(found.limit, in_use)
        inside = found.pool - in_use
        assert found.largest_allocatable >= inside
        assert free is None or found.largest_allocatable <= max(inside, free)


@given(in_use=sizes, more=sizes, limit=sizes)
def test_more_in_use_leaves_no_more(*, in_use: int, more: int, limit: int) -> None:
    """What is allocatable shrinks, or stays, as more is taken."""
    hidden = replace(
        GPU, memory=GpuMemory(total=2**40, used=0, free=2**40), processes=()
    )
    before = of_gpu(in_use, limit, hidden).largest_allocatable
    after = of_gpu(in_use + more, limit, hidden).largest_allocatable
    assert before is not None
    assert after is not None
    assert after <= before


def test_whose_memory_it_is() -> None:
    """The first GPU of its own that the process is on; without one, the first of them."""
    on_second = replace(OTHER, processes=(GpuProcess(pid=PID, name="python", bytes=1),))
    alone = replace(GPU, processes=())
    assert gpu_of((GPU, on_second), pid=PID, wanted=BOTH) == GPU
    assert gpu_of((alone, on_second), pid=PID, wanted=BOTH) == on_second
    assert gpu_of((GPU, on_second), pid=PID, wanted=BOTH[::-1]) == on_second
    assert gpu_of((GPU, OTHER), pid=PID, wanted=BOTH[1:]) == OTHER
    assert gpu_of((alone, OTHER), pid=None, wanted=BOTH) == alone
    assert gpu_of((GPU, OTHER), pid=PID, wanted=()) is None
