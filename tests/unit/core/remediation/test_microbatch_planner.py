"""The plan of the next slice, from what earlier attempts showed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.remediation.microbatch_planner import (
    MicrobatchPlan,
    Observation,
    below,
    next_plan,
    unsliced_part,
)
from supervisor.wire.slices import ENOUGH_STEPS, balanced, count

LIMIT = 600_000_000


def seen(
    size: int,
    *,
    peak: int | None = None,
    failed: bool = False,
    limit: int | None = LIMIT,
    jit: bool | None = False,
    usual: int | None = None,
    steps: int = ENOUGH_STEPS,
) -> Observation:
    """What an attempt with slices of ``size`` samples showed."""
    return Observation(
        slice_size=size,
        peak_bytes=peak,
        failed=failed,
        limit_bytes=limit,
        jit=jit,
        usual_bytes=usual,
        steps=steps,
    )


def planned(*observations: Observation, batch: int = 512) -> MicrobatchPlan:
    """The plan after ``observations``, where there is one."""
    plan = next_plan(observations, batch=batch)
    assert plan is not None
    return plan


def test_the_first_failure_asks_for_measuring() -> None:
    """After the first OOM the next attempt measures, below what failed."""
    plan = planned(seen(512, failed=True))
    assert plan.calibrate
    assert plan.ceiling == 512
    assert plan.slice_size == 256
    assert plan.slices == 2
    assert "512 samples at once do not fit" in plan.because


def test_two_peaks_make_a_line() -> None:
    """Peaks of 100 and 200 MB at 50 and 150 samples put 550 samples at 600 MB."""
    plan = planned(
        seen(50, peak=100_000_000),
        seen(150, peak=200_000_000),
        seen(1040, failed=True),
        batch=1040,
    )
    assert not plan.calibrate
    assert plan.slice_size == 520  # 0.96 of 550 is 528: two slices, shared out evenly
    assert plan.slices == 2


def test_peaks_that_vary_need_room() -> None:
    """The line is that through what is usual; 120 MB over it, seen once, count twice."""

    def size_of(*, peak: int, steps: int) -> int | None:
        return planned(
            seen(50, peak=100_000_000),
            seen(150, peak=peak, usual=200_000_000, steps=steps),
            seen(1040, failed=True),
            batch=1040,
        ).slice_size

    assert size_of(peak=200_000_000, steps=ENOUGH_STEPS) == 520
    assert size_of(peak=275_000_000, steps=ENOUGH_STEPS) == 260  # 550 / 2
    assert size_of(peak=200_000_000, steps=2) == 347  # 550 / 1.4, in three slices


def test_one_peak_of_each_size_is_not_all_that_they_may_need() -> None:
    """Nobody knows yet how they vary: then they vary as those did that were measured."""
    plan = planned(
        seen(50, peak=100_000_000, steps=1),
        seen(150, peak=200_000_000, steps=1),
        seen(1040, failed=True),
        batch=1040,
    )
    assert plan.slice_size == 347


def test_a_climb_that_failed_is_not_done_again() -> None:
    """Sizes that it measured are planned from, none larger; and what it tried last
    failed. In the demo: 43 and 60 samples, of 293 MB."""
    climb = (
        seen(4, peak=78_000_000, steps=2),
        seen(16, peak=134_000_000, steps=2),
        seen(32, peak=174_000_000, steps=2),
        seen(43, peak=209_000_000, steps=4),
    )
    known = [replace(one, limit_bytes=293_600_000) for one in climb]
    failed = seen(60, failed=True, limit=293_600_000)
    plan = planned(*known, failed, batch=128)
    assert not plan.calibrate
    assert plan.slice_size == 43


def test_what_was_seen_of_a_size_counts_over_all_attempts() -> None:
    """Two attempts of which one saw more: the highest, the lowest usual, all steps."""
    plan = planned(
        seen(50, peak=100_000_000, steps=6),
        seen(150, peak=275_000_000, steps=6),
        seen(50, peak=100_000_000, steps=6),
        seen(150, peak=200_000_000, steps=6),
        seen(1040, failed=True),
        batch=1040,
    )
    assert plan.slice_size == 260


def test_a_size_without_room_is_not_planned_although_it_did_not_fail() -> None:
    """Halved: 250 of 500. But 200 came within 20 MB of the limit, from 40 below it."""
    known = seen(200, peak=580_000_000, usual=540_000_000)
    plan = planned(seen(500, failed=True), known, batch=500)
    assert plan.calibrate
    assert plan.slice_size == 167  # 199 at most, shared out evenly


def test_the_line_never_leads_back_to_what_failed() -> None:
    """A plan stays a tenth below a failed slice, whatever the peaks say."""
    plan = planned(
        seen(50, peak=100_000_000),
        seen(190, peak=110_000_000),
        seen(200, failed=True),
        batch=180 * 3,
    )
    assert plan.slice_size == 180


def test_peaks_of_another_limit_or_compilation_make_no_line() -> None:
    """Peaks are compared only under the same limit and the same compilation."""
    for other in (
        seen(50, peak=1, jit=True),
        seen(50, peak=1, limit=LIMIT + 1),
        seen(50, peak=None),
    ):
        assert planned(
            other, seen(150, peak=200_000_000), seen(200, failed=True)
        ).calibrate


def test_peaks_that_do_not_rise_make_no_line() -> None:
    """Where a larger slice needed no more memory, nothing can be extrapolated."""
    assert planned(
        seen(50, peak=200_000_000), seen(99, peak=200_000_000), seen(300, failed=True)
    ).calibrate


def test_an_unknown_limit_makes_no_line() -> None:
    """Without a limit there is nothing for a line to reach."""
    assert planned(
        seen(50, peak=1, limit=None),
        seen(99, peak=2, limit=None),
        seen(300, failed=True, limit=None),
    ).calibrate


def test_measured_plans_that_fail_twice_are_halved() -> None:
    """Measuring is not trusted for ever: then the slice is halved."""
    plan = planned(seen(512, failed=True), seen(200, failed=True))
    assert plan.calibrate
    assert plan.ceiling == 200
    plan = planned(
        seen(512, failed=True), seen(200, failed=True), seen(170, failed=True)
    )
    assert not plan.calibrate
    assert plan.slices == count(batch=512, size=170 // 2)


def test_a_failure_under_a_smaller_limit_does_not_bind() -> None:
    """What failed with less memory may be tried with more."""
    plan = planned(seen(100, failed=True, limit=LIMIT // 2), seen(512, failed=True))
    assert plan.ceiling == 512
    plan = planned(seen(100, failed=True, limit=LIMIT * 2), seen(512, failed=True))
    assert plan.ceiling == 100


def test_there_may_be_no_plan() -> None:
    """No plan without a failure, without a known batch, or below one sample."""
    assert next_plan([], batch=512) is None
    assert next_plan([seen(512)], batch=512) is None
    assert next_plan([seen(512, failed=True)], batch=None) is None
    assert next_plan([seen(1, failed=True)], batch=512) is None


BEFORE = seen(4, failed=True)
"""A process that failed in small slices already."""


def unsliced(*observations: Observation, batch: int | None = 128) -> int | None:
    """What does not shrink with slices, where that is nearly all of the limit and one more
    process failed before."""
    found = unsliced_part((BEFORE, *observations), batch=batch)
    assert found is None or found.limit_bytes == LIMIT
    return None if found is None else found.bytes


def test_what_does_not_shrink_is_known_by_two_sizes() -> None:
    """64 slices of 2 samples failed, and needed as much as 32 of 4 before."""
    four, two = seen(4, peak=int(0.99 * LIMIT)), seen(2, peak=int(0.985 * LIMIT))
    failed = seen(2, peak=int(0.985 * LIMIT), failed=True)
    assert unsliced(four, failed) == int(0.985 * LIMIT) - 2 * int(0.005 * LIMIT) // 2
    assert unsliced(seen(4, peak=int(0.98 * LIMIT)), failed) == int(0.985 * LIMIT)
    assert unsliced_part([four, two], batch=128) is None  # nothing failed
    assert unsliced_part([four, failed], batch=128) is None  # a fresh process may do
    assert unsliced(failed) is None  # of one size nobody knows
    assert unsliced_part([failed, failed], batch=128) is None
    assert unsliced(seen(3, peak=int(0.99 * LIMIT)), failed) is None  # too near
    assert unsliced(four, failed, batch=None) is None
    assert unsliced() is None
    assert unsliced(seen(2, failed=True)) is None  # nothing was measured


def test_what_shrinks_is_cut_further() -> None:
    """Half the slice needs a tenth less of the limit; and of slices that are large yet
    nobody knows how much they save, as peaks end at the limit."""
    four = seen(4, peak=int(0.99 * LIMIT))
    assert unsliced(four, seen(2, peak=int(0.94 * LIMIT), failed=True)) is None
    large = seen(64, peak=int(0.99 * LIMIT))
    assert unsliced(large, seen(32, peak=int(0.99 * LIMIT), failed=True)) is None


def test_sizes_far_above_what_failed_say_nothing_of_it() -> None:
    """Peaks of larger slices than failed are no proof of what a smaller one needs."""
    large = seen(64, peak=int(0.99 * LIMIT)), seen(8, peak=int(0.99 * LIMIT))
    assert unsliced(*large, seen(2, failed=True)) is None
    assert unsliced(*large, seen(4, failed=True)) is not None


def test_slices_are_shared_out_evenly() -> None:
    """As many slices as the size asks for, none larger than it has to be."""
    assert balanced(batch=1000, size=528) == 500
    assert balanced(batch=512, size=200) == 171
    assert balanced(batch=10, size=99) == 10
    assert count(batch=10, size=4) == 3
    assert below(2) == 1


sizes = st.integers(1, 5000)
observation = st.builds(
    Observation,
    slice_size=sizes,
    peak_bytes=st.none() | st.integers(0, 2 * LIMIT),
    failed=st.booleans(),
    limit_bytes=st.sampled_from([None, LIMIT, 2 * LIMIT]),
    jit=st.sampled_from([None, True, False]),
    usual_bytes=st.none() | st.integers(0, 2 * LIMIT),
    steps=st.integers(1, 20),
)


@given(st.lists(observation, max_size=6), sizes)
def test_a_plan_is_never_as_large_as_what_failed(
    observations: list[Observation], batch: int
) -> None:
    """No plan reaches a slice that failed under the same limit, nor goes below 1."""
    plan = next_plan(observations, batch=batch)
    if plan is None:
        return
    limit = observations[-1].limit_bytes
    failed = [
        one.slice_size
        for one in observations
        if one.failed and one.limit_bytes in {limit, None}
    ]
    assert plan.slice_size is not None
    assert plan.ceiling is not None
    assert all(plan.ceiling <= size for size in failed)
    assert 1 <= plan.slice_size < plan.ceiling
    assert plan.slices == -(-batch // plan.slice_size)


@given(sizes)
def test_failing_for_ever_ends(batch: int) -> None:
    """If every planned slice fails, the plans end at one sample, soon."""
    observations = [seen(batch, failed=True)]
    for _ in range(20):
        plan = next_plan(observations, batch=batch)
        if plan is None:
            break
        assert plan.slice_size is not None
        observations.append(seen(plan.slice_size, failed=True))
    assert min(one.slice_size for one in observations) == 1


@given(st.lists(observation, max_size=6), sizes)
def test_a_plan_has_room_for_what_was_seen(
    observations: list[Observation], batch: int
) -> None:
    """No size is planned, nor a larger one, whose highest peak is nearer to the limit
    than it is to the usual one, as far as they can be compared."""
    plan = next_plan(observations, batch=batch)
    if plan is None or plan.slice_size is None:
        return
    last = observations[-1]
    for one in observations:
        same = one.limit_bytes == last.limit_bytes and one.jit == last.jit
        if one.peak_bytes is None or one.limit_bytes is None or not same:
            continue
        usual = one.peak_bytes if one.usual_bytes is None else one.usual_bytes
        if 2 * one.peak_bytes - usual > one.limit_bytes:
            assert plan.slice_size < max(2, one.slice_size)


@given(st.lists(observation, max_size=6), sizes, st.integers(0, LIMIT))
def test_more_memory_never_plans_smaller_slices(
    observations: list[Observation], batch: int, more: int
) -> None:
    """The same seen under a larger limit: at least as large a slice, if none measures."""
    small = [replace(one, limit_bytes=LIMIT) for one in observations]
    large = [replace(one, limit_bytes=LIMIT + more) for one in observations]
    one, other = (next_plan(seen, batch=batch) for seen in (small, large))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert one.slice_size is not None
        assert other.slice_size is not None
        assert one.slice_size <= other.slice_size


@given(st.lists(observation, max_size=6), sizes)
def test_what_varies_never_makes_slices_larger(
    observations: list[Observation], batch: int
) -> None:
    """Where nothing varied, in enough steps, the plan is the largest; the line is the
    same."""
    steady = [
        replace(
            one,
            peak_bytes=one.peak_bytes if one.usual_bytes is None else one.usual_bytes,
            steps=ENOUGH_STEPS,
        )
        for one in observations
        if one.peak_bytes is not None
    ]
    varied = [
        replace(one, peak_bytes=max(one.peak_bytes or 0, one.usual_bytes or 0))
        for one in observations
        if one.peak_bytes is not None
    ]
    one, other = (next_plan(seen, batch=batch) for seen in (steady, varied))
    if one is not None and other is not None:
        assert (other.slice_size or 0) <= (one.slice_size or 0)
