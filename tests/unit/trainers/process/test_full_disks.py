"""Which disk was full when an exception ended the script."""

import errno
from pathlib import Path

import pytest

from tests.support.small_disk import fill, mounted
from trainers.process.crash_report import report
from trainers.process.full_disks import full_disk

NO_SPACE = OSError(errno.ENOSPC, "No space left on device")


def test_other_errors_have_none(tmp_path: Path) -> None:
    """Whatever disk is full then."""
    with mounted(tmp_path / "disk", "1m") as disk:
        fill(disk / "hog")
        assert full_disk(ValueError("x")) is None
        assert full_disk(OSError(errno.ENOENT, "No such file", "x")) is None


def test_the_disk_of_the_file_that_is_named(tmp_path: Path) -> None:
    """Though what was half written is gone, and it has room again."""
    with mounted(tmp_path / "disk", "8m") as disk:
        named = OSError(errno.ENOSPC, "No space left on device", str(disk / "a" / "b"))
        found = full_disk(named)
        assert found is not None
        assert (found.mount_point, found.size_bytes) == (str(disk), 8 << 20)
        assert found.named
        assert found.free_bytes > 7 << 20


@pytest.mark.parametrize(
    "error",
    [NO_SPACE, RuntimeError("model.h5: No space left on device (28)")],
    ids=["errno", "words"],
)
def test_one_that_is_full_now(tmp_path: Path, error: Exception) -> None:
    """Where no file is named; below another exception as well."""
    with mounted(tmp_path / "disk", "8m") as disk:
        before = full_disk(error)
        assert before is None or before.mount_point != str(disk)
        fill(disk / "hog")
        raised = ValueError("could not save")
        raised.__cause__ = error
        found = full_disk(raised)
        assert found is not None
        assert found.mount_point == str(disk)
        assert not found.named
        crash = report(raised, steps_done=3)
        assert (crash.full_disk, crash.full_disk_bytes) == (str(disk), 8 << 20)
