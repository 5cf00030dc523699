"""A command that stands in for systemd's own, where there is none."""

from collections.abc import Callable
from pathlib import Path

import pytest

Answers = Callable[..., None]


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """Sets what ``systemctl show`` prints from now on; what it was asked is in ``asked``."""
    bin_directory, said = tmp_path / "bin", tmp_path / "said"
    asked = tmp_path / "asked"
    bin_directory.mkdir()
    systemctl = bin_directory / "systemctl"
    systemctl.write_text(f'#!/bin/sh\necho "$@" >> {asked}\ncat {said}\n')
    systemctl.chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_directory}:/usr/bin:/bin")

    def answer(**properties: object) -> None:
        lines = [f"{name}={value}\n" for name, value in properties.items()]
        said.write_text("".join(lines))

    return answer
