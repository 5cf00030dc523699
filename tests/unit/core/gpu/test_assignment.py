"""Which GPUs a run may use, and who else is on them."""

from dataclasses import replace

from supervisor.core.gpu.assignment import (
    boards,
    by_uuid,
    holders,
    named,
    tenants,
    unnamed_bytes,
    usable,
    with_parts,
)
from supervisor.core.gpu.gpu_readings import Gpu, GpuMemory, GpuProcess
from tests.support.stories import part

FIRST = Gpu(
    uuid="GPU-a",
    index=0,
    memory=GpuMemory(total=1000, used=0, free=1000),
    processes=(
        GpuProcess(pid=7, name="python", bytes=600),
        GpuProcess(pid=8, name="Xorg", bytes=20),
    ),
)
SECOND = Gpu(
    uuid="GPU-b", index=1, processes=(GpuProcess(pid=9, name="x", bytes=None),)
)
BOX = (FIRST, SECOND)


def test_a_spec_may_name_a_gpu_by_index_or_uuid() -> None:
    """Both become the UUID, where the box is known."""
    assert named([0, "GPU-b", "GPU-z"], BOX) == ("GPU-a", "GPU-b", "GPU-z")
    assert named(None, BOX) == ("GPU-a", "GPU-b")
    assert named([1], ()) == ("1",)
    assert named([0], [Gpu(uuid="GPU-c")]) == ("0",)  # lost before it was counted


def test_the_number_of_a_lost_gpu_is_given_to_another() -> None:
    """A driver that begins anew counts those that it finds."""
    lost, again = replace(FIRST, lost=True), replace(SECOND, index=0)
    assert named([0], (again, lost)) == ("GPU-b",)
    assert named([0], (SECOND, lost)) == ("GPU-a",)


def test_only_uuids_are_known_without_the_driver() -> None:
    """An index may be any GPU until it has spoken, and so may all of them."""
    assert by_uuid(("GPU-a", "MIG-b"))


def test_a_gpu_and_its_mig_devices() -> None:
    """What fails with a GPU, and which GPU a MIG device is part of."""
    box = (replace(FIRST, mig=(part("MIG-1"), part("MIG-2"))), SECOND)
    assert with_parts("GPU-a", box) == ("GPU-a", "MIG-1", "MIG-2")
    assert with_parts("GPU-b", box) == ("GPU-b",)
    assert with_parts("GPU-z", box) == ("GPU-z",)
    assert boards({"MIG-2"}, box) == {"MIG-2", "GPU-a"}
    assert boards({"GPU-b"}, box) == {"GPU-b"}
    assert by_uuid(())
    assert not by_uuid(None)
    assert not by_uuid(("GPU-a", "1"))
    assert not by_uuid((0,))


def test_a_tenant_holds_a_notable_part() -> None:
    """A desktop is none, ours are none, and neither is one on another GPU."""
    assert [one.pid for one in tenants(BOX, gpus=["GPU-a"], ours=[])] == [7]
    assert tenants(BOX, gpus=["GPU-a"], ours=[7]) == ()
    assert tenants(BOX, gpus=["GPU-b"], ours=[]) == ()


def test_who_of_ours_still_holds_memory() -> None:
    """By GPU, so that a gate can name both."""
    assert holders(BOX, ours=[8]) == (
        ("GPU-a", GpuProcess(pid=8, name="Xorg", bytes=20)),
    )


def test_what_is_left_after_quarantine() -> None:
    """None where nothing changes: the environment stays as the person set it."""
    assert usable(None, BOX, without=["GPU-a"]) == ("GPU-b",)
    assert usable([0], BOX, without=["GPU-a"]) == ()
    assert usable(None, BOX, without=["GPU-x"]) is None
    assert usable(None, (), without=["GPU-a"]) is None


def test_what_the_driver_does_not_name() -> None:
    """In use beyond what is listed; where we are not listed, beyond what we held."""
    full = replace(FIRST, memory=GpuMemory(total=1000, used=900, free=100))
    assert unnamed_bytes(full, ours=[7], held=600) == 280
    assert unnamed_bytes(full, ours=[], held=200) == 80
    assert unnamed_bytes(full, ours=[], held=240) == 0  # 40 are not notable
    assert unnamed_bytes(FIRST, ours=[7], held=0) == 0
    assert unnamed_bytes(SECOND, ours=[], held=0) == 0
