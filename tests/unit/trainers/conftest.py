"""The memory that snapshots are kept in, for the tests that need the real one."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainers.snapshots.tmpfs_room import is_tmpfs

SHM = Path("/dev/shm")  # noqa: S108  # the real one: that is the point


@pytest.fixture
def tmpfs() -> Iterator[Path]:
    """A directory in a real tmpfs."""
    if not SHM.is_dir() or not is_tmpfs(SHM):
        pytest.skip("there is no tmpfs at /dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="trainwarden-test-", dir=SHM))
    yield directory
    shutil.rmtree(directory)
