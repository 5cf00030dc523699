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
    whole = driver(NVRM, ["nvidia0", "nvidia-uvm"])
    assert levels(whole) == {"driver": FindingLevel.OK}
    assert "550.54.15" in whole[0].text
    broken = driver(NVRM, ["nvidia0"])
    assert levels(broken)["nvidia-uvm"] is FindingLevel.PROBLEM
    assert "nvidia-modprobe" in broken[1].fix
    assert levels(driver(None, [])) == {"driver": FindingLevel.WARNING}


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
        (limits(1024, -1)[0], FindingLevel.WARNING),
        (limits(-1, -1)[0], FindingLevel.OK),
        (limits(65536, 65536)[1], FindingLevel.WARNING),
        (limits(65536, -1)[1], FindingLevel.OK),
        (disk(Path("/s"), None), FindingLevel.PROBLEM),
        (disk(Path("/s"), 1 << 20), FindingLevel.WARNING),
        (disk(Path("/s"), 1 << 40), FindingLevel.OK),
        (cgroups("cpu memory io", version_1=False), FindingLevel.OK),
        (cgroups(None, version_1=True), FindingLevel.OK),
        (cgroups("cpu io", version_1=False), FindingLevel.WARNING),
        (compiler(None), FindingLevel.WARNING),
        (compiler("/usr/bin/g++"), FindingLevel.OK),
        (clock(synchronised=False), FindingLevel.WARNING),
        (clock(synchronised=None), FindingLevel.OK),
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
