"""``constraints.txt``: exact, whole, and what the tests run with."""

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LINE = re.compile(r"([a-z0-9]+(?:-[a-z0-9]+)*)==([0-9][0-9A-Za-z.+!]*)")


@pytest.fixture
def lines(root: Path) -> list[str]:
    """The lines of the file, comments left out."""
    text = (root / "constraints.txt").read_text()
    return [line for line in text.splitlines() if not line.startswith("#")]


@pytest.fixture
def pins(lines: list[str]) -> dict[str, str]:
    """The version of each distribution."""
    return dict(line.split("==") for line in lines)


def declared(root: Path) -> Iterator[Requirement]:
    """What pyproject.toml asks for on CPUs, groups and the build included."""
    project = tomllib.loads((root / "pyproject.toml").read_text())
    texts: list[str] = [
        *project["build-system"]["requires"],
        *project["project"]["dependencies"],
        *project["project"]["optional-dependencies"]["tensorflow"],
        *project["dependency-groups"]["test"],
        *project["dependency-groups"]["lint"],
        *project["dependency-groups"]["docs"],
    ]
    return (Requirement(text) for text in texts)


def closure(requirements: Iterator[Requirement]) -> set[str]:
    """The names of all that ``requirements`` lead to, as far as it is installed."""
    found: set[str] = set()
    waiting = [(item, extra) for item in requirements for extra in ("", *item.extras)]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            needs = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        found.add(name)
        for need in map(Requirement, needs):
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                waiting += [(need, inner) for inner in ("", *need.extras)]
    return found


def test_lines_are_exact_pins(lines: list[str]) -> None:
    """One name and one version a line, in order, each once; no host, no option."""
    assert lines
    assert all(LINE.fullmatch(line) for line in lines)
    names = [line.split("==")[0] for line in lines]
    assert names == sorted(set(names))


def test_what_is_declared_is_pinned(root: Path, pins: dict[str, str]) -> None:
    """Each requirement of pyproject.toml has a pin that satisfies it."""
    for requirement in declared(root):
        pinned = pins[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pinned), requirement


def test_the_environment_is_the_pinned_one(root: Path, pins: dict[str, str]) -> None:
    """Everything the declared requirements lead to is here in its pinned version."""
    names = closure(declared(root)) - {"setuptools"}  # only in pip's build environment
    assert {"tensorflow", "keras", "numpy", "pytest"} <= names
    assert {name: version(name) for name in names} == {
        name: pins.get(name) for name in names
    }


def test_a_report_becomes_constraints(root: Path, tmp_path: Path) -> None:
    """pip's report becomes pins in one spelling and in order, without ourselves."""
    installed = [("Ml_Dtypes", "0.6.0"), ("trainwarden", "0.1.0"), ("absl-py", "2.5.1")]
    report = tmp_path / "report.json"
    report.write_text(
        json.dumps(
            {
                "install": [
                    {"metadata": {"name": name, "version": version}}
                    for name, version in installed
                ]
            }
        )
    )
    told = subprocess.run(
        [sys.executable, root / "tests" / "operations" / "pins.py", report],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    pinned = [line for line in told.splitlines() if not line.startswith("#")]
    assert pinned == ["absl-py==2.5.1", "ml-dtypes==0.6.0"]
