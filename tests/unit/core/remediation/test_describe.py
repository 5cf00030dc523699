"""What would be done, told before it is needed."""

import json

from supervisor.core.causes import Cause
from supervisor.core.liveness.hang_detection import Deadlines
from supervisor.core.remediation.describe import escalations_json, escalations_text
from supervisor.core.remediation.escalation import Allow, RemedyPermissions
from supervisor.core.remediation.history import KILLS_BEFORE_A_STEP
from supervisor.core.remediation.remedy_table import ESCALATIONS, TENANT


def test_every_remedy_step_of_every_cause_is_told() -> None:
    """Nothing is done that was not announced."""
    value = escalations_json(
        RemedyPermissions(), without_progress=3, deadlines=Deadlines()
    )
    told = escalations_text(value)
    flat = " ".join(told.split())
    for cause in set(Cause) - {Cause.NONE}:
        assert f"{cause}" in told
    for escalation in [*ESCALATIONS.values(), TENANT]:
        for remedy_step in escalation.remedy_steps:
            assert remedy_step.does in flat
            assert remedy_step.because in flat
    assert json.loads(json.dumps(value)) == value


def test_what_is_not_allowed_is_marked_and_how_to_allow_it() -> None:
    """Opt-in, by the key of the spec."""
    strict = escalations_text(
        escalations_json(RemedyPermissions(), without_progress=3, deadlines=Deadlines())
    )
    assert "remedies.mixed_precision = true allows it" in " ".join(strict.split())
    every = RemedyPermissions(allowed=frozenset(Allow))
    free = escalations_text(
        escalations_json(every, without_progress=3, deadlines=Deadlines(step=None))
    )
    assert "allows it" not in free
    assert "step never" in " ".join(free.split())


def test_which_limits_are_doubled_after_hangs_in_vain_is_told() -> None:
    """Those that a person wrote are kept; what is off needs no word."""

    def told(deadlines: Deadlines) -> str:
        value = escalations_json(
            RemedyPermissions(), without_progress=3, deadlines=deadlines
        )
        return " ".join(escalations_text(value).split())

    all_ = "startup, compile, step, validation, snapshot"
    assert f"twice as long as before is waited in {all_}: it may" in told(Deadlines())
    assert "the spec says how long" not in told(Deadlines())
    some = told(Deadlines(step=15.0, snapshot=None))
    assert "waited in startup, compile, validation: it may" in some
    assert some.endswith(" Not in step: the spec says how long.")
    off = Deadlines(
        startup=None, compile=1.0, step=None, validation=None, snapshot=None
    )
    assert "twice" not in told(off).rpartition("A hang is")[2]


def test_what_is_no_progress_is_told() -> None:
    """A newer snapshot alone is none."""
    value = escalations_json(
        RemedyPermissions(), without_progress=3, deadlines=Deadlines()
    )
    told = " ".join(escalations_text(value).split())
    assert (
        "no newer snapshot came of it, or if it ended for the same cause after" in told
    )


def test_the_budget_is_told() -> None:
    """Restarts in a row without progress, fewer for what is the script's own."""
    value = escalations_json(
        RemedyPermissions(), without_progress=5, deadlines=Deadlines()
    )
    by_cause = {c: one for one in value["situations"] for c in one["causes"]}
    assert by_cause["unknown"]["restarts"] == 5
    assert by_cause["user_error"]["restarts"] == 1
    assert by_cause["user_error"]["at_once_before_the_first_step"]
    assert by_cause["gpu_hardware"]["quarantines"]


def test_which_kills_count_is_told_where_kills_are() -> None:
    """Three restarts without progress are not three kills: a person who waits for the
    third must know."""
    value = escalations_json(
        RemedyPermissions(), without_progress=3, deadlines=Deadlines()
    )
    by_cause = {c: one for one in value["situations"] for c in one["causes"]}
    assert by_cause["preempted"]["kills_before_a_step"] == KILLS_BEFORE_A_STEP
    assert by_cause["unknown"]["kills_before_a_step"] is None
    told = " ".join(escalations_text(value).split())
    assert told.count(f"or {KILLS_BEFORE_A_STEP} in a row before an attempt made") == 1
