"""Slices grow back where that is safe, and only then."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import NOTHING, Overrides
from supervisor.core.remediation.slice_growth import SETTLED_STEPS, regrown

MIB = 1 << 20
SMALL = MicrobatchPlan(
    slice_size=32, slices=8, calibrate=False, ceiling=256, because="halved"
)
FAILED = AttemptHistory(
    number=1, cause=Cause.DEVICE_OOM, batch=256, limit_bytes=600 * MIB, jit=False,
    peak_bytes=800 * MIB,
)  # fmt: skip
SETTLED = AttemptHistory(
    number=2, cause=Cause.PREEMPTED, batch=256, slice_size=32, peak_bytes=150 * MIB,
    limit_bytes=600 * MIB, jit=False, restored_step=0, last_step=SETTLED_STEPS,
)  # fmt: skip


def grown(
    *attempts: AttemptHistory, plan: MicrobatchPlan | None = SMALL
) -> MicrobatchPlan | None:
    """The plan after these attempts."""
    return regrown(Overrides(plan=plan), History(attempts=attempts)).plan


def test_a_slice_grows_to_what_the_measured_peaks_allow() -> None:
    """At a restart that happens anyway, after enough steps."""
    plan = grown(FAILED, SETTLED)
    assert plan is not None
    assert plan.slice_size is not None
    assert 32 < plan.slice_size < 256
    assert plan.because.startswith("grown back")


def test_hysteresis() -> None:
    """Not after a few steps, not after running out of memory, not by a little."""
    assert grown(FAILED, replace(SETTLED, last_step=SETTLED_STEPS - 1)) == SMALL
    assert grown(FAILED, replace(SETTLED, cause=Cause.DEVICE_OOM)) == SMALL
    assert grown(FAILED, replace(SETTLED, last_step=None)) == SMALL
    near = replace(SMALL, slice_size=160, slices=2)
    assert grown(FAILED, SETTLED, plan=near) == near


def test_nothing_to_grow_stays_as_it_is() -> None:
    """No slices, slices still to be measured, or nothing known: unchanged."""
    assert grown(FAILED, SETTLED, plan=None) is None
    measuring = replace(SMALL, calibrate=True)
    assert grown(FAILED, SETTLED, plan=measuring) == measuring
    assert grown() == SMALL
    assert grown(FAILED, replace(SETTLED, peak_bytes=None)) == SMALL


def test_under_a_larger_limit_the_whole_batch_is_tried_again() -> None:
    """What failed under a smaller limit says nothing about this one."""
    assert grown(FAILED, replace(SETTLED, limit_bytes=4000 * MIB)) is None


SIZES = st.integers(1, 256)


@given(st.lists(st.tuples(SIZES, st.booleans()), min_size=1, max_size=6), SIZES)
def test_it_never_grows_to_a_slice_that_failed_under_the_same_limit(
    seen: list[tuple[int, bool]], now: int
) -> None:
    """Growing back is no way round the first rule of the planner."""
    attempts = [
        replace(
            SETTLED,
            number=number,
            slice_size=size,
            peak_bytes=(50 + 2 * size) * MIB,
            cause=Cause.DEVICE_OOM if failed else Cause.PREEMPTED,
        )
        for number, (size, failed) in enumerate(seen, start=1)
    ]
    plan = replace(SMALL, slice_size=now)
    after = regrown(Overrides(plan=plan), History(attempts=tuple(attempts))).plan
    lost = [size for size, failed in seen if failed]
    if lost and after != plan:
        assert after is not None
        assert after.slice_size is not None
        assert after.slice_size < min(lost)


def test_without_remedies_there_is_nothing_to_grow() -> None:
    """The common case."""
    assert regrown(NOTHING, History()) == NOTHING
