"""Rows of the ledger are the values that were written, of any version."""

import json
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import (
    MIXED,
    Awaited,
    LossRecovery,
    Overrides,
)
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.host.ledger.ledger_rows import attempt_of, record_of

PLAN = MicrobatchPlan(slice_size=8, slices=4, calibrate=False, ceiling=16, because="x")

OVERRIDES = st.builds(
    Overrides,
    plan=st.none() | st.just(PLAN),
    async_allocator=st.booleans(),
    growth=st.booleans(),
    headroom=st.none() | st.floats(0.0, 1.0),
    workspace_mib=st.none() | st.integers(1, 4096),
    autotune_off=st.booleans(),
    deterministic=st.booleans(),
    precision=st.none() | st.just(MIXED),
    avoid=st.lists(st.sampled_from(["GPU-1", "GPU-2"]), unique=True).map(tuple),
    recycle_bytes=st.none() | st.integers(0, 2**40),
    detour=st.none()
    | st.builds(
        LossRecovery,
        restore_before_step=st.integers(0, 99),
        skip=st.none() | st.tuples(st.integers(0, 9), st.integers(10, 20)),
        rate_factor=st.floats(0.0, 1.0),
    ),
    awaited=st.none()
    | st.builds(
        Awaited,
        tenants_gone=st.booleans(),
        room_bytes=st.none() | st.integers(0, 9),
        patience_seconds=st.none() | st.floats(0.0, 99.0),
    ),
)


@given(OVERRIDES)
def test_what_the_ledger_keeps_is_what_was_in_force(overrides: Overrides) -> None:
    """As JSON and back it is the same value."""
    assert record_of(Overrides, json.loads(json.dumps(asdict(overrides)))) == overrides


def test_what_an_older_version_wrote_is_read() -> None:
    """A migration leaves the plan alone in it; the rest is as without remedies."""
    stored = json.loads(json.dumps({"plan": asdict(PLAN)}))
    assert record_of(Overrides, stored) == Overrides(plan=PLAN)


def test_what_a_newer_version_wrote_is_passed_over_or_told() -> None:
    """Advice of a kind that this one cannot give is left out; anything else is no
    traceback."""
    advice = asdict(Advisory(kind=AdvisoryKind.FLOAT64, sentence="", advice=""))
    told = [{**advice, "kind": "of_tomorrow"}, advice]
    stored: dict[str, Any] = {**asdict(AttemptHistory(number=1)), "advisories": told}
    found = attempt_of({"history": json.dumps(stored)})
    assert [one.kind for one in found.advisories] == [AdvisoryKind.FLOAT64]
    with pytest.raises(LedgerError, match=r"of tomorrow.*a newer one wrote it"):
        record_of(AttemptHistory, {"number": "of tomorrow"})
