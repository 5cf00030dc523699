"""What the doctor says of what it reads."""

import sys
from pathlib import Path

import pytest

from supervisor.host.doctor.finding import Finding, Level
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


def levels(findings: list[Finding]) -> dict[str, Level]:
    """How each is to be taken."""
    return {finding.about: finding.level for finding in findings}


def test_a_driver_without_its_device_node() -> None:
    """CUDA cannot start then, and the fix is one command."""
    whole = driver(NVRM, ["nvidia0", "nvidia-uvm"])
    assert levels(whole) == {"driver": Level.OK}
    assert "550.54.15" in whole[0].text
    broken = driver(NVRM, ["nvidia0"])
    assert levels(broken)["nvidia-uvm"] is Level.PROBLEM
    assert "nvidia-modprobe" in broken[1].fix
    assert levels(driver(None, [])) == {"driver": Level.WARNING}


def test_shared_memory() -> None:
    """Its size, and whether logind would empty it."""
    kept = ["[Login]\n#RemoveIPC=yes\nRemoveIPC=no\n"]
    assert levels(shared_memory(8 << 30, kept)) == {"/dev/shm": Level.OK}  # noqa: S108
    found = levels(shared_memory(64 << 20, ["[Login]\n#RemoveIPC=no\n"]))
    assert set(found.values()) == {Level.WARNING}
    assert levels(shared_memory(None, kept)) == {"/dev/shm": Level.PROBLEM}  # noqa: S108


@pytest.mark.parametrize(
    ("finding", "level"),
    [
        (limits(1024, -1)[0], Level.WARNING),
        (limits(-1, -1)[0], Level.OK),
        (limits(65536, 65536)[1], Level.WARNING),
        (limits(65536, -1)[1], Level.OK),
        (disk(Path("/s"), None), Level.PROBLEM),
        (disk(Path("/s"), 1 << 20), Level.WARNING),
        (disk(Path("/s"), 1 << 40), Level.OK),
        (cgroups("cpu memory io", version_1=False), Level.OK),
        (cgroups(None, version_1=True), Level.OK),
        (cgroups("cpu io", version_1=False), Level.WARNING),
        (compiler(None), Level.WARNING),
        (compiler("/usr/bin/g++"), Level.OK),
        (clock(synchronised=False), Level.WARNING),
        (clock(synchronised=None), Level.OK),
        (service(booted=False), Level.OK),
    ],
)
def test_judgements(finding: Finding, level: Level) -> None:
    """Each says what to do unless all is well."""
    assert finding.level is level
    assert level is not Level.PROBLEM or finding.fix


def test_this_machine_can_be_examined(tmp_path: Path) -> None:
    """Whatever it is: every line is there once."""
    state = tmp_path / "not" / "there"
    about = [finding.about for finding in examine(state, python=sys.executable)]
    assert len(about) == len(set(about))
    assert {"driver", "TensorFlow", "state directory", "open files", "service"} <= set(
        about
    )
