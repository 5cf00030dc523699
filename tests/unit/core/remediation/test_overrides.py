"""Remedies add up to one value, which outlives every process."""

from dataclasses import fields, replace
from typing import Any

import pytest

from supervisor.core.remediation.confirmation import pending
from supervisor.core.remediation.escalation import RemedyPermissions
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import (
    MIXED,
    NOTHING,
    Awaited,
    LossRecovery,
    Overrides,
    changes,
    described,
    variables,
)

PLAN = MicrobatchPlan(slice_size=8, slices=4, calibrate=False, ceiling=16, because="x")
EVERYTHING = Overrides(
    plan=PLAN,
    async_allocator=True,
    growth=True,
    headroom=0.1,
    workspace_mib=256,
    autotune_off=True,
    deterministic=True,
    precision=MIXED,
    avoid=("GPU-1",),
    recycle_bytes=1 << 30,
    detour=LossRecovery(restore_before_step=7, skip=(6, 9), rate_factor=0.5),
    awaited=Awaited(
        tenants_gone=True,
        room_bytes=5,
        disk="/data",
        disk_bytes=6,
        patience_seconds=60.0,
    ),
)


@pytest.mark.parametrize("whole", [EVERYTHING, EVERYTHING.detour, EVERYTHING.awaited])
def test_everything_is_everything(whole: Any) -> None:
    """A new field belongs into it, and so into the tests that stand on it."""
    for one in fields(whole):
        assert getattr(whole, one.name) != one.default, one.name


def test_each_is_told_and_confirmed() -> None:
    """A field that nobody is told of, or that no attempt confirms, would be a remedy that
    is said to be in force and is not; what is awaited is told by the gate."""
    for one in fields(Overrides):
        if one.name != "awaited":
            alone = replace(NOTHING, **{one.name: getattr(EVERYTHING, one.name)})
            assert described(alone), one.name
    by_the_supervisor = set(described(EVERYTHING)) - set(pending(EVERYTHING, None))
    assert by_the_supervisor == {"recycled at bytes"}


def test_the_frameworks_are_told_by_environment() -> None:
    """Each setting has its variable; without remedies there are none."""
    assert variables(NOTHING) == {}
    assert variables(EVERYTHING) == {
        "TF_GPU_ALLOCATOR": "cuda_malloc_async",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "256",
        "TF_CUDNN_USE_AUTOTUNE": "0",
        "XLA_FLAGS": "--xla_gpu_autotune_level=0",
        "TF_DETERMINISTIC_OPS": "1",
    }


def test_a_change_is_told_with_what_was_before() -> None:
    """An incident says from what to what; what stays is not mentioned."""
    assert changes(NOTHING, Overrides(growth=True)) == {
        "memory growth": ["as the script says", "on"]
    }
    assert changes(Overrides(plan=PLAN, growth=True), Overrides(growth=True)) == {
        "slices": [4, 1]
    }
    assert changes(EVERYTHING, EVERYTHING) == {}


def test_before_a_change_was_what_the_spec_asked_for() -> None:
    """Slices and a precision of its own are no whole batch, and not the script's."""
    terms = RemedyPermissions(slice_size=16, precision="mixed_float16")
    told = changes(NOTHING, Overrides(plan=PLAN, growth=True), asked=terms.asked)
    assert told == {
        "slices": ["of 16 samples", 4],
        "memory growth": ["as the script says", "on"],
    }
    lower = changes(NOTHING, Overrides(precision=MIXED), asked=terms.asked)
    assert lower == {"precision": ["mixed_float16", MIXED]}
    assert RemedyPermissions().asked == {}


@pytest.mark.parametrize(
    ("overrides", "name", "value"),
    [
        (EVERYTHING, "headroom", "10%"),
        (EVERYTHING, "learning rate", "50% of it"),
        (EVERYTHING, "skipped steps", [6, 9]),
        (
            Overrides(detour=LossRecovery(restore_before_step=3)),
            "snapshots before step",
            3,
        ),
    ],
)
def test_it_is_told_in_words(overrides: Overrides, name: str, value: object) -> None:
    """Percentages and ranges, as people read them."""
    assert described(overrides)[name] == value
