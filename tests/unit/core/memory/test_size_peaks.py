"""What an attempt saw of each size, from its news to the planner."""

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.lifecycle.events import ProgressReported
from supervisor.core.memory.fit_memory import SizePeaks, noted
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.microbatch_planner import Observation, next_plan
from supervisor.core.remediation.observations import observations
from tests.support.lives import happen, running

LIMIT = 300_000_000


def peaks(size: int, usual: int, highest: int, steps: int = 1) -> SizePeaks:
    """What so many steps of a size needed."""
    return SizePeaks(
        slice_size=size, usual_bytes=usual, highest_bytes=highest, steps=steps
    )


def test_measurements_of_one_size_are_put_together() -> None:
    """The lowest of what is usual, the highest of all, and all steps."""
    known = noted(noted((), peaks(8, 50, 60, 4)), peaks(4, 30, 31, 2))
    assert noted(known, peaks(8, 45, 55, 2)) == (
        peaks(4, 30, 31, 2),
        peaks(8, 45, 60, 6),
    )


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 99), st.integers(1, 99))))
def test_nothing_that_was_seen_is_forgotten(seen: list[tuple[int, int, int]]) -> None:
    """Whatever comes after: the highest and the lowest of each size stay."""
    known: tuple[SizePeaks, ...] = ()
    for size, usual, highest in seen:
        known = noted(known, peaks(size, usual, highest))
    for size, usual, highest in seen:
        (one,) = [one for one in known if one.slice_size == size]
        assert one.usual_bytes <= usual
        assert one.highest_bytes >= highest
    assert sum(one.steps for one in known) == len(seen)


def test_an_attempt_keeps_the_peaks_of_each_size() -> None:
    """Not only that of the newest: the planner draws its line through several."""
    run, _ = running(
        ProgressReported(batch=64),
        ProgressReported(slice_size=4, peak_bytes=60, usual_bytes=50, peak_steps=2),
        ProgressReported(slice_size=8, peak_bytes=90, usual_bytes=80, peak_steps=4),
        ProgressReported(slice_size=8, peak_bytes=95),
    )
    assert run.history.last is not None
    assert run.history.last.peaks == (peaks(4, 50, 60, 2), peaks(8, 80, 95, 5))


def test_a_peak_of_nobody_knows_what_is_not_kept() -> None:
    """Neither before an attempt, nor before its batch is known; then it is the batch."""
    run, _ = running(ProgressReported(peak_bytes=60))
    assert run.history.last is not None
    assert run.history.last.peaks == ()
    run, _ = happen(run, ProgressReported(batch=64), ProgressReported(peak_bytes=70))
    assert run.history.last is not None
    assert run.history.last.peaks == (peaks(64, 70, 70),)


def climbed(*seen: SizePeaks, last: int, cause: Cause | None) -> History:
    """An attempt that measured these sizes, and ended with ``last``."""
    attempt = AttemptHistory(
        number=1, cause=cause, batch=64, slice_size=last, peaks=seen,
        peak_bytes=seen[-1].highest_bytes if seen else None, limit_bytes=LIMIT,
    )  # fmt: skip
    return History(attempts=(attempt,))


def test_the_size_that_failed_is_not_given_the_peak_of_the_one_before() -> None:
    """Memory ran out in the first step of 16 samples: what was seen was seen of 8."""
    history = climbed(
        peaks(4, 50, 60, 2), peaks(8, 80, 90, 4), last=16, cause=Cause.DEVICE_OOM
    )
    *measured, failed = observations(history)
    assert [(one.slice_size, one.peak_bytes, one.failed) for one in measured] == [
        (4, 60, False),
        (8, 90, False),
    ]
    assert (failed.slice_size, failed.peak_bytes, failed.failed) == (16, None, True)


def test_the_size_that_an_attempt_ended_with_comes_last() -> None:
    """It is that which failed, or not; of an old row nothing but one peak is known."""
    history = climbed(peaks(4, 50, 60, 2), peaks(8, 80, 90, 4), last=4, cause=None)
    assert [one.slice_size for one in observations(history)] == [8, 4]
    old = climbed(last=4, cause=Cause.DEVICE_OOM)
    old = old.updated(peak_bytes=70)
    assert observations(old) == (
        Observation(
            slice_size=4, peak_bytes=70, failed=True, limit_bytes=LIMIT, jit=None
        ),
    )


def test_after_a_climb_that_failed_nothing_is_measured_again() -> None:
    """The sizes that it went through are known; the largest of them with room is taken."""
    history = climbed(
        peaks(2, 50_000_000, 52_000_000, 2),
        peaks(8, 100_000_000, 104_000_000, 4),
        last=16,
        cause=Cause.DEVICE_OOM,
    )
    plan = next_plan(observations(history), batch=64)
    assert plan is not None
    assert (plan.slice_size, plan.calibrate, plan.ceiling) == (8, False, 16)
