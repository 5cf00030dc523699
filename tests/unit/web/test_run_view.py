"""The parts of a page about a run, as text."""

from types import SimpleNamespace
from typing import Any, cast

from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import JobState, JobStatus, status_json
from supervisor.core.memory.step_budget import StepBudget
from supervisor.core.memory.step_estimate import MemoryPart
from supervisor.web.box_view import jobs_part
from supervisor.web.incident_view import IncidentDossier, stacks_part, upstream_text
from supervisor.web.markup import render
from supervisor.web.phase_bar import TimeSpent
from supervisor.web.run_view import (
    WHAT_COUNTS,
    WHY_AT_LEAST,
    RunDossier,
    attempts_part,
    ended_by,
    error_text,
    figures_of,
    goodput_note,
    goodput_text,
    incidents_part,
    outcome_text,
    spent_of,
    step_part,
    summary_part,
)

INCIDENT: dict[str, Any] = {
    "id": 7,
    "job": "digits",
    "attempt": 1,
    "kind": "ended",
    "cause": Cause.USER_ERROR.value,
    "at": "2026-01-31T12:00:00+00:00",
    "failed_step": 0,
    "restored_step": None,
    "lost_steps": None,
    "downtime_seconds": None,
    "because": [{"text": "ValueError: a <b>layer</b>", "signature": "crash"}],
    "remedy": {"kind": "stop", "because": "a restart cannot help", "changes": {}},
}


def test_an_incident_says_why() -> None:
    """In the list already: what the script raised, before what was done about it."""
    shown = render(incidents_part([INCIDENT]))
    why = "<span>ValueError: a &lt;b&gt;layer&lt;/b&gt;</span>"
    assert shown.index(why) < shown.index("Answer: stop: a restart cannot help.")


STACKS = (
    "Fatal Python error: Segmentation fault\n\n"
    'Thread 0x1 (most recent call first):\n  File "other.py", line 1 in other\n\n'
    "Current thread 0x2 (most recent call first):\n"
    '  File "/home/ann/train.py", line 16 in on_train_batch_end\n'
)


def test_a_crash_shows_its_stack() -> None:
    """In a list the thread that crashed, of the incident itself all; without what
    a redaction leaves out."""
    one = {**INCIDENT, "stacks": STACKS}
    shown = render(incidents_part([one]), redact=lambda t: t.replace("/home/ann", "…"))
    assert "…/train.py&quot;, line 16 in on_train_batch_end" in shown.replace(
        '"', "&quot;"
    )
    assert "/home/ann" not in shown
    assert "other.py" not in shown
    page = "".join(map(render, stacks_part(IncidentDossier(incident=one))))
    assert "other.py" in page
    assert "on_train_batch_end" in upstream_text(
        IncidentDossier(incident={**one, "memory": None})
    )
    assert "<pre" not in render(incidents_part([INCIDENT]))


def test_an_incident_of_somebody_else_says_no_more_than_it_may() -> None:
    """Who may not read the job gets no reasons, and no empty line for them."""
    shown = render(incidents_part([{**INCIDENT, "because": []}]))
    assert "<span></span>" not in shown
    assert "Answer: stop" in shown


ERROR = {"attempt": 2, "cause": "user_error", "text": "ValueError: a <b>layer</b>"}


def test_what_a_step_needs_is_a_row_of_parts() -> None:
    """On a run's page and in its report; nothing where it is not told."""
    budget = StepBudget(
        fit=0,
        batch=8,
        slices=1,
        limit_bytes=9 << 20,
        peak_bytes=3 << 20,
        parts=(MemoryPart(name="parameters", bytes=3 << 20, about="some"),),
        largest_batch=16,
    )
    known = JobStatus(
        job="digits", state=JobState.FINISHED, attempt=1, step_needs=budget
    )
    page = "".join(map(render, step_part(status_json(known))))
    assert "a step of the first fit needs parameters 3 MiB" in page
    assert "<dt>parameters</dt>" in page
    assert not step_part(jsons())


