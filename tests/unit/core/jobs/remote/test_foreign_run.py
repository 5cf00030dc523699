"""A run as a remote store tells of it: what supervisors write, and nothing else."""

import json
from dataclasses import asdict, fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.remote.foreign_run import (
    ForeignOverrides,
    ForeignRunError,
    check_foreign_run,
)
from supervisor.core.remediation.escalation import Allow
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import MIXED, LossRecovery, Overrides

RECORD: dict[str, Any] = {
    "run_id": "5599fe7fa71649878701f9e51de39f44", "seed": 7, "script_hash": "1",
    "state": "running", "host": "lost", "version": "0", "overrides": None,
}  # fmt: skip
FULL = Overrides(
    plan=MicrobatchPlan(
        slice_size=8, slices=4, calibrate=True, ceiling=None, because="it fits"
    ),
    async_allocator=True, growth=True, headroom=0.1, workspace_mib=512,
    autotune_off=True, deterministic=True, precision=MIXED, recycle_bytes=2**30,
    detour=LossRecovery(restore_before_step=3, skip=(2, 5), rate_factor=0.5),
)  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*asdict(FULL), "x\x1b", "slices"]), inner)
    ),
    max_leaves=6,
)


def test_what_a_supervisor_writes_is_taken() -> None:
    """All remedies at once, through JSON."""
    overrides = json.loads(json.dumps(asdict(FULL)))
    check_foreign_run({**RECORD, "overrides": overrides}, allowed=tuple(Allow))
    check_foreign_run(RECORD, allowed=())


def test_no_override_is_forgotten() -> None:
    """A new one must say what it may be."""
    known = {one.name for one in fields(Overrides)}
    assert set(ForeignOverrides.model_fields) == known


def refusal(record: dict[str, Any]) -> str | None:
    """What is said against it where all is allowed; None: it may be gone on by."""
    try:
        check_foreign_run(record, allowed=tuple(Allow))
    except ForeignRunError as error:
        return str(error)
    return None


@given(st.sampled_from(sorted(RECORD)), JSON)
def test_whatever_stands_there_it_is_refused_or_a_value(name: str, value: Any) -> None:
    """No error but ours, which names the field and is safe to print."""
    told = refusal({**RECORD, name: value})
    assert told is None or (told.isprintable() and name in told)


@given(JSON)
def test_overrides_that_pass_are_overrides(value: Any) -> None:
    """What is taken is made of known fields alone."""
    if refusal({**RECORD, "overrides": value}) is None:
        assert value is None or set(value) <= set(asdict(FULL))


def test_a_key_of_strangers_is_not_repeated() -> None:
    """It could be pages long, or move the cursor of a terminal."""
    overrides = {"\x1b[2J": 1}
    with pytest.raises(ForeignRunError, match="overrides: a field") as caught:
        check_foreign_run({**RECORD, "overrides": overrides}, allowed=())
    assert "\x1b" not in str(caught.value)


def test_what_changes_the_computation_must_be_allowed_here() -> None:
    """Each of the three by its own name in the spec."""
    overrides = asdict(FULL)
    with pytest.raises(ForeignRunError, match="does not allow") as caught:
        check_foreign_run({**RECORD, "overrides": overrides}, allowed=())
    assert all(f"remedies.{one}" in str(caught.value) for one in Allow)
    some = {Allow.MIXED_PRECISION, Allow.LOWER_RATE}
    with pytest.raises(ForeignRunError, match=r": remedies\.skip_batches$"):
        check_foreign_run({**RECORD, "overrides": overrides}, allowed=some)


def test_a_name_that_would_move_a_cursor_is_refused() -> None:
    """It is shown to people."""
    with pytest.raises(ForeignRunError, match=r"host: .*control characters"):
        check_foreign_run({**RECORD, "host": "\x1b[2J"}, allowed=())
