"""The table of all jobs on the page of a box."""

import re
from typing import Any

import pytest

from supervisor.core.jobs.job_status import JobState, JobStatus, status_json
from supervisor.web.box_view import history_part, jobs_part, news_of
from supervisor.web.markup import render


def job(state: JobState, message: str, **fields: Any) -> dict[str, Any]:
    """One of two attempts."""
    status = JobStatus(job="digits", state=state, attempt=2, message=message, **fields)
    return status_json(status)


def heads(*jobs: dict[str, Any]) -> list[str]:
    """Of the columns that are drawn."""
    return re.findall(r'scope="col">([^<]*)<', render(jobs_part(jobs)))


@pytest.mark.parametrize(
    ("state", "message", "told"),
    [
        (JobState.RUNNING, "attempt 2", ""),
        (JobState.FINISHED, "finished", ""),
        (JobState.GAVE_UP, "gave up", ""),
        (JobState.GAVE_UP, "a restart cannot help", "a restart cannot help"),
        (JobState.RUNNING, "attempt 1", "attempt 1"),
    ],
)
def test_no_column_repeats_another(state: JobState, message: str, told: str) -> None:
    """What is going on is told where it is more than the state and the attempt."""
    assert news_of(job(state, message)) == told


def test_a_column_that_no_job_has_anything_in_is_left_out() -> None:
    """A job that says something brings it back for all."""
    fields = {"epoch": 1, "epochs": 3, "step": 1200}
    done = job(JobState.FINISHED, "finished", **fields)
    assert heads(done) == ["job", "state", "attempt", "epoch", "step"]
    waits = job(JobState.WAITING, "no room on the GPU")
    shown = render(jobs_part([done, waits]))
    assert heads(done, waits)[-1] == "what is going on"
    assert shown.count("<tr>") == 3
    assert "2 of 3" in shown
    assert "no room on the GPU" in shown


def test_past_runs_have_their_main_memory() -> None:
    """Which is all the memory that a run on a CPU has, as ``history`` has it."""
    run = {
        "job": "digits", "run": 1, "user": "ada", "state": "finished", "attempts": 1,
        "began_at": "2026-01-31T12:00:00+00:00", "elapsed_seconds": 9.0, "lost_steps": 0,
        "downtime_seconds": 0.0, "device_peak_bytes": None, "host_peak_bytes": 589 << 20,
    }  # fmt: skip
    shown = render(history_part([run]))
    heads_of_it = re.findall(r'scope="col">([^<]*)<', shown)
    cells = re.findall(r"<t[hd][^>]*>([^<]*)</t[hd]>", shown.partition("<tbody>")[2])
    told = dict(zip(heads_of_it, cells, strict=True))
    assert told["main memory, run peak"] == "589 MiB"
    assert told["device memory, run peak"] == ""
    unknown = render(history_part([{**run, "host_peak_bytes": None}]))
    assert "None" not in unknown
