"""A report of a crash on a disk that is full: most often it was for that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.wire.files import read_json, write_json
from supervisor.wire.messages.directive import EXIT_NO_ROOM
from supervisor.wire.records.end_records import CrashReport
from tests.support.attempts import LAUNCH, PATIENCE, Attempts
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


def test_without_room_a_report_raises_nothing(tmp_path: Path) -> None:
    """The script's own exception is what counts."""
    with mounted(tmp_path / "disk", "64k") as disk:
        fill(disk / "hog")
        with pytest.raises(OSError, match="No space left"):
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


@pytest.mark.parametrize("kilobytes", [0, 4, 8])
def test_where_there_is_no_room_to_begin_the_script_does_not(
    tmp_path: Path, kilobytes: int
) -> None:
    """Not for the page, or not for a report: told by the exit status, which needs none."""
    attempts = Attempts(tmp_path)
    script = attempts.script("print('begun')")
    with mounted(tmp_path / "disk", "1m") as disk:
        attempts.options["attempt_directory"] = str(disk / "attempt")
        directive = attempts.directive(script)
        Path(directive.attempt_directory).mkdir()
        write_json(disk / "directive.json", directive.to_json())
        output = disk / "output.log"
        output.touch()
        fill(disk / "hog")
        os.truncate(disk / "hog", (disk / "hog").stat().st_size - 1024 * kilobytes)
        with output.open("ab") as file:
            code = subprocess.run(
                [sys.executable, str(LAUNCH), str(disk / "directive.json")],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                check=False,
                timeout=PATIENCE,
            ).returncode
        assert code == EXIT_NO_ROOM
        assert "begun" not in output.read_text()
