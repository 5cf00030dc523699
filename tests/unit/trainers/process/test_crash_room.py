"""A report of a crash on a disk that is full: most often it was for that."""

from pathlib import Path

import pytest

from supervisor.wire.files import read_json
from supervisor.wire.records import CrashReport
from tests.support.small_disk import fill, mounted
from trainers.process import crash_report


def crash(text: str) -> CrashReport:
    """One with this in all of its texts."""
    return CrashReport(
        exception=text,
        message=text,
        traceback=text,
        steps_done=3,
        in_fit=True,
        allocation=text,
    )


@pytest.mark.parametrize(
    "text",
    ["OSError: [Errno 28] No space left on device", "x" * 300_000, "\0\ud800" * 90_000],
    ids=["short", "long", "escaped"],
)
def test_a_full_disk(tmp_path: Path, text: str) -> None:
    """Its exception is told all the same, its beginning and its end."""
    with mounted(tmp_path / "disk", "128k") as disk:
        path = disk / "crash.json"
        crash_report.reserve(path)
        fill(disk / "hog")
        crash_report.write(path, crash(text))
        found = CrashReport.from_json(read_json(path) or {})
        assert found is not None
        assert found.message[:8] == text[:8]
        assert found.traceback[-8:] == text[-8:]
        assert found.steps_done == 3
        assert sorted(one.name for one in disk.iterdir()) == ["crash.json", "hog"]


def test_without_room_nothing_is_raised(tmp_path: Path) -> None:
    """The script's own exception is what counts."""
    with mounted(tmp_path / "disk", "64k") as disk:
        fill(disk / "hog")
        crash_report.reserve(disk / "crash.json")
        crash_report.write(disk / "crash.json", crash("OSError"))
        assert not (disk / "crash.json").exists()


def test_the_room_is_given_back(tmp_path: Path) -> None:
    """By a report that needs none of it, and where there is nothing to report."""
    path = tmp_path / "crash.json"
    crash_report.reserve(path)
    crash_report.write(path, crash("OSError"))
    assert [one.name for one in tmp_path.iterdir()] == ["crash.json"]
    crash_report.reserve(path)
    crash_report.release(path)
    assert [one.name for one in tmp_path.iterdir()] == ["crash.json"]