def test_a_job_says_why_it_failed() -> None:
    """In the table of jobs and on its own page, as the script said it."""
    said = "attempt 2 ended by user_error: ValueError: a <b>layer</b>"
    status = {"state": "gave_up", "message": "gave up", "last_error": ERROR}
    assert error_text(status) == said
    assert error_text({**status, "state": "finished"}) == ""
    assert error_text({"state": "gave_up"}) == ""
    row = {**jsons(), "state": "gave_up", "last_error": ERROR}
    assert said.replace("<b>", "&lt;b&gt;").replace("</b>", "&lt;/b&gt;") in render(
        jobs_part([row])
    )
    assert "ended by" not in render(jobs_part([jsons()]))
    run = dict.fromkeys(
        (
            "elapsed_seconds", "attempt_seconds", "attempts", "incidents", "lost_steps",
            "device_peak_bytes", "host_peak_bytes", "gpu_seconds", "downtime_seconds",
        )
    )  # fmt: skip
    dossier = SimpleNamespace(
        run={**run, "state": "gave_up"}, status=status, job="digits"
    )
    page = "".join(map(render, summary_part(cast("RunDossier", dossier))))
    assert "ended by user_error" in page
    assert "`trainwarden logs digits`" in page


def jsons() -> dict[str, Any]:
    """A job in the shape of ``status --json``."""
    return status_json(
        JobStatus(job="digits", state=JobState.RUNNING, attempt=2, message="goes on")
    )


def test_what_came_of_an_answer_is_told_without_a_further_step() -> None:
    """The time was lost all the same."""
    assert outcome_text(INCIDENT) == ""
    ended = {**INCIDENT, "downtime_seconds": 12.0}
    assert outcome_text(ended) == "12 s passed without a step."
    went_on = {**ended, "restored_step": 4, "lost_steps": 2}
    assert outcome_text(went_on) == (
        "Training went on from step 4; 2 steps done again; 12 s without a step."
    )


def goodput(run: dict[str, Any], status: dict[str, Any]) -> str | None:
    """As the page tells it, of a run with 50 seconds of steps."""
    known = {"attempt_seconds": 100.0, "downtime_seconds": 0.0, "attempts": 1, **run}
    told = {"step_counts": [50], "step_seconds_sum": 50.0, **status}
    dossier = SimpleNamespace(run=known, status=told)
    return goodput_text(spent_of(cast("RunDossier", dossier)))


def test_the_night_for_which_a_run_was_drained_is_no_loss() -> None:
    """Nor is the time in which nobody looked after it; that between two attempts is."""
    night = {"elapsed_seconds": 40_000.0}
    assert goodput(night, {"phase_seconds": {"training": 50.0}}) == "50%"
    between = {"training": 50.0, "waiting": 60.0, "down": 40.0}
    assert goodput(night, {"phase_seconds": between}) == "25%"
    within = {**night, "downtime_seconds": 300.0}  # most of it within the attempts
    assert goodput(within, {"phase_seconds": between}) == "25%"
    unknown = {**night, "attempt_seconds": None}
    assert goodput(unknown, {"phase_seconds": {}}) == "0%"


def test_what_may_have_been_training_is_told() -> None:
    """Of a script with a loop that nobody counts beside its fit, before or after it."""
    run = {"elapsed_seconds": 1000.0, "attempt_seconds": 1000.0}
    before = {"training": 50.0, "starting": 900.0}
    after = {"training": 50.0, "between": 900.0}
    usual = {"training": 50.0, "starting": 55.0}
    assert goodput(run, {"phase_seconds": before}) == "at least 5%"
    assert goodput(run, {"phase_seconds": after}) == "at least 5%"
    assert goodput(run, {"phase_seconds": usual}) == "5%"


def test_two_attempts_of_several_fits_count_together() -> None:
    """Steps that were done again are no good, whichever ``fit`` they are of."""
    run = {"elapsed_seconds": 100.0, "attempts": 2}
    phases = {"training": 50.0, "validating": 20.0, "replaying": 10.0}
    assert goodput(run, {"phase_seconds": phases}) == "60%"


