"""The room for snapshots, as real directories have it."""

import os
from pathlib import Path

from supervisor.core.lifecycle.events import DiskRoom
from supervisor.host.snapshots.disk_room import disk_room


def test_what_snapshots_hold_themselves_is_counted(tmp_path: Path) -> None:
    """All that lies below the directory, and what its file system has left."""
    (tmp_path / "10-1").mkdir()
    (tmp_path / "10-1" / "tensors").write_bytes(os.urandom(100_000))
    found = disk_room(tmp_path)
    assert found.directory == str(tmp_path)
    assert found.free_bytes is not None
    assert found.free_bytes > 0
    assert 100_000 <= found.held_bytes < 1_000_000


def test_a_directory_that_is_gone_has_no_figures(tmp_path: Path) -> None:
    """Nothing is made up where nothing can be asked."""
    gone = tmp_path / "gone"
    assert disk_room(gone) == DiskRoom(
        directory=str(gone), free_bytes=None, held_bytes=0
    )
