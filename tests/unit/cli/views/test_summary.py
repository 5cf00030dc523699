"""What is printed at the end of a run: of the whole run, and of this command."""

from dataclasses import replace
from pathlib import Path

import pytest

from supervisor.cli.views.summary import (
    FROM_THE_TOP,
    RunFigures,
    came_to,
    last_words,
    summary,
)
from supervisor.core.jobs.accounting.run_summary import RunSummary
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.host.ledger.ledger import IncidentRow
from supervisor.wire.files import write_json
from supervisor.wire.paths import StatePaths
from supervisor.wire.records.end_records import CrashReport

MIB = 2**20
STATUS = JobStatus(
    job="digits",
    state=JobState.FINISHED,
    attempt=3,
    message="finished",
    memory_limit_bytes=100 * MIB,
    memory_peak_bytes=60 * MIB,
)
WHOLE = RunSummary(
    job="digits",
    run=1,
    user=None,
    state=JobState.FINISHED,
    began_at="2026-01-31T12:00:00+00:00",
    ended_at=None,
    elapsed_seconds=600.0,
    attempts=3,
    attempt_seconds=500.0,
    exit_code=0,
    cause=None,
    incidents=0,
    steps=9,
    device_peak_bytes=255 * MIB,
    device_limit_bytes=280 * MIB,
    host_peak_bytes=500 * MIB,
    gpus=None,
    gpu_seconds=None,
    lost_steps=0,
    downtime_seconds=0.0,
)


def told(tmp_path: Path, found: RunFigures) -> str:
    """The summary of a run that finished."""
    run = StatePaths(tmp_path).run("digits", 1)
    return summary(STATUS, (), run, found, code=0)


def test_the_peak_is_that_of_the_run(tmp_path: Path) -> None:
    """The newest attempt may have needed less, under another limit."""
    text = told(tmp_path, RunFigures(seconds=60.0, whole=WHOLE))
    assert "  run peak: 255 MiB of 280 MiB for tensors, 500 MiB of main memory" in text
    unlimited = replace(WHOLE, device_limit_bytes=None, host_peak_bytes=None)
    text = told(tmp_path, RunFigures(seconds=60.0, whole=unlimited))
    assert "  run peak: 255 MiB for tensors\n" in text


def test_a_run_that_another_command_began(tmp_path: Path) -> None:
    """How long it took in all, and how much of that was this command."""
    text = told(tmp_path, RunFigures(seconds=60.0, whole=WHOLE, continued=True))
    assert text.startswith(
        "digits: finished in 3 attempts, 10 min 00 s of all its commands, 1 min 00 s of"
        " this one\n"
    )


def test_a_run_of_one_command(tmp_path: Path) -> None:
    """There is one time to tell: the ledger's, as ``status`` and ``history`` have it. The
    command itself takes a moment longer."""
    whole = replace(WHOLE, elapsed_seconds=175.3)
    text = told(tmp_path, RunFigures(seconds=175.8, whole=whole))
    assert text.startswith("digits: finished in 3 attempts, 2 min 55 s\n")
    text = told(tmp_path, RunFigures(seconds=175.8))
    assert text.startswith("digits: finished in 3 attempts, 2 min 56 s\n")


def test_what_was_lost_is_told_as_history_tells_it(tmp_path: Path) -> None:
    """The same figures, whatever the incidents at hand add up to; where it is not known,
    these."""
    found = RunFigures(whole=replace(WHOLE, lost_steps=3, downtime_seconds=41.0))
    text = told(tmp_path, found)
    assert "  lost: 3 steps done again, 41 s without a step\n" in text
    assert "lost:" not in told(tmp_path, RunFigures(whole=WHOLE))
    incident = {"lost_steps": 1, "downtime_seconds": None}
    assert list(came_to(RunFigures(), [incident])) == [
        "  lost: 1 step done again, 0.0 s without a step"
    ]


def test_last_words_have_no_colours(tmp_path: Path) -> None:
    """Keras prints what is wrong with a layer in bold type: that is no part of it."""
    output = tmp_path / "output.log"
    output.write_text("one\n\x1b[1mInput 0\x1b[0m of layer\n")
    assert last_words(tmp_path / "crash.json", output) == "one\nInput 0 of layer"
    crash = CrashReport(
        exception="ValueError",
        message="",
        traceback="ValueError: \x1b[1mInput 0\x1b[0m\n",
        steps_done=None,
        in_fit=True,
    )
    write_json(tmp_path / "crash.json", crash.to_json())
    assert last_words(tmp_path / "crash.json", output) == "ValueError: Input 0"


@pytest.mark.parametrize(
    ("known", "told_of"),
    [
        ({}, True),
        ({"attempt": 2}, False),
        ({"happened": "unsaved_on_disk"}, False),
        ({"because": [{"text": "asked to end", "signature": "asked"}]}, False),
    ],
)
def test_an_error_that_came_before_a_drain_is_told_with_it(
    tmp_path: Path, known: dict[str, object], *, told_of: bool
) -> None:
    """The same command would most likely come to it again."""
    row = IncidentRow(
        id=1, job="digits", attempt=3, recovery=0, at="2026-01-31T12:00:00+00:00",
        happened="ended", cause="user_error",
        because=[{"text": "ValueError: of mine", "signature": "crash"}],
        remedy={"kind": "none", "because": "", "changes": {}}, failed_step=0,
        restored_step=None, lost_steps=None, downtime_seconds=None, memory=None,
        advice="", deviations=[], acknowledged_at=None, acknowledged_by=None,
        stacks="", autopsy=None, proof=None,
    )  # fmt: skip
    row = replace(row, **known)  # type: ignore[arg-type]  # by name
    status = replace(STATUS, state=JobState.DRAINED)
    run = StatePaths(tmp_path).run("digits", 1)
    first, *_ = summary(status, [row], run, RunFigures(), code=75).splitlines()
    said = "; it ended by an error before that: ValueError: of mine" if told_of else ""
    assert first == f"digits: drained{said}; {FROM_THE_TOP}"
