"""Steps that no incident tells of: what is not known is not made up."""

from supervisor.core.jobs.accounting.steps_done_again import AttemptSpan, untold_steps


def span(restored: int | None, last: int | None, *, told: bool = False) -> AttemptSpan:
    """An attempt."""
    return AttemptSpan(restored_step=restored, last_step=last, told=told)


def test_one_that_runs_does_again_what_lay_before_it() -> None:
    """How far it has come is not told before its end."""
    assert untold_steps([span(0, 36), span(30, None)]) == 6


def test_one_that_did_not_get_that_far_did_nothing_again() -> None:
    """It had not restored; the next one does it."""
    assert untold_steps([span(0, 36), span(None, None), span(30, 60)]) == 6
    assert untold_steps([span(0, 36), span(None, None)]) == 0


def test_what_an_incident_tells_of_is_not_counted_twice() -> None:
    """Its own figure has it."""
    assert untold_steps([span(0, 36, told=True), span(30, 60)]) == 0


def test_nothing_was_done_again() -> None:
    """Saved, and gone on from there; or there is one attempt."""
    assert untold_steps([span(0, 24), span(24, 40)]) == 0
    assert untold_steps([span(0, 24)]) == 0
    assert untold_steps([span(None, None), span(0, 24)]) == 0
