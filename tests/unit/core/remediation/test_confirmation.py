"""A remedy is in force when the attempt has confirmed it, and not before."""

from dataclasses import replace

import pytest

from supervisor.core.causes import Cause
from supervisor.core.lifecycle.effects import Effect, Say, UpdateIncident
from supervisor.core.lifecycle.events import (
    Applied,
    DeadlineExpired,
    Event,
    GateClear,
    ProgressReported,
    Spawned,
)
from supervisor.core.lifecycle.run_state import OpenIncident, RunPhase, RunState
from supervisor.core.remediation.confirmation import NAMES, in_force, pending
from supervisor.core.remediation.escalation import Allow
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import (
    MIXED,
    LossRecovery,
    Overrides,
    described,
)
from supervisor.core.text.log_level import LogLevel
from tests.support.lives import fresh, happen, killed
from tests.support.stories import Story

EVERYTHING = Overrides(
    plan=MicrobatchPlan(
        slice_size=8, slices=4, calibrate=False, ceiling=None, because="x"
    ),
    async_allocator=True,
    growth=True,
    headroom=0.1,
    workspace_mib=256,
    autotune_off=True,
    deterministic=True,
    precision=MIXED,
    avoid=("GPU-0",),
    recycle_bytes=5,
    detour=LossRecovery(restore_before_step=7, skip=(6, 9), rate_factor=0.5),
)
OURS = {"recycled at bytes": 5}
"""What needs nobody's word."""
FIRST_STEP = ProgressReported(first_step=1)


def started(overrides: Overrides, *events: Event) -> tuple[RunState, list[Effect]]:
    """A run whose second attempt has begun with ``overrides``."""
    incident = OpenIncident(attempt=1, failed_step=0, at=0.0)
    run = replace(fresh(), attempt=1, overrides=overrides, open_incident=incident)
    return happen(run, DeadlineExpired(), GateClear(), Spawned(7), *events)


def confirmed(*names: str) -> list[Event]:
    """The attempt says that these are in force."""
    return [Applied(name, in_force=True) for name in names]


def warnings(effects: list[Effect]) -> list[str]:
    """What is said as a warning."""
    said = [e for e in effects if isinstance(e, Say)]
    return [one.text for one in said if one.level is LogLevel.WARNING]


def told(run: RunState) -> tuple[dict[str, object], dict[str, object]]:
    """What is in force, and what is only asked for."""
    last = run.history.last
    return in_force(run.overrides, last), pending(run.overrides, last)


def test_what_is_asked_for_is_not_in_force() -> None:
    """Before the attempt has said so; what the supervisor does itself is."""
    run, effects = started(EVERYTHING)
    assert told(run)[0] == OURS
    assert told(run)[1].keys() | OURS.keys() == described(EVERYTHING).keys()
    assert warnings(effects) == []


def test_what_is_confirmed_is_in_force() -> None:
    """All of it, by the first step, and nothing is said."""
    run, effects = started(EVERYTHING, *confirmed(*NAMES), FIRST_STEP)
    assert told(run) == (described(EVERYTHING), {})
    assert run.overrides == EVERYTHING
    assert warnings(effects) == []


def test_slices_are_confirmed_by_what_is_told_of_them() -> None:
    """A microbatch tells of itself."""
    run, _ = started(
        Overrides(plan=EVERYTHING.plan), ProgressReported(slices=4, slice_size=8)
    )
    assert told(run) == ({"slices": 4}, {})


def test_what_is_not_confirmed_by_the_first_step_is_told_once() -> None:
    """It is taken out of what is in force, and the incident has a note of it."""
    run, effects = started(EVERYTHING, FIRST_STEP, ProgressReported(first_step=2))
    (text,) = warnings(effects)
    assert text.endswith("asked for, and not in force")
    assert f"precision {MIXED}" in text
    notes = [e for e in effects if isinstance(e, UpdateIncident) and e.note is not None]
    assert [(note.attempt, note.note) for note in notes] == [(1, text)]
    assert run.history.unmet.keys() | OURS.keys() == described(EVERYTHING).keys()
    left = Overrides(
        plan=EVERYTHING.plan,
        avoid=EVERYTHING.avoid,
        recycle_bytes=5,
        detour=LossRecovery(restore_before_step=7),
    )
    assert run.overrides == left
    assert run.history.last is not None
    assert run.history.last.overrides == left


