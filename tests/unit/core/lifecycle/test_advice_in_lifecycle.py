"""Advice is said once a run, kept with each attempt, and changes nothing."""

from dataclasses import replace

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.backoff import BackOff
from supervisor.core.lifecycle.effects import Say
from supervisor.core.lifecycle.events import Advised
from supervisor.core.lifecycle.run_state import RunPhase, RunState
from supervisor.core.lifecycle.table import step
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.policy import Policy

SLOW = Advisory(
    kind=AdvisoryKind.INPUT_BOUND, sentence="it waits", advice="Read ahead."
)
WIDE = Advisory(kind=AdvisoryKind.FLOAT64, sentence="it is wide", advice="Cast.")


def running(*attempts: AttemptHistory) -> RunState:
    """A run whose attempts these are; the last runs."""
    return RunState(
        policy=Policy(
            run_id="r",
            without_progress=3,
            back_off=BackOff(first_seconds=1.0, most_seconds=60.0),
        ),
        grace_seconds=60.0,
        phase=RunPhase.RUNNING,
        attempt=len(attempts),
        history=History(attempts=attempts),
    )


def test_it_is_said_once_and_kept() -> None:
    """Newer figures are kept and not said again; a new kind is said."""
    run, effects = step(running(AttemptHistory(number=1)), Advised((SLOW,)), now=0.0)
    assert [one.text for one in effects if isinstance(one, Say)] == [
        "advice: it waits. Read ahead."
    ]
    newer = replace(SLOW, sentence="it waits longer")
    run, effects = step(run, Advised((newer, WIDE)), now=0.0)
    assert [one.text for one in effects if isinstance(one, Say)] == [
        "advice: it is wide. Cast."
    ]
    assert run.history.advisories == {
        AdvisoryKind.INPUT_BOUND: (1, newer),
        AdvisoryKind.FLOAT64: (1, WIDE),
    }
    assert step(run, Advised((newer, WIDE)), now=0.0) == (run, ())


def test_the_next_attempt_does_not_say_it_again() -> None:
    """A run that restarts has heard of it; the newest attempt that it held for counts."""
    first = AttemptHistory(number=1, advisories=(SLOW,))
    run = running(first, AttemptHistory(number=2))
    run, effects = step(run, Advised((SLOW,)), now=0.0)
    assert effects == ()
    assert run.history.advisories == {AdvisoryKind.INPUT_BOUND: (2, SLOW)}


def test_it_needs_an_attempt() -> None:
    """Without one nothing changes."""
    run = running()
    assert step(run, Advised((SLOW,)), now=0.0) == (run, ())
