"""Which disk was full when an exception ended the script."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.small_disk import fill, mounted
from trainers.process.crash_report import report
from trainers.process.full_disks import file_in, full_disk

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


HDF5 = (
    "[Errno 28] Can't synchronously write data (file write failed: time = Sat Nov 28 02:05:19"
    " 2026\n, filename = '{}', file descriptor = 7, errno = 28, error message = 'No space left"
    " on device', buf = 0x1, total write size = 4, bytes this sub-write = 4, offset = 0)"
)
TENSORFLOW = "{}; No space left on device [Op:SaveV2]"


@pytest.mark.parametrize(
    "error",
    [
        lambda file: OSError(errno.ENOSPC, HDF5.format(file)),
        lambda file: RuntimeError(TENSORFLOW.format(file)),
        lambda file: RuntimeError(
            str(OSError(errno.ENOSPC, "No space left on device", file))
        ),
    ],
    ids=["HDF5", "TensorFlow", "another's words"],
)
def test_the_disk_of_the_file_that_only_the_words_name(
    error: Callable[[str], Exception], tmp_path: Path
) -> None:
    """Libraries name it in their own."""
    with mounted(tmp_path / "disk", "8m") as disk:
        found = full_disk(error(str(disk / "weights 2.h5")))
        assert found is not None
        assert (found.mount_point, found.named) == (str(disk), True)


@pytest.mark.parametrize(
    "words", ["No space left on device", "model.h5: No space left on device (28)", ""]
)
def test_words_that_name_none(words: str) -> None:
    """A name without its directory may be any."""
    assert file_in(words) == []


@pytest.mark.parametrize(
    "error",
    [NO_SPACE, RuntimeError("model.h5: No space left on device (28)")],
    ids=["errno", "words"],
)
def test_one_that_is_full_now(tmp_path: Path, error: Exception) -> None:
    """Where no file is named; below another exception as well."""
    with mounted(tmp_path / "disk", "8m", alone=True) as disk:
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
