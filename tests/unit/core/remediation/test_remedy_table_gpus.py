"""What a GPU costs a run: waiting for its tenants, another one, quarantine."""

from dataclasses import replace
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.diagnosis.signatures.memory_rows import NO_ROOM_TO_BEGIN
from supervisor.core.gpu.gpu_readings import GpuMemory
from supervisor.core.memory.figures import MemoryFigures, OomVerdict
from supervisor.core.memory.oom_analysis import NOTHING_FOUND, autopsy_of
from supervisor.core.remediation.overrides import Awaited, Overrides
from supervisor.core.remediation.policy import Decision
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.stories import GIB, TENANT, Story, gpu, part


def test_out_of_memory_with_a_tenant_on_the_gpu() -> None:
    """Wait for it; then another GPU if one is free; only then the slices."""
    story = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT), gpu(1)))
    waiting = story.fail()
    assert waiting.remedy.kind is RemedyKind.WAIT
    assert "blender (pid 99)" in waiting.remedy.because
    assert waiting.overrides.awaited == Awaited(
        tenants_gone=True, patience_seconds=1800.0
    )
    moved = story.fail()
    assert moved.remedy.kind is RemedyKind.ANOTHER_GPU
    assert moved.overrides.avoid == ("GPU-0",)


def test_more_than_the_gpu_has_is_not_waited_for() -> None:
    """Nobody can make room for that by going."""
    story = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),))
    memory = MemoryFigures(limit_bytes=GIB, requested_bytes=2 * GIB)
    found = autopsy_of(story.cause, memory, NOTHING_FOUND)
    assert found is not None
    assert found.verdict is OomVerdict.OVERSIZE
    assert story.fail(memory=memory, autopsy=found).remedy_step == "planned"


def test_a_limit_of_its_own_is_no_tenants_fault() -> None:
    """The GPU had room for what was asked for: the tenant's end would change nothing."""
    limited = MemoryFigures(pool_bytes=3 * GIB, requested_bytes=2 * GIB)
    story = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),))
    assert story.fail(memory=limited).remedy_step == "planned"
    asked = MemoryFigures(
        requested_bytes=2 * GIB
    )  # of an attempt that holds nobody knows
    assert (
        Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),)).fail(memory=asked).remedy_step
        == "wait"
    )
    silent = replace(gpu(1, TENANT), memory=None)  # of which it is not known either
    both = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT), silent))
    assert both.fail(memory=limited).remedy_step == "wait"
    large = MemoryFigures(pool_bytes=6 * GIB, requested_bytes=2 * GIB)
    crowded = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),))
    assert crowded.fail(memory=large).remedy_step == "wait"
    unknown = Story(
        Cause.DEVICE_OOM, gpus=(gpu(0, replace(TENANT, bytes=None), TENANT),)
    )
    assert unknown.fail(memory=limited).remedy_step == "wait"


def test_nearly_no_room_beside_a_tenant_is_none() -> None:
    """Seen on an H200: data of 288 MiB were refused, and the run was ended as if they
    never fitted, where another process held all but 1.5 GiB of the GPU."""
    total, reserved = 143_771 << 20, 600 << 20
    memory = GpuMemory(total=total, used=0, free=0, reserved=reserved)
    asked = MemoryFigures(pool_bytes=2 << 20, requested_bytes=288 << 20)

    def step(left: int) -> str | None:
        other = replace(TENANT, bytes=total - reserved - left)
        crowded = replace(gpu(0, other), memory=memory)
        story = Story(Cause.DEVICE_OOM, gpus=(crowded,), batch=None)
        told = story.fail(memory=asked, subject=OomSubject.DATA, steps_done=0)
        return told.remedy_step

    assert step(1536 << 20) == "wait"
    assert step(8 * GIB) is None  # which nobody's end would change


def test_a_gpu_with_a_tenant_of_its_own_is_no_way_out() -> None:
    """From one crowded GPU to another: then rather smaller slices."""
    crowded = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT), gpu(1, TENANT)))
    assert crowded.remedy_steps(2) == ["wait", "smaller"]
    alone = Story(Cause.CUDNN_INIT, gpus=(gpu(0, TENANT),))
    assert alone.remedy_steps(2) == ["wait", "smaller"]


def full(story: Story, **fields: Any) -> Decision:
    """One more attempt that found its device full before it had anything there."""
    return story.fail(
        signature=NO_ROOM_TO_BEGIN,
        steps_done=None,
        subject=OomSubject.OUTSIDE,
        **fields,
    )


def test_a_device_that_was_full_before_it_began() -> None:
    """Wait for those who hold it; where nobody knows them, start again, each time later;
    no slices, and no end at once."""
    crowded = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),), batch=None)
    assert full(crowded).remedy.kind is RemedyKind.WAIT
    unknown = Story(Cause.DEVICE_OOM, gpus=(gpu(0),), batch=None)
    waits = [full(unknown) for _ in range(3)]
    assert {one.remedy.kind for one in waits} == {RemedyKind.RESTART}
    assert waits[0].remedy.wait_seconds < waits[2].remedy.wait_seconds
    last = full(unknown).remedy
    assert last.kind is RemedyKind.STOP
    assert "others had filled the GPU" in last.because


def test_our_own_processes_are_no_tenants() -> None:
    """What the dead attempt still holds is the gate's business."""
    story = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),))
    assert story.fail(own_pids=frozenset({99})).remedy_step == "planned"


