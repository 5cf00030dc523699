"""Sizes and peaks belong to the call of ``fit`` that they were measured in."""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.diagnose import diagnose
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.lifecycle.events import ProgressReported
from supervisor.core.lifecycle.progress_handling import learned
from supervisor.core.memory.figures import MemoryFigures, OomVerdict, verdict
from supervisor.core.memory.fit_memory import (
    KEPT,
    FitMemory,
    another_call,
    remembered,
    same_work,
    step_bytes,
)
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import next_plan
from supervisor.core.remediation.observations import failed_elsewhere, observations
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.remediation.slice_growth import SETTLED_STEPS, regrown
from supervisor.wire.records.oom_subject import OomSubject
from tests.support.lives import exit_record, fresh, oom_report

MIB = 2**20


def told(*news: ProgressReported) -> AttemptHistory:
    """What is known of an attempt that told this."""
    run = fresh()
    run = replace(run, history=run.history.begun(1))
    for one in news:
        run, _ = learned(run, one, 0.0)
    assert run.history.last is not None
    return run.history.last


WARM = (
    ProgressReported(fit=0, batch=32, model="m"),
    ProgressReported(first_step=1),
    ProgressReported(
        slice_size=32, peak_bytes=90 * MIB, limit_bytes=400 * MIB, jit=False
    ),
)


def out(attempt: AttemptHistory, number: int = 1) -> AttemptHistory:
    """The same, ended for want of memory."""
    return replace(attempt, number=number, cause=Cause.DEVICE_OOM)


def failures(*attempts: AttemptHistory) -> list[int]:
    """The sizes that failed, as the planner sees them."""
    seen = observations(History(attempts=attempts))
    return [one.slice_size for one in seen if one.failed]


def test_the_size_that_failed_is_that_of_the_call_that_failed() -> None:
    """After a small call a large one fails: its batch does not fit, whichever came
    first, and whatever was measured before."""
    failed = out(told(*WARM, ProgressReported(fit=1, batch=64, model="m")))
    assert failures(failed) == [64]
    plan = next_plan(observations(History(attempts=(failed,))), batch=64)
    assert plan is not None
    assert (plan.ceiling, plan.calibrate) == (64, True)
    assert plan.because.startswith("64 samples at once do not fit")
    large_first = (
        ProgressReported(fit=0, batch=64),
        ProgressReported(slice_size=64, peak_bytes=MIB),
    )
    failed = out(told(*large_first, ProgressReported(fit=1, batch=32)))
    assert failures(failed) == [32]


def test_what_was_measured_stays_with_its_call() -> None:
    """Another call begins with nothing measured; the one before is kept beside it."""
    attempt = told(*WARM, ProgressReported(fit=1, batch=64, model="n"))
    assert (attempt.slice_size, attempt.peak_bytes, attempt.jit) == (None, None, None)
    assert (attempt.fit, attempt.batch, attempt.stepped) == (1, 64, False)
    assert attempt.limit_bytes == 400 * MIB  # of the process, not of the call
    (before,) = attempt.earlier_fits
    assert (before.fit, before.size, before.peak_bytes) == (0, 32, 90 * MIB)
    assert before.stepped


def test_the_same_call_told_again_is_no_other() -> None:
    """Its batch may be known only once the first is drawn. A script that catches the
    exception and tries another batch calls again under the same number."""
    begun = told(
        ProgressReported(fit=0),
        ProgressReported(slice_size=8),
        ProgressReported(fit=0, batch=32),
    )
    assert (begun.batch, begun.slice_size, begun.earlier_fits) == (32, 8, ())
    tried = told(*WARM, ProgressReported(fit=0, batch=16))
    assert (tried.batch, tried.slice_size) == (16, None)
    assert not another_call(FitMemory(), fit=0, batch=1, model="m")


def test_a_peak_belongs_to_its_size() -> None:
    """With another size in force the peak of the one before is not this one's."""
    climbing = told(*WARM, ProgressReported(slice_size=64))
    assert (climbing.slice_size, climbing.peak_bytes) == (64, None)
    assert not climbing.stepped
    same = told(*WARM, ProgressReported(slice_size=32))
    assert same.peak_bytes == 90 * MIB


