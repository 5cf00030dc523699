"""A run promises as much as the weakest of its calls of ``fit``."""

from dataclasses import replace

from supervisor.core.lifecycle.effects import Say
from supervisor.core.lifecycle.events import NoticeReceived
from supervisor.core.lifecycle.progress_handling import told
from supervisor.core.remediation.history import (
    KEPT,
    AttemptHistory,
    History,
    Unpromised,
    weakest,
)
from tests.support.lives import fresh

FIRST = Unpromised(fit=0, because="slices")
SECOND = Unpromised(fit=1, because="a generator")


def test_the_earliest_call_counts() -> None:
    """All that follows builds on it; one that did not tell its number is older."""
    assert weakest((None, SECOND, FIRST)) == FIRST
    assert weakest((FIRST, replace(FIRST, because="more"))) == FIRST
    old = Unpromised(fit=None, because="?")
    assert weakest((FIRST, old)) == old
    assert weakest((None,)) is None


def test_a_promise_that_is_withdrawn_stays_so() -> None:
    """Whatever later calls promise, and in whichever attempt."""
    run = replace(fresh(), history=fresh().history.begun(1))
    run, effects = told(run, NoticeReceived("said", SECOND), 0.0)
    assert effects == (Say("said"),)
    run, _ = told(run, NoticeReceived("more", FIRST), 0.0)
    run, _ = told(run, NoticeReceived("a sentence"), 0.0)
    assert run.history.unpromised == FIRST
    assert run.history.begun(2).unpromised == FIRST
    assert told(fresh(), NoticeReceived("said", FIRST), 0.0) == (
        fresh(),
        (Say("said"),),
    )


def test_it_is_known_when_the_attempt_is_not_kept_any_more() -> None:
    """A run may have thousands of attempts."""
    many = tuple(
        AttemptHistory(number=number, snapshot_step=number, unpromised=None)
        for number in range(1, 4 * KEPT)
    )
    history = History(attempts=(replace(many[0], unpromised=SECOND), *many[1:]))
    thinned = history.thinned()
    assert len(thinned.attempts) < len(many)
    assert thinned.unpromised == SECOND
