"""The unit that runs a spec file in the foreground, before systemd's own tool."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import BaseModel

from supervisor.core.jobs.spec import Spec, build_spec

Tool = Callable[[str], str]
INSTALLED = "/opt/trainwarden/bin/trainwarden"


@pytest.fixture
def unit(root: Path) -> str:
    """The text of the unit."""
    return (root / "deploy" / "systemd" / "trainwarden-run@.service").read_text()


@pytest.fixture
def installed(unit: str, tmp_path: Path) -> Path:
    """An instance of the unit, with the program where it is on this machine."""
    program = str(Path(sys.executable).with_name("trainwarden"))
    assert INSTALLED in unit
    path = tmp_path / "trainwarden-run@digits.service"
    path.write_text(unit.replace(INSTALLED, program))
    return path


def analyze(tool: Tool, *arguments: str) -> str:
    """What systemd-analyze prints; it has to end well."""
    told = subprocess.run(
        [tool("systemd-analyze"), *arguments],
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
    )
    assert told.returncode == 0, told.stdout.decode()
    return told.stdout.decode()


def test_verify_is_silent(tool: Tool, installed: Path) -> None:
    """systemd knows every key: ``verify`` ends well also on unknown ones, so silence."""
    assert analyze(tool, "verify", "--man=no", str(installed)) == ""


def test_verify_would_speak(tool: Tool, installed: Path) -> None:
    """A misspelt key makes ``verify`` print something: the test above can fail."""
    installed.write_text(installed.read_text() + "[Service]\nKilMode=mixed\n")
    assert "KilMode" in analyze(tool, "verify", "--man=no", str(installed))


def test_the_page_of_a_user(
    tool: Tool, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd's manager of users knows every key of it, too."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    text = (root / "deploy" / "systemd" / "trainwarden-ui.service").read_text()
    program = str(Path(sys.executable).with_name("trainwarden"))
    path = tmp_path / "trainwarden-ui.service"
    path.write_text(text.replace(INSTALLED, program))
    assert analyze(tool, "verify", "--user", "--man=no", str(path)) == ""
    path.write_text(path.read_text() + "[Service]\nNise=10\n")
    assert "Nise" in analyze(tool, "verify", "--user", "--man=no", str(path))


def test_exposure(tool: Tool, installed: Path) -> None:
    """systemd rates what the service could do at 2.5 of 10 or better."""
    told = analyze(
        tool,
        "security",
        "--offline=true",
        "--threshold=25",
        "--no-pager",
        str(installed),
    )
    assert "Overall exposure level" in told


def test_it_drains_and_does_not_loop(unit: str) -> None:
    """SIGTERM goes to trainwarden alone; drained is a success; 1 and 2 are final."""
    settings = dict(re.findall(r"^(\w+)=(.*)$", unit, flags=re.MULTILINE))
    assert settings["KillMode"] == "mixed"
    assert settings["KillSignal"] == "SIGTERM"
    assert settings["SuccessExitStatus"] == "75"
    assert settings["RestartPreventExitStatus"].split() == ["1", "2"]
    assert settings["OOMPolicy"] == "continue"


def test_the_grace_fits_in(unit: str) -> None:
    """systemd waits longer than a drain with the default grace may take."""
    (limit,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, flags=re.MULTILINE)
    assert int(limit) >= Spec(script="train.py").drain.grace + 30


@pytest.mark.parametrize(
    "setting",
    ["MemoryDenyWriteExecute", "PrivateDevices", "ProtectClock", "DeviceAllow"],
)
def test_gpus_and_compilers_are_left_alone(unit: str, setting: str) -> None:
    """Nothing that would hide GPUs or forbid just-in-time compilers is set."""
    assert not re.search(rf"^{setting}=(?!no)", unit, flags=re.MULTILINE)


def test_the_example_is_a_spec(root: Path) -> None:
    """The example builds, and names every key that a spec has."""
    text = (root / "deploy" / "systemd" / "example.toml").read_text()
    tables = tomllib.loads(text)
    assert build_spec(tables).name == "digits"
    assert set(_given(tables)) >= set(_keys(Spec))


def test_the_example_shows_the_defaults(root: Path) -> None:
    """Where the example gives a default, it is the default."""
    path = root / "deploy" / "systemd" / "example.toml"
    spec, plain = build_spec(tomllib.loads(path.read_text())), Spec(script="a")
    assert spec.restart == plain.restart
    assert spec.drain == plain.drain
    assert spec.microbatch == plain.microbatch
    assert spec.snapshots.keep == plain.snapshots.keep


def _given(tables: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in tables.items():
        yield above + key
        if isinstance(value, dict):
            yield from _given(cast("dict[str, Any]", value), f"{above}{key}.")


def _keys(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for key, field in model.model_fields.items():
        yield above + key
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _keys(inner, f"{above}{key}.")
