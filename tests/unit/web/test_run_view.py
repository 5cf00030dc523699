"""The parts of a page about a run, as text."""

from typing import Any

from supervisor.core.causes import Cause
from supervisor.web.markup import render
from supervisor.web.run_view import incidents_part

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


def test_an_incident_of_somebody_else_says_no_more_than_it_may() -> None:
    """Who may not read the job gets no reasons, and no empty line for them."""
    shown = render(incidents_part([{**INCIDENT, "because": []}]))
    assert "<span></span>" not in shown
    assert "Answer: stop" in shown
