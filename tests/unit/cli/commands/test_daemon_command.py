"""The daemon's process is prepared for a long life."""

import gc
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from supervisor.cli.command_group import trainwarden
from supervisor.cli.commands import daemon_command as command
from supervisor.core.jobs.config import Config

LOADED = 10_000
"""Objects that its modules alone consist of, at least."""


def test_what_was_loaded_is_not_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the loop begins, the garbage collector no longer looks through what was
    there before."""
    frozen: list[int] = []

    class Made:
        def run(self) -> None:
            frozen.append(gc.get_freeze_count())

    @contextmanager
    def composed(_config: Config) -> Generator[Made]:
        yield Made()

    monkeypatch.setattr(command, "composed", composed)
    config = tmp_path / "trainwarden.toml"
    config.write_text("")
    gc.unfreeze()
    try:
        done = CliRunner().invoke(trainwarden, ["daemon", "--config", str(config)])
    finally:
        gc.unfreeze()
    assert done.exit_code == 0, done.output
    assert frozen[0] > LOADED
