"""Which snapshots a supervisor can look at."""

import os
from pathlib import Path

import pytest

from supervisor.core.jobs.spec import build_spec
from supervisor.runtime.attempts.directive_builder import tiers_of
from supervisor.wire.paths import RunPaths
from tests.support.directives import row_of


def no_access(*_arguments: object) -> bool:
    """As for a directory of somebody else."""
    return False


def test_the_memory_tier_of_another_user_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its progress is judged by what is on disk, instead of not being known."""
    spec = build_spec({"script": "t.py", "snapshots": {"memory": str(tmp_path)}})
    row, paths = row_of(spec, "job"), RunPaths(tmp_path / "run-1")
    memory = tmp_path / f"trainwarden-{row.run_id}"
    assert tiers_of(row, spec, paths) == (paths.snapshots, None)  # there is none yet
    memory.mkdir()
    assert tiers_of(row, spec, paths) == (paths.snapshots, memory)
    monkeypatch.setattr(os, "access", no_access)
    assert tiers_of(row, spec, paths) == (paths.snapshots, None)
