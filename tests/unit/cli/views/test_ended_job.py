"""What a job came to, as it is told once it is over."""

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli.views.ended_job import (
    REPAIRED,
    EndedRun,
    ended_lines,
    has_ended,
    what_next,
)
from supervisor.cli.views.summary import FROM_THE_TOP, TO_RESUME, RunFigures
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import Diagnosis, Reason, Remedy, RemedyKind
from supervisor.core.jobs.accounting.run_summary import WHAT_IS_ELAPSED
from supervisor.core.jobs.job_status import JobState, JobStatus, SnapshotStatus
from supervisor.core.lifecycle.effects import RecordIncident, UpdateIncident
from supervisor.core.remediation.history import AttemptHistory
from supervisor.host.ledger.ledger import Ledger
from tests.support.daemon_commands import invoke
from tests.support.looked_at import BEGAN, a_run, an_attempt, finished_in_two

SAID = "ValueError: no such column: \x1b[31mage"
SHOWN = "ValueError: no such column: age"
GAVE_UP = JobStatus(job="digits", state=JobState.GAVE_UP, attempt=1, message="no")


def gave_up(state: Path) -> None:
    """A run whose script raised an error of its own after 19 steps."""
    with a_run(state) as shown:
        an_attempt(shown, 1, steps=range(20), began=0.0)
        ledger, run = shown.ledger, shown.row.id
        attempt = AttemptHistory(
            number=1, cause=Cause.USER_ERROR, error=SHOWN, last_step=19
        )
        ledger.put_attempt(run, attempt, now=BEGAN)
        incident = RecordIncident(
            attempt=1,
            diagnosis=Diagnosis(
                cause=Cause.USER_ERROR,
                because=(Reason(SAID, "crash"),),
                advice="Mend the script.",
            ),
            remedy=Remedy(kind=RemedyKind.STOP, because="a restart cannot help"),
            failed_step=19,
        )
        ledger.record_incident(run, incident, now=BEGAN + 21.0)
        update = UpdateIncident(attempt=1, downtime_seconds=7.0)
        ledger.update_incident(run, update)
        ledger.set_state(
            run,
            state=JobState.GAVE_UP,
            message="a restart cannot help",
            overrides=None,
            ended_at=BEGAN + 21.0,
        )


def test_a_job_that_gave_up(tmp_path: Path) -> None:
    """How it ended and by what, how far it came, what it cost and needed, and what to do:
    in words, and for programs."""
    gave_up(tmp_path)
    place = ("--state-dir", tmp_path)
    text = invoke("status", "digits", *place).stdout
    log = tmp_path / "jobs" / "digits" / "run-1" / "attempts" / "0001" / "output.log"
    for said in (
        "digits · gave up · a restart cannot help",
        f"  attempt 1 ended by user_error: {SHOWN}",
        "  1 attempt in 21 s",
        "  reached: epoch 2/8, 19 steps in all, loss 0.2500",
        "  lost: 0 steps done again, 7.0 s without a step",
        "  run peak: 169 MiB of 280 MiB for tensors, 919 MiB of main memory",
        f"  log: {log}",
        "the script raised an error of its own [user_error] → stop",
        f"      {SHOWN}",
        "  what to do: Mend the script.",
        f"  next: {FROM_THE_TOP}; `trainwarden report digits --state-dir {tmp_path}`",
    ):
        assert said in text, text
    (told,) = json.loads(invoke("status", "--json", "digits", *place).stdout)
    assert told["last_error"] == {
        "attempt": 1,
        "cause": "user_error",
        "text": SHOWN,
    }
    ended = told["ended"]
    assert (ended["attempts"], ended["exit_code"], ended["incidents"]) == (1, 1, [1])
    assert (ended["lost_steps"], ended["downtime_seconds"]) == (0, 7.0)
    assert ended["log"] == str(log)
    (alone,) = json.loads(invoke("status", "--json", *place).stdout)
    assert "ended" not in alone
    assert SHOWN in invoke("status", *place).stdout