def test_half_a_setting_is_not_in_force() -> None:
    """Autotuning has two switches."""
    run, effects = started(
        Overrides(autotune_off=True), *confirmed("XLA_FLAGS"), FIRST_STEP
    )
    assert warnings(effects) == ["attempt 2: autotune off: asked for, and not in force"]
    assert run.overrides == Overrides()


def test_what_is_denied_before_the_first_step_does_not_wait_for_it() -> None:
    """The attempt ends without one, and what is decided then knows it."""
    denied = Applied("precision", in_force=False)
    run, effects = started(
        Overrides(precision=MIXED, growth=True), denied, killed(0, 0)
    )
    assert warnings(effects) == [
        f"attempt 2: precision {MIXED}: asked for, and not in force"
    ]
    assert run.phase is RunPhase.WAITING
    assert run.overrides == Overrides(growth=True)
    assert told(run) == ({}, {"memory growth": "on"})


def test_the_last_word_counts() -> None:
    """A policy that was set at the import, and another that the model computes by."""
    said = Applied("precision", in_force=True), Applied("precision", in_force=False)
    run, effects = started(Overrides(precision=MIXED), *said, FIRST_STEP)
    assert run.overrides == Overrides()
    assert len(warnings(effects)) == 1


def test_where_nobody_failed_there_is_no_incident_to_note_it_with() -> None:
    """It is said all the same."""
    run, _ = started(Overrides(growth=True))
    _, effects = happen(replace(run, open_incident=None), FIRST_STEP)
    assert len(warnings(effects)) == 1
    assert not [e for e in effects if isinstance(e, UpdateIncident)]


def test_attempts_of_before_there_were_such_words_are_believed() -> None:
    """Their records say nothing of it."""
    run, _ = started(Overrides(precision=MIXED))
    old = replace(run, history=run.history.updated(applied=None))
    after, effects = happen(old, *confirmed("growth", "precision"), FIRST_STEP)
    assert told(after) == ({"precision": MIXED}, {})
    assert warnings(effects) == []


def test_names_that_nobody_asks_for_are_not_kept() -> None:
    """The event file may hold anything."""
    run, _ = started(Overrides(), *confirmed("nonsense", "precision"))
    assert run.history.last is not None
    assert run.history.last.applied == {"precision": True}


def test_a_run_that_knows_of_no_attempt_survives_such_words() -> None:
    """And one that has had none has nothing in force."""
    lost = replace(fresh(), phase=RunPhase.RUNNING)
    assert happen(lost, *confirmed("precision"))[0] == lost
    assert pending(Overrides(growth=True), None) == {"memory growth": "on"}


@pytest.mark.parametrize("met", [True, False])
def test_the_end_of_a_escalation_names_what_was_asked_in_vain(*, met: bool) -> None:
    """It did not help, or it was never tried: two different sentences. A person who
    starts the run again may have made room for it."""
    story = Story(Cause.DEVICE_OOM, batch=1, allowed=frozenset({Allow.MIXED_PRECISION}))
    assert story.fail().remedy_step == "mixed_precision"
    unmet: dict[str, object] = {} if met else {"precision": MIXED}
    story.history = story.history.begun(2).updated(unmet=unmet)
    story.overrides = story.overrides if met else Overrides()
    verdict = story.fail()
    assert verdict.remedy_step is None
    assert (f"precision {MIXED}: asked for" in verdict.remedy.because) is not met
    assert replace(story.history, budget_since=99).unmet == {}


@pytest.mark.parametrize("met", [True, False])
def test_what_was_asked_in_vain_is_not_asked_again(*, met: bool) -> None:
    """Also where an escalation begins anew after progress: it would not come into force the
    next time either. What is in force already is not asked again as well."""
    story = Story(Cause.CUDNN_ALLOC, batch=1)
    assert [story.fail().remedy_step, story.fail().remedy_step] == [
        "growth",
        "workspace",
    ]
    vain: dict[str, object] = {"memory growth": "on", "headroom": "10%"}
    story.history = story.history.updated(unmet={} if met else vain)
    if not met:
        story.overrides = replace(story.overrides, growth=False, headroom=None)
    assert story.fail(snapshot=50, step=60).remedy_step is None
    if not met:  # a person starts it again, who may have made room for it
        story.history = replace(story.history, budget_since=3)
        assert story.fail(snapshot=90, step=95).remedy_step == "growth"


def test_an_attempt_that_is_not_asked_anything_says_nothing() -> None:
    """Nothing is pending."""
    assert pending(Overrides(), AttemptHistory(number=1)) == {}
