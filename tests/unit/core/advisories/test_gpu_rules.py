"""Rules about GPUs tell just above their thresholds, and say nothing just below."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.advisories import gpu_rules
from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.gpu_evidence import GpuEvidence, gpus_of
from supervisor.core.advisories.rules import advise
from supervisor.core.advisories.run_evidence import BatchMemory, RunEvidence
from supervisor.core.advisories.workspace_requests import WorkspaceRequests
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess
from supervisor.wire.records.step_evidence import StepEvidence

OURS, OTHER = 7, 8
BUSY = Gpu(
    uuid="GPU-a",
    memory=GpuMemory(total=1000, used=500, free=500),
    utilization=0.97,
    throttled=frozenset({"power_cap"}),
    clocks_hertz={"sm": 1.755e9},
    clock_limits_hertz={"sm": 1.98e9},
    pcie_lanes=(16, 16),
    processes=(GpuProcess(pid=OURS, bytes=450), GpuProcess(pid=OTHER, bytes=49)),
)
SHARED = replace(
    BUSY, processes=(GpuProcess(pid=OURS, bytes=450), GpuProcess(pid=OTHER, bytes=50))
)
SLOW = replace(BUSY, clocks_hertz={"sm": 0.849 * 1.98e9})
NARROW = replace(BUSY, pcie_lanes=(8, 16))
STEPS = StepEvidence(fit=0, steps=100, seconds=10.0, on_cpu=False)
SMALL = BatchMemory(batch=32, peak_bytes=250, limit_bytes=1000)


def looks(*gpus: Gpu, times: int = 1, before: GpuEvidence | None = None) -> GpuEvidence:
    """So many looks at these GPUs."""
    found = before or GpuEvidence()
    for _ in range(times):
        found = found.seen(gpus, ours={OURS})
    return found


def told(gpus: GpuEvidence, **more: object) -> list[Advisory]:
    """What is told of them."""
    return list(advise(RunEvidence(gpus=gpus, **more)))  # type: ignore[arg-type]


def test_a_busy_gpu_is_told_nothing_of() -> None:
    """Full load, at the power limit, beside a desktop: all as it should be."""
    found = looks(BUSY, times=200)
    assert told(found, steps=STEPS, memory=SMALL) == []
    assert found.busy == pytest.approx(0.97)


def test_memory_to_try_algorithms_with() -> None:
    """Told from the first request on, by how often and how much."""
    (one,) = advise(RunEvidence(workspace=WorkspaceRequests(count=1, largest_bytes=8)))
    assert one.kind is AdvisoryKind.AUTOTUNING
    assert "asked once for memory to try faster algorithms with, up to 8 bytes" in (
        one.sentence
    )
    asked = WorkspaceRequests(count=3, largest_bytes=5 << 29)
    (more,) = advise(RunEvidence(workspace=asked))
    assert "asked 3 times" in more.sentence
    assert "2.50 GiB" in more.sentence
    assert more.figures == {"requests": 3, "largest_bytes": 5 << 29}


def test_training_beside_a_gpu() -> None:
    """Told where the framework finds none that the driver lists for the run."""
    missed = replace(STEPS, on_cpu=True, finds_no_gpu=True)
    assert told(GpuEvidence(), steps=missed) == []
    assert told(GpuEvidence(usable=2), steps=replace(STEPS, on_cpu=True)) == []
    (found,) = told(GpuEvidence(usable=2), steps=missed)
    assert found.kind is AdvisoryKind.UNUSED_GPU
    assert "lists 2 GPUs" in found.sentence
    (found,) = told(GpuEvidence(usable=1), steps=missed)
    assert "lists a GPU" in found.sentence


def test_somebody_else_on_the_gpu() -> None:
    """Ten looks in a row, with a twentieth of its memory; one look without ends the row."""
    assert told(looks(SHARED, times=gpu_rules.LOOKS - 1)) == []
    (found,) = told(looks(SHARED, times=gpu_rules.LOOKS))
    assert found.kind is AdvisoryKind.SHARED_GPU
    assert f"pid {OTHER}" in found.sentence
    assert found.figures["other_bytes"] == 50
    gone = looks(BUSY, before=looks(SHARED, times=gpu_rules.LOOKS))
    assert told(gone) == []


def test_clocks_that_are_held_down() -> None:
    """A minute of looks, half of them, at 85% of the clock."""
    half = gpu_rules.SLOW_LOOKS // 2
    slow = looks(SLOW, times=half)
    assert told(looks(SLOW, times=gpu_rules.SLOW_LOOKS - 1)) == []
    (found,) = told(looks(SLOW, times=gpu_rules.SLOW_LOOKS))
    assert found.kind is AdvisoryKind.THROTTLING
    assert "power cap" in found.sentence
    assert found.figures["clock_ratio"] == pytest.approx(0.849)
    free = replace(BUSY, throttled=frozenset[str]())
    assert told(looks(free, times=half, before=slow)) != []
    assert told(looks(free, times=half + 1, before=slow)) == []
    faster = replace(SLOW, clocks_hertz={"sm": 0.851 * 1.98e9})
    assert told(looks(faster, times=gpu_rules.SLOW_LOOKS)) == []


def test_clocks_that_a_person_set_are_meant() -> None:
    """Only what the board does of its own accord counts; unknown is not slow."""
    unslowed: tuple[dict[str, object], ...] = (
        {"throttled": frozenset({"applications_clocks"})},
        {"throttled": None},
        {"clocks_hertz": {}},
        {"clock_limits_hertz": {}},
    )
    for changes in unslowed:
        gpu = replace(SLOW, **changes)  # type: ignore[arg-type]
        assert told(looks(gpu, times=gpu_rules.SLOW_LOOKS)) == [], changes


def test_a_narrow_link() -> None:
    """Ten looks in a row; the narrowest is told."""
    assert told(looks(NARROW, times=gpu_rules.LOOKS - 1)) == []
    (found,) = told(looks(BUSY, NARROW, times=gpu_rules.LOOKS))
    assert found.kind is AdvisoryKind.PCIE_WIDTH
    assert "8 of the 16 lanes" in found.sentence
    assert told(looks(BUSY, before=looks(NARROW, times=gpu_rules.LOOKS))) == []
    unknown = replace(BUSY, pcie_lanes=None)
    assert told(looks(unknown, times=gpu_rules.LOOKS)) == []


def idle(part: float, *, times: int = gpu_rules.LOOKS) -> GpuEvidence:
    """Looks at a GPU that is idle for this part of the time."""
    return looks(replace(BUSY, utilization=1 - part), times=times)


def test_a_batch_far_below_what_fits() -> None:
    """A quarter of the limit or less, on a GPU that is idle a fifth of the time."""
    (found,) = told(idle(0.21), steps=STEPS, memory=SMALL)
    assert found.kind is AdvisoryKind.SMALL_BATCH
    assert "4 times the batch would fit" in found.sentence
    for gpus, steps, memory in (
        (idle(0.19), STEPS, SMALL),
        (idle(0.21, times=gpu_rules.LOOKS - 1), STEPS, SMALL),
        (idle(0.21), STEPS, replace(SMALL, peak_bytes=251)),
        (idle(0.21), STEPS, None),
        (idle(0.21), None, SMALL),
        (idle(0.21), replace(STEPS, steps=99), SMALL),
        (idle(0.21), replace(STEPS, on_cpu=True), SMALL),
        (looks(replace(BUSY, utilization=None), times=99), STEPS, SMALL),
    ):
        assert told(gpus, steps=steps, memory=memory) == []


def test_a_gpu_that_waits_for_data_needs_no_larger_batch() -> None:
    """Then the data are what is told of, where that is enough, and the batch is not."""
    waits = replace(
        STEPS, seconds=100.0, data_steps=100, data_seconds=100.0, wait_seconds=60.0
    )
    (found,) = told(idle(0.5), steps=waits, memory=SMALL)
    assert found.kind is AdvisoryKind.INPUT_BOUND
    short = replace(waits, seconds=9.0, data_seconds=9.0, wait_seconds=6.0)
    assert told(idle(0.5), steps=short, memory=SMALL) == []


@given(peak=st.integers(1, 2**40), limit=st.integers(1, 2**40))
def test_what_is_said_to_fit_does(peak: int, limit: int) -> None:
    """Even if all of the peak grew with the batch."""
    memory = BatchMemory(batch=8, peak_bytes=peak, limit_bytes=limit)
    found = told(idle(0.5), steps=STEPS, memory=memory)
    assert bool(found) == (peak <= gpu_rules.SMALL_PART * limit)
    for one in found:
        times = int(one.sentence.rpartition(": ")[2].split()[0])
        assert times >= 4
        assert times * peak <= limit


def test_whose_gpus_they_are() -> None:
    """Those that our processes are on; else the only one that is ours to use; else none."""
    other = replace(BUSY, uuid="GPU-b", processes=(GpuProcess(pid=OTHER, bytes=1),))
    box = (BUSY, other)
    assert gpus_of(box, named=("GPU-a", "GPU-b"), ours={OURS}) == (BUSY,)
    assert gpus_of(box, named=("GPU-b",), ours={9}) == (other,)
    assert gpus_of(box, named=("GPU-a", "GPU-b"), ours={9}) == ()
    hidden = replace(other, processes=None)
    assert gpus_of((hidden,), named=("GPU-b",), ours={9}) == (hidden,)
    assert looks() == GpuEvidence()
