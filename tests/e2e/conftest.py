"""The command, with nothing left behind."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import PATIENCE, Trainwarden, marked


@pytest.fixture
def trainwarden(tmp_path: Path) -> Iterator[Trainwarden]:
    """The command, with nothing left behind."""
    made = Trainwarden(tmp_path, tmp_path / "state")
    yield made
    for process in made.started:
        if process.poll() is None:
            process.kill()  # the shim drains training when its supervisor dies
        process.communicate(timeout=PATIENCE)
    left = marked(tmp_path)
    deadline = time.monotonic() + PATIENCE
    while left and time.monotonic() < deadline:
        time.sleep(0.1)
        left = marked(tmp_path)
    assert not left, "processes of the run were left behind"
