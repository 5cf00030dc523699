"""The unit of the GPU probe, before systemd's own tool and beside what it is for.

On a machine that runs: tests/operations/box_gpus.py.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.core.gpu.probe_supervision import Limits
from supervisor.daemon.composition import PROBE

Tool = Callable[[str], str]
INSTALLED = "/opt/trainwarden/bin/python"


@pytest.fixture
def unit(root: Path) -> str:
    """The text of the unit."""
    return (root / "deploy/systemd/trainwarden-gpu.service").read_text()


@pytest.fixture
def settings(unit: str) -> dict[str, str]:
    """The last value of each key."""
    return dict(re.findall(r"^(\w+)=(.*)$", unit, flags=re.MULTILINE))


@pytest.fixture
def installed(unit: str, tmp_path: Path) -> Path:
    """The unit, with an interpreter that is on this machine."""
    path = tmp_path / "trainwarden-gpu.service"
    assert INSTALLED in unit
    path.write_text(unit.replace(INSTALLED, sys.executable))
    return path


def analyze(tool: Tool, *arguments: str) -> str:
    """What systemd-analyze prints; it has to end well."""
    told = subprocess.run(
        [tool("systemd-analyze"), *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
    )
    assert told.returncode == 0, told.stdout
    return told.stdout


def test_verify_is_silent(tool: Tool, installed: Path) -> None:
    """systemd knows every key."""
    assert analyze(tool, "verify", "--man=no", str(installed)) == ""


def test_exposure(tool: Tool, installed: Path) -> None:
    """systemd rates what the service could do at 2.0 of 10 or better."""
    told = analyze(
        tool, "security", "--offline=true", "--threshold=20", "--no-pager",
        str(installed),
    )  # fmt: skip
    assert "Overall exposure level" in told


def test_it_listens_where_the_daemon_asks(settings: dict[str, str]) -> None:
    """In a directory of its own, which the daemon's restarts leave alone."""
    assert settings["ExecStart"].split()[-1] == str(PROBE)
    assert f"/run/{settings['RuntimeDirectory']}" == str(PROBE.parent)
    assert settings["RuntimeDirectoryMode"] == "0750"


def test_the_daemon_may_listen(root: Path, settings: dict[str, str]) -> None:
    """It is in the group of the probe's user, starts it, and takes it along at a stop."""
    daemon = (root / "deploy/systemd/trainwarden.service").read_text()
    groups = re.search(r"^SupplementaryGroups=(.*)$", daemon, flags=re.MULTILINE)
    assert groups is not None
    assert settings["User"] in groups[1].split()
    assert "trainwarden-gpu.service" in daemon
    assert settings["StopPropagatedFrom"] == "trainwarden.service"
    users = (root / "deploy/systemd/trainwarden.sysusers.conf").read_text()
    assert re.search(rf"^u +{settings['User']} ", users, flags=re.MULTILINE)
    assert settings["User"] != "trainwarden"


def test_a_box_without_gpus_is_no_failure(settings: dict[str, str]) -> None:
    """The service ends with 0 there, and only failures are tried again."""
    assert settings["Restart"] == "on-failure"


def test_a_hanging_driver_is_no_reason_to_end_the_service(
    settings: dict[str, str],
) -> None:
    """systemd hears of it while it waits for the probe; nobody waits long for a probe
    that cannot be killed."""
    assert int(settings["WatchdogSec"]) >= 2 * Limits().kill_seconds
    assert int(settings["TimeoutStopSec"]) <= 30


def test_only_the_gpus_and_the_kernel_log(unit: str) -> None:
    """NVIDIA's devices by name and by number, and no other."""
    allowed = re.findall(r"^DeviceAllow=(\S+) (\w+)$", unit, flags=re.MULTILINE)
    numbers = {("/dev/char/195:255", "rw")} | {
        (f"/dev/char/195:{gpu}", "rw") for gpu in range(16)
    }
    assert set(allowed) == numbers | {("char-nvidia*", "rw"), ("/dev/kmsg", "r")}
    assert re.search(r"^DevicePolicy=closed$", unit, flags=re.MULTILINE)
    assert not re.search(r"^PrivateDevices=", unit, flags=re.MULTILINE)


def test_it_is_installed(root: Path) -> None:
    """By the script that a person runs."""
    assert "trainwarden-gpu.service" in (root / "deploy/install.sh").read_text()