def test_news_without_an_attempt_change_nothing() -> None:
    """There is no history yet to write them into."""
    run = fresh()
    assert learned(run, WARM[0], 0.0)[0].history == run.history


def test_what_failed_in_another_call_is_no_bound_for_this_one() -> None:
    """Neither with another model, nor with another batch. The same model and batch, in
    another call, are the same work; of an unknown model the number tells."""
    first = out(told(ProgressReported(fit=0, batch=64, model="m")))
    assert failures(
        first, out(told(ProgressReported(fit=1, batch=64, model="n")), 2)
    ) == [64]
    again = told(
        ProgressReported(fit=1, batch=64, model="m"), ProgressReported(slice_size=16)
    )
    assert failures(first, out(again, 2)) == [64, 16]
    assert failures(
        first, out(told(ProgressReported(fit=1, batch=96, model="m")), 2)
    ) == [96]
    known, unknown = FitMemory(fit=0, batch=8, model="m"), FitMemory(fit=1, batch=8)
    assert not same_work(known, unknown)
    assert same_work(known, replace(unknown, fit=0))
    assert same_work(known, replace(unknown, fit=None))
    assert same_work(replace(unknown, fit=None), known)


def test_what_ran_out_outside_of_a_step_says_nothing_of_slices() -> None:
    """Weights that do not fit are no slice that failed."""
    attempt = out(told(ProgressReported(fit=0, batch=64)))
    assert failures(replace(attempt, subject=OomSubject.STEP)) == [64]
    assert failures(replace(attempt, subject=OomSubject.WEIGHTS)) == []
    assert observations(History()) == ()


def test_the_plan_of_another_call_is_not_given_up_for_this_one() -> None:
    """That nothing failed in this call does not mean that it would fit whole."""
    plan = next_plan(observations(History(attempts=(OTHER,))), batch=64)
    overrides = Overrides(plan=None if plan is None else replace(plan, calibrate=False))
    history = History(attempts=(OTHER, SETTLED))
    assert failed_elsewhere(history)
    assert regrown(overrides, history) == overrides
    larger = replace(OTHER, fit=1, model="n", limit_bytes=MIB)
    now = replace(SETTLED, limit_bytes=4 * MIB)
    assert regrown(overrides, History(attempts=(larger, now))).plan is None
    assert not failed_elsewhere(History())


OTHER = out(told(ProgressReported(fit=0, batch=64, model="m")))
SETTLED = replace(
    told(ProgressReported(fit=1, batch=64, model="n"), ProgressReported(slice_size=32)),
    number=2,
    last_step=SETTLED_STEPS,
    restored_step=0,
)


def test_few_calls_are_kept() -> None:
    """A script that calls fit for every epoch does not fill the ledger; a call in which
    nothing was measured leaves nothing."""
    one = FitMemory(fit=0, model="m", batch=8, slice_size=8, peak_bytes=5)
    assert remembered((), replace(one, peak_bytes=None)) == ()
    again = replace(one, fit=1, peak_bytes=6)
    assert remembered((one,), again) == (again,)
    kept: tuple[FitMemory, ...] = ()
    for batch in range(3 * KEPT):
        kept = remembered(kept, replace(one, batch=batch))
    assert [seen.batch for seen in kept] == list(range(2 * KEPT, 3 * KEPT))


# --- does the step fit into a pool in one piece? ---


def needed(*fits: FitMemory, asked: int = 100, between: int | None = 10) -> int | None:
    """What a step needs at the least, in MiB."""
    found = step_bytes(
        fits,
        asked_bytes=asked * MIB,
        between_bytes=None if between is None else between * MIB,
    )
    return None if found is None else found // MIB


SMALL = FitMemory(fit=0, model="m", batch=32, peak_bytes=90 * MIB, stepped=True)
LARGE = FitMemory(fit=1, model="m", batch=128)