def test_what_goodput_is_stands_beside_it() -> None:
    """The word alone tells nothing to who meets it first."""
    run = dict.fromkeys((
        "state", "elapsed_seconds", "attempts", "incidents", "device_peak_bytes",
        "host_peak_bytes", "gpu_seconds", "lost_steps", "downtime_seconds",
    ))  # fmt: skip
    dossier = SimpleNamespace(run={**run, "state": "gave_up"}, status={})
    spent = TimeSpent(phases={}, elapsed_seconds=100.0, steps=50, step_seconds=50.0)
    known = figures_of(cast("RunDossier", dossier), spent)
    assert known == {
        "state": "gave up",
        "goodput (time in steps that counted)": "50%",
    }


def test_who_asked_an_attempt_to_end_is_no_stranger() -> None:
    """A drain is not told as what something other than Trainwarden did."""
    drained = {"cause": "preempted", "asked": "saved"}
    assert ended_by(drained, over=True) == "asked to end (drained)"
    assert (
        ended_by({**drained, "asked": "at_once"}, over=True) == "asked to end at once"
    )
    for earlier in ({"cause": "preempted"}, {**drained, "asked": None}):
        assert ended_by(earlier, over=True) == "preempted"
    assert ended_by({"cause": "none", "asked": None}, over=True) == "finished"
    assert ended_by({"cause": None}, over=True) == "not known"
    assert ended_by({"cause": None}, over=False) == "it runs"


def test_what_goodput_counts_is_said_and_why_there_may_be_more() -> None:
    """Once, below the figures; nothing where there is no figure."""
    known = TimeSpent(
        phases={"training": 50.0}, elapsed_seconds=100.0, steps=5, step_seconds=50.0
    )
    assert goodput_note(known) == WHAT_COUNTS
    loops = {"training": 50.0, "between": 900.0}
    more = TimeSpent(phases=loops, elapsed_seconds=1000.0, steps=5, step_seconds=50.0)
    assert goodput_text(more) == "at least 5%"
    assert goodput_note(more) == WHAT_COUNTS + WHY_AT_LEAST
    assert goodput_note(TimeSpent(phases={}, elapsed_seconds=100.0)) == ""
    run = dict.fromkeys((
        "elapsed_seconds", "attempt_seconds", "attempts", "incidents", "lost_steps",
        "device_peak_bytes", "host_peak_bytes", "gpu_seconds", "downtime_seconds",
    ))  # fmt: skip
    status = {"step_counts": [5], "step_seconds_sum": 50.0, "state": "finished"}
    dossier = SimpleNamespace(
        run={
            **run,
            "state": "finished",
            "attempt_seconds": 100.0,
            "downtime_seconds": 0.0,
        },
        status=status,
    )
    page = "".join(map(render, summary_part(cast("RunDossier", dossier))))
    assert f'<p class="note">{WHAT_COUNTS}</p>' in page


ATTEMPT: dict[str, Any] = {
    "attempt": 2, "began_at": "2026-01-31T12:00:00+00:00", "seconds": 9.0, "cause": None,
    "remedy": None, "restored_step": 0, "last_step": None,
}  # fmt: skip


def attempts(paused: float = 0.0, **status: Any) -> str:
    """The table of attempts of a run that goes on."""
    first = {**ATTEMPT, "attempt": 1, "cause": "preempted", "last_step": None}
    dossier = SimpleNamespace(
        run={"exit_code": None, "paused_seconds": paused},
        attempts=[first, ATTEMPT],
        status={"attempt": 2, "step": 78, **status},
    )
    return render(attempts_part(cast("RunDossier", dossier)))


def test_an_attempt_that_runs_is_where_its_job_is() -> None:
    """The same step as in the figures; of one that ended, and did not say how far it came,
    nobody knows."""
    assert "<td>0 → 78</td>" in attempts()
    assert attempts().count("<td>0 → ?</td>") == 1
    assert attempts(attempt=3).count("<td>0 → ?</td>") == 2


def test_bars_of_attempts_hold_the_time_between_commands() -> None:
    """Which is said where there was any."""
    assert ">when, in the time of the run<" in attempts()
    assert ">when, in the time of the run, and between its commands<" in attempts(41.0)
