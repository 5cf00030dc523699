"""Which failed steps a process may outlive: never one that leaves a doubt."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import Diagnosis, Remedy, RemedyKind
from supervisor.core.remediation.history import (
    KEPT_RECOVERIES,
    AttemptHistory,
    History,
)
from supervisor.core.remediation.in_place import CAUSES, DISPROVED, KINDS, why_not
from supervisor.core.remediation.microbatch_planner import MicrobatchPlan
from supervisor.core.remediation.overrides import NOTHING, LossRecovery, Overrides
from supervisor.core.remediation.policy import Decision

PLAN = MicrobatchPlan(
    slice_size=4, slices=8, calibrate=False, ceiling=32, because="it fits"
)
OVERRIDES = st.builds(
    Overrides,
    plan=st.sampled_from([None, PLAN]),
    detour=st.sampled_from([None, LossRecovery(restore_before_step=3)]),
    growth=st.booleans(),
    precision=st.sampled_from([None, "mixed_bfloat16"]),
    avoid=st.sampled_from([(), ("GPU-1",)]),
)
ENDED = AttemptHistory(number=1, last_step=20, snapshot_step=15)


@given(
    cause=st.sampled_from(Cause),
    kind=st.sampled_from(RemedyKind),
    before=OVERRIDES,
    after=OVERRIDES,
    wait=st.sampled_from([0.0, 1.0]),
    snapshot=st.sampled_from([None, 0, 15]),
    past=st.sampled_from([None, 5, 20, 30]),
    disproved=st.booleans(),
)
def test_it_goes_on_only_without_any_doubt(
    *,
    cause: Cause,
    kind: RemedyKind,
    before: Overrides,
    after: Overrides,
    wait: float,
    snapshot: int | None,
    past: int | None,
    disproved: bool,
) -> None:
    """A cause that leaves the process whole, a remedy that changes nothing but slices and
    the way round a bad place, at once, from a snapshot, past where it went on before."""
    ended = replace(ENDED, snapshot_step=snapshot)
    if past is not None:
        ended = ended.went_on(replace(ENDED, last_step=past, recovery=1))
    decision = Decision(
        remedy=Remedy(kind=kind, because="x", wait_seconds=wait), overrides=after
    )
    found = why_not(
        Diagnosis(cause=cause, because=()),
        decision,
        ended=ended,
        before=before,
        allowed=True,
        disproved=disproved,
    )
    same = replace(after, plan=before.plan, detour=before.detour) == before
    whole = cause in CAUSES and not disproved
    cured = kind in KINDS and same and not wait
    placed = snapshot == 15 and (past is None or past < 20)
    assert (found is None) == (whole and cured and placed)
    assert (found == DISPROVED) == disproved


def test_gpus_that_are_kept_out_of_use_end_it() -> None:
    """Whoever was on them has to go."""
    remedy = Remedy(kind=RemedyKind.MICROBATCH, because="x")
    decision = Decision(remedy=remedy, overrides=NOTHING, quarantine=("GPU-1",))
    found = why_not(
        Diagnosis(cause=Cause.DEVICE_OOM, because=()),
        decision,
        ended=ENDED,
        before=NOTHING,
        allowed=True,
    )
    assert found is not None


def test_a_process_keeps_a_bounded_number_of_its_failures() -> None:
    """The newest, and their number."""
    attempt = AttemptHistory(number=1)
    for number in range(1, 201):
        ended = replace(attempt, recovery=number, cause=Cause.NON_FINITE_LOSS)
        attempt = attempt.went_on(ended)
    assert len(attempt.recoveries) == KEPT_RECOVERIES
    assert attempt.recovered == 200
    assert all(one.recoveries == () for one in attempt.recoveries)
    history = History(attempts=(attempt,))
    assert history.failures == KEPT_RECOVERIES
    assert [one.recovery for one in history.ends][-2:] == [200, 0]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8))
def test_budgets_count_failures_wherever_they_came(steps: list[int]) -> None:
    """In one process, or each in its own."""
    ends = [
        AttemptHistory(
            number=n + 1,
            cause=Cause.DEVICE_OOM,
            last_step=step + 1,
            snapshot_step=step,
            remedy_step="planned",
        )
        for n, step in enumerate(steps)
    ]
    apart = History(attempts=tuple(ends))
    one = replace(ends[-1], number=1)
    for n, end in enumerate(ends[:-1]):
        one = one.went_on(replace(end, number=1, recovery=n + 1))
    together = History(attempts=(one,))
    assert together.fruitless(Cause.DEVICE_OOM) == apart.fruitless(Cause.DEVICE_OOM)
    assert together.tried(Cause.DEVICE_OOM) == apart.tried(Cause.DEVICE_OOM)
    assert together.failures == apart.failures
