"""What the files of an attempt tell of its end."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from supervisor.core.diagnosis.evidence import Refusal
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.host.telemetry.attempt_telemetry import AttemptView, Telemetry
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.runtime.attempts.evidence_collector import (
    found_no_room,
    gather,
    idle_seconds,
)
from supervisor.wire.files import write_json
from supervisor.wire.messages.directive import EXIT_NO_ROOM
from supervisor.wire.page import Page
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.end_records import ExitRecord
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


SECOND = 10**9
REFUSED = Refusal(reason=RefusalReason.VERSIONS, sentence="no such Keras")
TRAINED = Page(
    progress_ns=30 * SECOND, heartbeat_ns=50 * SECOND, step_counts=(1, *[0] * 11)
)
UNTRAINED = replace(TRAINED, step_counts=(0,) * 12)
RECORD = replace(exit_record(code=1), started_ns=10 * SECOND, ended_ns=51 * SECOND)


@pytest.mark.parametrize(
    ("page", "record", "view", "seconds"),
    [
        (TRAINED, RECORD, AttemptView(in_fit=True), 21.0),
        (TRAINED, RECORD, AttemptView(in_own_loop=True), 21.0),
        (UNTRAINED, RECORD, AttemptView(in_fit=True), 41.0),
        # It stands still and asks, or its shim died too: it was seen alive last.
        (TRAINED, None, AttemptView(in_fit=True), 20.0),
        (UNTRAINED, None, AttemptView(in_fit=True), 20.0),
        # A loop that nobody counts may have trained all the while.
        (TRAINED, RECORD, AttemptView(), 0.0),
        (None, RECORD, AttemptView(in_fit=True), 0.0),
        (UNTRAINED, RECORD, AttemptView(in_fit=True, refused=REFUSED), 0.0),
        # Of an older version, or a page that was never written to.
        (replace(TRAINED, progress_ns=0), RECORD, AttemptView(in_fit=True), 0.0),
        (replace(TRAINED, heartbeat_ns=None), None, AttemptView(in_fit=True), 0.0),
        (
            replace(TRAINED, progress_ns=99 * SECOND),
            RECORD,
            AttemptView(in_fit=True),
            0.0,
        ),
    ],
)
def test_how_long_there_was_no_step(
    page: Page | None, record: ExitRecord | None, view: AttemptView, seconds: float
) -> None:
    """From the last one, or the start of a process that made none, to its end."""
    assert idle_seconds(record, page, view) == seconds


CRASHED = (
    "Fatal Python error: Segmentation fault\n\n"
    'Current thread 0x1 (most recent call first):\n  File "a.py", line 3 in f\n'
)


@pytest.mark.parametrize(
    ("record", "told"),
    [(record_of(None, 11), True), (record_of(1, None), False)],
)
def test_the_stacks_of_a_crash_are_kept(
    tmp_path: Path, record: ExitRecord, *, told: bool
) -> None:
    """Of its own: a worker that it had forked writes to the same file."""
    files = AttemptPaths(tmp_path)
    files.fault.write_text(CRASHED)
    write_json(files.exit, asdict(record))
    exited = gather(
        files,
        telemetry=Telemetry(files),
        log=LogFollower(files.output),
        limited=False,
        snapshots=[tmp_path / "snapshots"],
    )
    assert exited.evidence.stacks == (CRASHED.rstrip() if told else "")
