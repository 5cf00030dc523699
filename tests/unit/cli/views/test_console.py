"""Lines of a run without a terminal."""

import io
from dataclasses import replace

from supervisor.cli.views.console import LastingConsole, PlainView
from supervisor.core.jobs.job_status import JobState, JobStatus

AT_WORK = JobStatus(
    job="job", state=JobState.RUNNING, attempt=1, phase="training", pid=7, step=3
)


def test_a_run_that_stands_still_is_seen_to() -> None:
    """Long before its hang is judged: the lines say since when no step was done."""
    text, now = io.StringIO(), [0.0]
    view = PlainView(LastingConsole(file=text), clock=lambda: now[0])
    view.every_seconds = 1e-9  # each look is a line
    looks = ((0.0, 3), (90.0, 3), (100.0, 4), (115.0, 4))
    for at, step in looks:
        now[0] = at
        view.show(replace(AT_WORK, step=step, host_rss_bytes=int(at)))
    lines = [line.partition(" · ")[2] for line in text.getvalue().splitlines()]
    ends = [line.rpartition(" · ")[2] for line in lines]
    assert ends[0] == "no snapshot yet"
    assert ends[1] == "no step for 1 min 30 s"
    assert ends[2] == "no snapshot yet"
    assert ends[3] == "no step for 15 s"


def test_a_run_that_stands_still_is_said_to_once() -> None:
    """Where the page tells since when, the line has that already."""
    text, now = io.StringIO(), [0.0]
    view = PlainView(LastingConsole(file=text), clock=lambda: now[0])
    view.every_seconds = 1e-9  # each look is a line
    for since in (0.0, 107.0):
        now[0] = since
        view.show(replace(AT_WORK, progress_age_seconds=since))
    assert "no step done for 1 min 47 s" in text.getvalue()
    assert "no step for" not in text.getvalue()