def test_a_step_is_estimated_from_a_smaller_one_of_the_same_model() -> None:
    """Weights and gradients stay, the rest grows with the samples."""
    assert needed(SMALL, LARGE) == 20 + 4 * 70
    assert needed(replace(SMALL, peak_bytes=15 * MIB), LARGE) == 15
    assert needed(SMALL, LARGE, between=None) == 4 * 90


def test_without_a_measure_a_tensor_comes_with_its_gradient() -> None:
    """Of another model, of more samples, or where nothing was measured."""
    assert needed(LARGE) == 10 + 200
    assert needed(replace(SMALL, model="n"), LARGE) == 210
    assert needed(replace(SMALL, batch=256), LARGE) == 210
    assert needed(replace(SMALL, model=None), LARGE) == 210
    assert needed(replace(SMALL, peak_bytes=None), LARGE) == 210


def test_a_step_that_was_done_fits() -> None:
    """Then only the state of the pool can be in the way."""
    done = replace(LARGE, stepped=True)
    assert needed(SMALL, done) is None
    assert needed(done, SMALL, LARGE) is None
    assert needed(replace(done, fit=0, batch=32, slice_size=128), LARGE) == 210
    assert needed() is None
    assert needed(FitMemory()) is None


PIECES = MemoryFigures(
    limit_bytes=400 * MIB,
    in_use_bytes=20 * MIB,
    requested_bytes=205 * MIB,
    free_bytes=380 * MIB,
    largest_free_bytes=160 * MIB,
    growth_bytes=0,
)
"""A pool that grew by regions under a small fit, when a large one comes."""


def test_a_step_that_no_pool_could_hold_is_no_fragmentation() -> None:
    """Enough is free for the one request, and not for the step."""
    assert verdict(PIECES) is OomVerdict.FRAGMENTATION
    assert verdict(replace(PIECES, step_bytes=400 * MIB)) is OomVerdict.FRAGMENTATION
    assert verdict(replace(PIECES, step_bytes=401 * MIB)) is OomVerdict.CAPACITY
    unlimited = replace(PIECES, limit_bytes=None, step_bytes=401 * MIB)
    assert verdict(unlimited) is OomVerdict.FRAGMENTATION


def test_crumbs_are_no_room_in_pieces() -> None:
    """A small request that a pool used up to a thousandth refuses: more is needed."""
    crumbs = replace(PIECES, requested_bytes=16_000, free_bytes=16_128, largest_free_bytes=15_000)  # fmt: skip
    assert verdict(crumbs) is OomVerdict.CAPACITY
    assert verdict(replace(crumbs, limit_bytes=8 * MIB)) is OomVerdict.FRAGMENTATION
    assert verdict(replace(crumbs, limit_bytes=None)) is OomVerdict.FRAGMENTATION
    large = MemoryFigures(
        limit_bytes=80 << 30,
        in_use_bytes=(80 << 30) - 70 * MIB,
        free_bytes=70 * MIB,
        requested_bytes=60 * MIB,
        largest_free_bytes=40 * MIB,
    )
    assert (
        verdict(large) is OomVerdict.FRAGMENTATION
    )  # a fresh process has it in one piece


def _cause(*fits: FitMemory, subject: OomSubject | None = OomSubject.STEP) -> Cause:
    evidence = Evidence(
        exit=exit_record(code=1),
        crash=oom_report(None),
        dump=PIECES,
        limited=True,
        subject=subject,
        fits=fits,
    )
    return diagnose(evidence).cause


def test_the_diagnosis_asks_what_the_step_needs() -> None:
    """Of a step alone: weights in pieces are another matter, and what the log of
    somebody else tells comes without calls of fit."""
    assert _cause(LARGE) is Cause.DEVICE_OOM
    assert _cause(LARGE, subject=None) is Cause.DEVICE_OOM
    assert _cause(replace(LARGE, stepped=True)) is Cause.DEVICE_OOM_FRAGMENTATION
    weights = _cause(LARGE, subject=OomSubject.WEIGHTS)
    assert weights is Cause.DEVICE_OOM_FRAGMENTATION
    assert _cause() is Cause.DEVICE_OOM_FRAGMENTATION