def test_a_job_that_ended_twice(tmp_path: Path) -> None:
    """How long nothing ran between its commands is told beside how long those took, in
    all places."""
    gave_up(tmp_path)
    ended = BEGAN + 21.0
    with closing(Ledger(tmp_path / "ledger.sqlite")) as ledger:
        ledger.resume_run(1, script_hash="1", spec={}, now=ended + 3600.0)
        ledger.set_state(
            1,
            state=JobState.GAVE_UP,
            message="",
            overrides=None,
            ended_at=ended + 3609.0,
        )
    place = ("--state-dir", tmp_path)
    text = invoke("status", "digits", *place).stdout
    assert "  1 attempt in 30 s and 1 h 00 min between its commands" in text
    (told,) = json.loads(invoke("status", "--json", "digits", *place).stdout)
    assert told["ended"]["paused_seconds"] == 3600.0
    listed = invoke("history", *place).stdout
    assert " 30 s " in listed
    assert WHAT_IS_ELAPSED in " ".join(listed.split())


def test_nothing_to_explain_is_no_error(tmp_path: Path) -> None:
    """Of a job that ended well it is said, with 0; an incident that never was is one."""
    with a_run(tmp_path) as shown:
        an_attempt(shown, 1, steps=range(2), began=0.0)
    place = ("--state-dir", tmp_path)
    done = invoke("explain", *place)
    assert (done.exit_code, done.stdout) == (
        0,
        "There is no incident: nothing went wrong.\n",
    )
    told = invoke("explain", "--json", *place)
    assert json.loads(told.stdout) == {
        "explanation": done.stdout.strip(),
        "advisories": [],
    }
    assert invoke("explain", "99", *place).exit_code == 2


def test_the_incidents_say_why_themselves(tmp_path: Path) -> None:
    """Each in a line of its own, and where the rest is."""
    gave_up(tmp_path)
    lines = invoke("incidents", "--state-dir", tmp_path).stdout.splitlines()
    assert lines[0].endswith("[user_error] → stop")
    assert lines[1] == f"  {SHOWN}"
    assert lines[2].startswith("trainwarden explain ID")


def test_a_job_that_has_finished(tmp_path: Path) -> None:
    """Its metrics are those of its last epoch; a crash that it outlived is an incident."""
    finished_in_two(tmp_path)
    place = ("--state-dir", tmp_path)
    text = invoke("status", "digits", *place).stdout
    assert "  2 attempts in 1 min 50 s\n" in text
    assert "  metrics: accuracy 0.85, val_accuracy 0.75 (epoch 8)\n" in text
    assert "  lost: 4 steps done again, 6.0 s without a step\n" in text
    assert "ended by" not in text
    (told,) = json.loads(invoke("status", "--json", "digits", *place).stdout)
    metrics: dict[str, Any] = told["ended"]["metrics"]
    assert metrics == {"accuracy": 0.85, "val_accuracy": 0.75}
    assert told["ended"]["metrics_epoch"] == 7
    history = invoke("history", *place).stdout
    assert "4 steps, 6.0 s" in history
    assert "lost: steps that were done again" in history


@pytest.mark.parametrize(
    ("known", "ended"),
    [
        ({}, True),
        ({"state": JobState.RUNNING}, False),
        ({"state": JobState.INTERRUPTED}, False),
        ({"pid": 7}, False),
        ({"attempt": 0}, False),
    ],
)
def test_what_has_ended(known: dict[str, Any], *, ended: bool) -> None:
    """Not what goes on, nor what was never begun."""
    assert has_ended(replace(GAVE_UP, **known)) is ended


def test_how_to_go_on() -> None:
    """By the same command, or the daemon's; where nothing was saved that is told."""
    saved = replace(GAVE_UP, snapshot=SnapshotStatus(step=8, age_seconds=None))
    assert what_next(saved, by_daemon=False).startswith(REPAIRED)
    drained = replace(saved, state=JobState.DRAINED)
    assert what_next(drained, by_daemon=False).startswith(TO_RESUME)
    assert what_next(GAVE_UP, by_daemon=False).startswith(FROM_THE_TOP)
    assert what_next(saved, by_daemon=True).startswith("`trainwarden start digits`")
    over = replace(saved, state=JobState.FINISHED)
    assert what_next(over, by_daemon=True).startswith("`trainwarden report digits`")


def test_of_a_run_of_which_little_is_known() -> None:
    """Nothing is made up."""
    assert list(ended_lines(GAVE_UP, EndedRun(figures=RunFigures()))) == [
        "  reached: no step was done",
        f"  next: {what_next(GAVE_UP, by_daemon=False)}",
    ]
