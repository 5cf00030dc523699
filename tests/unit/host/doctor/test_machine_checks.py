"""What the doctor says of what it reads."""

import sys
from pathlib import Path

import pytest

from supervisor.host.doctor.finding import Finding, FindingLevel
from supervisor.host.doctor.machine_checks import (
    cgroups,
    clock,
    compiler,
    disk,
    driver,
    examine,
    has_gpu,
    limits,
    service,
    shared_memory,
)

NVRM = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n"


def levels(findings: list[Finding]) -> dict[str, FindingLevel]:
    """How each is to be taken."""
    return {finding.about: finding.level for finding in findings}


def test_a_driver_without_its_device_node() -> None:
    """CUDA cannot start then, and the fix is one command."""
    whole = driver(NVRM, ["nvidia0", "nvidia-uvm"], hardware=True)
    assert levels(whole) == {"driver": FindingLevel.OK}
    assert "550.54.15" in whole[0].text
    broken = driver(NVRM, ["nvidia0"], hardware=True)
    assert levels(broken)["nvidia-uvm"] is FindingLevel.PROBLEM
    assert "nvidia-modprobe" in broken[1].fix
    missing = driver(None, [], hardware=True)
    assert levels(missing) == {"driver": FindingLevel.WARNING}


@pytest.mark.parametrize(
    ("vendor", "kind", "found"),
    [
        ("0x10de\n", "0x030200\n", True),
        ("0x10de\n", "0x040300\n", False),  # its sound
        ("0x1002\n", "0x030000\n", False),
        (None, "0x030000\n", False),
    ],
)
def test_the_lack_of_a_gpu_is_no_warning(
    tmp_path: Path, vendor: str | None, kind: str, *, found: bool
) -> None:
    """Only a GPU without its driver is one; the bus tells whether there is one."""
    device = tmp_path / "0000:3b:00.0"
    device.mkdir()
    (device / "class").write_text(kind)
    if vendor is not None:
        (device / "vendor").write_text(vendor)
    assert has_gpu(tmp_path) is found
    level = FindingLevel.WARNING if found else FindingLevel.OK
    assert levels(driver(None, [], hardware=found)) == {"driver": level}
    assert not has_gpu(tmp_path / "none")


def test_shared_memory() -> None:
    """Its size, and whether logind would empty it."""
    kept = ["[Login]\n#RemoveIPC=yes\nRemoveIPC=no\n"]
    assert levels(shared_memory(8 << 30, kept)) == {"/dev/shm": FindingLevel.OK}  # noqa: S108
    found = levels(shared_memory(64 << 20, ["[Login]\n#RemoveIPC=no\n"]))
    assert set(found.values()) == {FindingLevel.WARNING}
    assert levels(shared_memory(8 << 30, None)) == {"/dev/shm": FindingLevel.OK}  # noqa: S108
    assert levels(shared_memory(None, kept)) == {"/dev/shm": FindingLevel.PROBLEM}  # noqa: S108


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (limits(1024, -1, gpu=False)[0], FindingLevel.WARNING),
        (limits(-1, -1, gpu=False)[0], FindingLevel.OK),
        (limits(65536, 65536, gpu=True)[1], FindingLevel.WARNING),
        (limits(65536, 65536, gpu=False)[1], FindingLevel.NOT_CHECKED),
        (limits(65536, -1, gpu=True)[1], FindingLevel.OK),
        (disk(Path("/s"), None), FindingLevel.PROBLEM),
        (disk(Path("/s"), 1 << 20), FindingLevel.WARNING),
        (disk(Path("/s"), 1 << 40), FindingLevel.OK),
        (cgroups("cpu memory io", version_1=False), FindingLevel.OK),
        (cgroups(None, version_1=True), FindingLevel.OK),
        (cgroups("cpu io", version_1=False), FindingLevel.WARNING),
        (compiler(None), FindingLevel.WARNING),
        (compiler("/usr/bin/g++"), FindingLevel.OK),
        (clock(synchronised=False), FindingLevel.WARNING),
        (clock(synchronised=True), FindingLevel.OK),
        (clock(synchronised=None), FindingLevel.NOT_CHECKED),
        (service(booted=False), FindingLevel.OK),
    ],
)
def test_judgements(finding: Finding, level: FindingLevel) -> None:
    """Each says what to do unless all is well."""
    assert finding.level is level
    assert level is not FindingLevel.PROBLEM or finding.fix


def test_this_machine_can_be_examined(tmp_path: Path) -> None:
    """Whatever it is: every line is there once."""
    state = tmp_path / "not" / "there"
    about = [
        finding.about for finding in examine(state, python=sys.executable, grace=120.0)
    ]
    assert len(about) == len(set(about))
    assert {"driver", "TensorFlow", "state directory", "open files", "service"} <= set(
        about
    )
