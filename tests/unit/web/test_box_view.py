"""The table of all jobs on the page of a box."""

import re
from typing import Any

import pytest

from supervisor.core.jobs.job_status import JobState, JobStatus, status_json
from supervisor.web.box_view import jobs_part, news_of
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