def test_a_run_on_the_cpu_waits_for_nobody_on_a_gpu() -> None:
    """It ran out under the limit that we set."""
    story = Story(Cause.DEVICE_OOM, gpus=(gpu(0, TENANT),))
    assert story.fail(limited=True).remedy_step == "planned"


def test_a_run_that_was_never_on_a_gpu_takes_none_from_others() -> None:
    """A worker that hangs in a file system, or a line about ECC in its output."""
    for cause in (Cause.UNKILLABLE, Cause.GPU_HARDWARE):
        story = Story(cause, gpus=(gpu(0), gpu(1)))
        assert story.fail(uses_gpu=False).quarantine == ()
        named = story.fail(uses_gpu=False, faulty_gpus=("GPU-1",))
        assert named.quarantine == ("GPU-1",)
    assert (
        Story(Cause.UNKILLABLE, gpus=(gpu(0),)).fail(uses_gpu=False).remedy_step
        == "again"
    )


def test_what_a_run_prints_keeps_no_gpu_from_others() -> None:
    """A forged line of an Xid, or exit record: the run itself goes on on another GPU."""
    for cause in (Cause.UNKILLABLE, Cause.GPU_HARDWARE):
        verdict = Story(cause, gpus=(gpu(0), gpu(1))).fail()
        assert verdict.quarantine == ()
        assert verdict.overrides.avoid == ("GPU-0",)


def test_a_fault_that_moves_about_is_the_gpus() -> None:
    """Not the same step: determinism would not help, another GPU may."""
    story = Story(Cause.CUDA_FAULT, gpus=(gpu(0), gpu(1)))
    assert story.fail(step=10).remedy_step == "same_again"
    verdict = story.fail(step=40)
    assert verdict.remedy.kind is RemedyKind.ANOTHER_GPU
    assert "GPU-1 takes its place" in verdict.remedy.because
    assert verdict.quarantine == ()


def test_with_a_broken_gpu_all_its_mig_devices_are_quarantined() -> None:
    """Also those that other runs were given; not those of a GPU that this run was never
    on. The next attempt is on a part of another GPU."""
    parts = {0: ("MIG-1", "MIG-2"), 1: ("MIG-3",), 2: ("MIG-4",)}
    box = tuple(
        replace(gpu(n), mig=tuple(map(part, uuids))) for n, uuids in parts.items()
    )
    story = Story(Cause.GPU_HARDWARE, gpus=box, only=("MIG-1", "MIG-3"))
    verdict = story.fail(faulty_gpus=("GPU-0", "GPU-2"))
    assert verdict.quarantine == ("GPU-0", "MIG-1", "MIG-2")
    assert verdict.remedy.kind is RemedyKind.ANOTHER_GPU
    assert story.fail(faulty_gpus=("GPU-1",)).remedy.kind is RemedyKind.STOP


def test_a_broken_gpu_is_quarantined_and_left() -> None:
    """The one that the driver names."""
    story = Story(Cause.GPU_HARDWARE, gpus=(gpu(0), gpu(1), gpu(2)))
    first = story.fail(faulty_gpus=("GPU-1", "GPU-elsewhere"))
    assert first.quarantine == ("GPU-1",)
    assert first.remedy.kind is RemedyKind.ANOTHER_GPU
    second = story.fail(faulty_gpus=("GPU-0",))
    assert second.quarantine == ("GPU-0",)
    last = story.fail(faulty_gpus=("GPU-2",))
    assert last.quarantine == ("GPU-2",)
    assert last.remedy.kind is RemedyKind.STOP
    assert "quarantine --return" in last.remedy.because


def test_a_run_stays_on_the_gpus_that_its_spec_names() -> None:
    """Others of the box may belong to other jobs."""
    story = Story(Cause.GPU_HARDWARE, gpus=(gpu(0), gpu(1), gpu(2)), only=(2, 1))
    assert story.fail().overrides.avoid == ("GPU-2",)
    assert story.fail().remedy.kind is RemedyKind.STOP


def test_an_unkillable_process_costs_its_gpu() -> None:
    """With a GPU another is used (the kernel's word is an event of its own); without one
    only restarted."""
    story = Story(Cause.UNKILLABLE, gpus=(gpu(0), gpu(1)))
    verdict = story.fail()
    assert verdict.remedy.kind is RemedyKind.ANOTHER_GPU
    alone = Story(Cause.UNKILLABLE, gpus=(gpu(0),)).fail()
    assert alone.remedy.kind is RemedyKind.STOP
    assert "reboot" in alone.remedy.because


def test_a_quarantined_gpu_is_never_chosen() -> None:
    """Whoever quarantined it."""
    story = Story(
        Cause.GPU_HARDWARE,
        gpus=(gpu(0), gpu(1)),
        quarantined=frozenset({"GPU-1"}),
    )
    assert story.fail().remedy.kind is RemedyKind.STOP


def test_avoiding_adds_up() -> None:
    """A GPU that was left is not come back to."""
    story = Story(Cause.CUDA_FAULT, gpus=(gpu(0), gpu(1), gpu(2)))
    story.overrides = Overrides(avoid=("GPU-0",))
    story.fail(step=1)
    verdict = story.fail(step=50)
    assert verdict.overrides.avoid == ("GPU-0", "GPU-1")
