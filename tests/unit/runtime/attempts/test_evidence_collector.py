"""What the files of an attempt tell of its end."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest

from supervisor.core.diagnosis.evidence import Refusal
from supervisor.core.diagnosis.exit_status import record_of
from supervisor.core.lifecycle.events import Exited
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.attempt_view import AttemptView
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.runtime.attempts.evidence_collector import (
    found_no_room,
    gather,
    idle_seconds,
)
from supervisor.wire.event_file import Record, encode
from supervisor.wire.files import write_json
from supervisor.wire.messages.directive import EXIT_NO_ROOM
from supervisor.wire.page import Page
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.end_records import ExitRecord
from supervisor.wire.records.step_needs import StepNeeds
from tests.support.lives import exit_record
from tests.support.long_stories import long_story

NEEDS = StepNeeds(
    fit=0,
    batch=8,
    slices=1,
    parameters=100,
    trained=100,
    parameter_bytes=400,
    trained_bytes=400,
    largest_bytes=400,
    optimizer_bytes=800,
    optimizer="Adam",
    other_bytes=0,
    limit_bytes=1000,
    backend="tensorflow",
)


def gathered(files: AttemptPaths, *, cpu_limit: int | None = None) -> Exited:
    """What the collector makes of an attempt that has ended."""
    return gather(
        files,
        telemetry=Telemetry(files),
        log=LogFollower(files.output),
        cpu_limit=cpu_limit,
        snapshots=[files.root / "snapshots"],
    )


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
    exited = gathered(files)
    assert exited.evidence.finished
    assert exited.evidence.script_exit_code == 0


@pytest.mark.parametrize(
    ("allocator", "limit", "known"),
    [("cpu", 2**20, 2**20), ("GPU_0_bfc", 2**20, None), ("cpu", None, None)],
)
def test_a_limit_of_ours_is_known_without_a_log(
    tmp_path: Path, allocator: str, limit: int | None, known: int | None
) -> None:
    """Of the CPU's allocator: what a GPU's may have is its own."""
    files = AttemptPaths(tmp_path)
    files.dumps.mkdir()
    name = allocator.encode()
    (files.dumps / "d_a.1").write_bytes(bytes([0x0A, len(name)]) + name)
    exited = gathered(files, cpu_limit=limit)
    assert exited.evidence.dump is not None
    assert exited.evidence.dump.limit_bytes == known
    assert exited.evidence.limited is (limit is not None)


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
        # It stood by for half a minute before it was the attempt.
        (
            UNTRAINED,
            RECORD,
            AttemptView(in_fit=True, launched_ns=40 * SECOND),
            11.0,
        ),
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
    exited = gathered(files)
    assert exited.evidence.stacks == (CRASHED.rstrip() if told else "")


@pytest.mark.parametrize(("fit", "known"), [(0, True), (1, False)])
def test_the_needs_of_a_step_are_evidence_of_their_own_fit(
    tmp_path: Path, *, fit: int, known: bool
) -> None:
    """What the first call of fit needs says nothing of a later one's model."""
    files = AttemptPaths(tmp_path)
    records = [
        Record(kind="fit_began", ns=1, fields={"fit": 0}),
        Record(kind="step_needs", ns=2, fields=NEEDS.to_json()),
        Record(kind="fit_began", ns=3, fields={"fit": fit}),
    ]
    files.events.write_bytes(b"".join(map(encode, records)))
    exited = gathered(files, cpu_limit=2**30)
    found = exited.evidence.memory.needs
    assert found == (NEEDS if known else None)
