"""What the files of an attempt tell of its end."""

from dataclasses import asdict
from pathlib import Path

import pytest

from supervisor.core.diagnosis.exit_status import record_of
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.runtime.attempts.evidence_collector import found_no_room, gather
from supervisor.wire.files import write_json
from supervisor.wire.messages.directive import EXIT_NO_ROOM
from supervisor.wire.paths import AttemptPaths
from tests.support.lives import exit_record
from tests.support.long_stories import long_story


@pytest.mark.parametrize(
    ("code", "launched", "found"),
    [
        (EXIT_NO_ROOM, False, True),
        (EXIT_NO_ROOM, True, False),
        (1, False, False),
        (None, False, False),
    ],
)
def test_no_room_is_told_by_the_exit_status(
    code: int | None, *, launched: bool, found: bool
) -> None:
    """Of ours: once the script has begun, it is that of the script."""
    record = record_of(code, 9 if code is None else None)
    assert found_no_room(record, launched=launched) is found
    assert not found_no_room(None, launched=launched)


def test_a_long_attempt_that_ended_unwatched(tmp_path: Path) -> None:
    """What its script came to is told by the last of its records, however many there are:
    a finished run is not begun again."""
    files = AttemptPaths(tmp_path)
    long_story(files.events)
    write_json(files.exit, asdict(exit_record(code=0)))
    exited = gather(
        files,
        telemetry=Telemetry(files),
        log=LogFollower(files.output),
        limited=False,
        snapshots=[tmp_path / "snapshots"],
    )
    assert exited.evidence.finished
    assert exited.evidence.script_exit_code == 0
