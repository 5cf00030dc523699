"""The climb to the largest slice that fits: pure arithmetic, no training."""

from collections.abc import Callable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from supervisor.wire.slices import ENOUGH_STEPS, PRIOR, count
from trainers.microbatch.calibration import (
    CALM_PART,
    Need,
    Readings,
    far_below,
    first_trial,
    fits,
    has_place,
    in_doubt,
    is_daring,
    largest,
    needs,
    next_trial,
    settled,
)

LIMIT = 300_000_000
BETWEEN = 25_000_000


def need_of(
    size: int,
    added: int,
    *,
    between: int = BETWEEN,
    highest: int | None = None,
    request: int | None = None,
    most: int = 0,
    steps: int = ENOUGH_STEPS,
) -> Need:
    """What a size needs; each of its steps came as near to the limit, or ``highest``."""
    peak = between + added if highest is None else highest
    return Need(
        size=size,
        between=between,
        added=added,
        highest=peak,
        request=request,
        least=request,
        most=most,
        steps=steps,
    )


def climbed(
    added: Callable[[int], float],
    *,
    batch: int,
    ceiling: int | None = None,
    between: int = BETWEEN,
) -> list[int]:
    """The sizes tried where a slice adds as many bytes; the last is settled with."""
    tried, found = [first_trial(batch=batch, ceiling=ceiling)], list[Need]()
    while True:
        size = tried[-1]
        found.append(need_of(size, int(added(size)), between=between))
        following = next_trial(
            found[-1],
            before=far_below(size, found),
            batch=batch,
            ceiling=ceiling,
            limit_bytes=LIMIT,
        )
        if following is None:
            return tried
        tried.append(following)


def test_the_climb_ends_with_the_fewest_slices_that_fit() -> None:
    """256 samples of 1.4 MB over 25 MB: 181 fit safely, which makes two slices."""
    assert climbed(lambda size: 1.4e6 * size, batch=256) == [8, 16, 32, 64, 128]
    assert climbed(lambda size: 2.2e6 * size, batch=256) == [8, 16, 32, 64, 86]


def test_what_saves_no_slice_is_not_tried() -> None:
    """From 32 of 128 on only 43 would save one, and that is out of reach."""
    before = need_of(16, 100_000_000, between=35_000_000)
    need = need_of(32, 200_000_000, between=35_000_000)
    known = {"batch": 128, "ceiling": 128}
    assert next_trial(need, before=before, **known, limit_bytes=300_000_000) is None
    assert next_trial(need, before=before, **known, limit_bytes=400_000_000) == 43


def test_near_the_limit_nothing_is_tried_only_to_know_more() -> None:
    """What one step needed more than the others counts there."""
    before = need_of(32, 170_000_000, between=50_000_000)
    for highest, following in ((240_000_000, 53), (245_000_000, None)):
        need = need_of(43, 185_000_000, between=50_000_000, highest=highest)
        known = {"batch": 128, "ceiling": 128, "limit_bytes": 300_000_000}
        assert next_trial(need, before=before, **known) == following


def test_one_slice_less_is_tried_where_it_fits_at_the_worst() -> None:
    """2048 samples add at most 100 MB, which 175 MB hold, and more likely 88 MB.

    Measured: an mlp in 180 MiB, whose 2048 fit and which stayed with 1366. Without a
    line that says so, or where it too says more, nothing is tried so near the limit.
    """
    limit, known = 180_000_000, {"batch": 4096, "ceiling": 4096}
    measured = {"between": 67_800_000, "highest": 160_000_000}
    need = need_of(1366, 66_900_000, **measured, request=5_600_000)
    for before, following in (
        (need_of(512, 40_100_000, between=67_800_000), 2048),
        (need_of(512, 20_000_000, between=67_800_000), None),
        (None, None),
    ):
        trial = next_trial(need, before=before, **known, limit_bytes=limit)
        assert trial == following
        assert in_doubt(need, before=None, **known, limit_bytes=limit)
    beyond = need_of(1366, 73_000_000, **measured, request=5_600_000)
    before = need_of(512, 66_000_000, between=67_800_000)
    assert next_trial(beyond, before=before, **known, limit_bytes=limit) is None
    assert not in_doubt(beyond, before=None, **known, limit_bytes=limit)
    assert not in_doubt(need, batch=1366, ceiling=None, limit_bytes=limit)
    assert not in_doubt(need, batch=4096, ceiling=2048, limit_bytes=limit)


def test_what_is_asked_for_in_a_few_pieces_is_not_trusted_so_far() -> None:
    """XLA's largest block may become twice as large: 2048 samples failed twice there.

    Nor is what nobody knows the pieces of.
    """
    limit, known = 180_000_000, {"batch": 4096, "ceiling": 4096}
    before = need_of(512, 40_100_000, between=67_800_000)
    for request in (28_100_000, 55_000_000, None):
        need = need_of(
            1366, 66_900_000, between=67_800_000, highest=160_000_000, request=request
        )
        assert next_trial(need, before=before, **known, limit_bytes=limit) is None
        assert not in_doubt(need, before=None, **known, limit_bytes=limit)


def test_one_block_alone_may_come_near_the_limit() -> None:
    """Measured: a transformer with XLA in 120 MiB, whose 64 samples fit.

    Its step asks for one block, so that line and worst say what is needed; where they
    say too much, or the block is not all there is, nothing is tried.
    """
    known = {"batch": 128, "ceiling": 128, "limit_bytes": 120_000_000}
    before = need_of(16, 24_000_000, between=22_300_000)
    for added, request, following in (
        (63_600_000, 62_500_000, 64),
        (64_500_000, 62_500_000, None),
        (63_600_000, 50_000_000, None),
    ):
        need = need_of(
            43, added, between=22_300_000, highest=120_000_000, request=request
        )
        assert next_trial(need, before=before, **known) == following


def test_a_line_is_drawn_through_sizes_that_are_far_apart() -> None:
    """Where there are none, through those that are as far apart as can be."""
    small, middle, large = (need_of(size, 1) for size in (512, 1024, 1366))
    assert far_below(1366, [large, small, middle]) == small
    assert far_below(2100, [large, small, middle]) == large
    assert far_below(1366, [middle, large]) == middle
    assert far_below(512, [small]) is None


def test_a_large_constant_is_found_out_on_the_way() -> None:
    """Twice the slice never adds more than twice as much, and here hardly more."""
    constant = 100_000_000
    tried = climbed(lambda size: constant + 1e6 * size, batch=100)
    assert tried[-1] == 100
    assert any(50 < size < 100 for size in tried)


def test_the_climb_stops_at_the_whole_batch() -> None:
    """Where everything fits after all, the batch is one slice."""
    assert climbed(lambda size: 1e5 * size, batch=256)[-1] == 256


def test_the_climb_stays_below_what_failed() -> None:
    """A slice that failed is not approached by less than a tenth."""
    assert climbed(lambda size: 1e5 * size, batch=256, ceiling=200)[-1] == 128
    assert climbed(lambda size: 1e5 * size, batch=256, ceiling=2) == [1]


sums = st.lists(
    st.tuples(st.floats(0, 4e8), st.floats(1e4, 1e8)), min_size=1, max_size=4
)
"""Constant and slope of what a step needs at different moments."""


@given(
    sums=sums,
    between=st.integers(0, LIMIT),
    batch=st.integers(2, 5000),
    ceiling=st.none() | st.integers(2, 5000),
)
def test_the_climb_never_overshoots(
    sums: list[tuple[float, float]], between: int, batch: int, ceiling: int | None
) -> None:
    """Whichever moment of a step takes the lead, no size after the first is too large.

    And sizes rise, and there are not many.
    """

    def added(size: int) -> float:
        return max(constant + slope * size for constant, slope in sums)

    tried = climbed(added, batch=batch, ceiling=ceiling, between=between)
    assert all(between + added(size) <= LIMIT for size in tried[1:])
    assert tried == sorted(set(tried))
    assert len(tried) <= 60


@given(slope=st.floats(1e5, 5e6), constant=st.integers(0, LIMIT // 2))
def test_the_climb_comes_near(slope: float, constant: int) -> None:
    """One slice less would need more than all but the part that is kept free.

    Or the last size is near enough to the limit that no more is risked for it.
    """
    room = LIMIT - BETWEEN - constant
    fits = int(room / slope)
    if 40 <= fits < 4000:
        last = climbed(lambda size: constant + slope * size, batch=4000)[-1]
        fewer = -(-4000 // (count(batch=4000, size=last) - 1))
        kept_free = 0.07 * LIMIT + 0.03 * LIMIT + slope
        near = BETWEEN + constant + slope * last > CALM_PART * LIMIT
        assert near or constant + slope * fewer >= room - kept_free


def test_what_lies_between_steps_counts_at_its_most_for_all_sizes() -> None:
    """Prefetched batches come and go; what a step adds counts without its extremes."""

    def read(before: int, peak: int, after: int) -> Readings:
        return Readings(before=before, peak=peak, after=after)

    found = needs(
        {
            8: [read(10, 30, 20), read(20, 50, 10)],
            16: [read(10, 51, 11), read(11, 50, 10), read(30, 90, 12)],
        }
    )
    assert found == [
        Need(size=8, between=30, added=20, highest=50, most=30, steps=2),
        Need(size=16, between=30, added=40, highest=90, most=60, steps=3),
    ]


def test_a_pool_that_is_full_between_steps_ends_the_climb() -> None:
    """Where weights and data leave no room, the first slice is the last."""
    full = need_of(8, 1_000_000, between=LIMIT)
    assert largest(full, limit_bytes=LIMIT) == 0
    assert next_trial(full, batch=64, ceiling=None, limit_bytes=LIMIT) is None
    assert settled([full], limit_bytes=LIMIT) == 8


def test_a_block_that_was_handed_out_whole_is_not_what_was_asked_for() -> None:
    """Twice the samples ask for twice as much at most, though they took the whole pool."""

    def steps(peak: int, request: int) -> list[Readings]:
        return [Readings(before=20, peak=peak, after=20, request=request)]

    small, large = needs({64: steps(160, 134), 32: steps(70, 47)})
    assert (small.size, small.added, small.request) == (32, 50, 47)
    assert (large.added, large.request, large.highest) == (100, 94, 160)
    assert settled([small, large], limit_bytes=160) == 64
    small, large = needs({32: steps(70, 47), 64: steps(110, 90)})
    assert (large.added, large.request) == (90, 90)


def test_what_a_step_got_more_than_others_of_its_size_does_not_count() -> None:
    """Measured, MB: an mlp with XLA in 820 samples, whose 19.3 got blocks of 35.7.

    Where a step asks for many small pieces their largest says nothing about them all.
    """

    def steps(*measured: tuple[int, int]) -> list[Readings]:
        return [
            Readings(before=678, peak=678 + added, after=678, request=request)
            for added, request in measured
        ]

    (need,) = needs({820: steps((454, 193), (659, 357), (617, 357), (454, 227))})
    assert (need.added, need.highest, need.request) == (453, 678 + 659, 357)
    (need,) = needs({820: steps((454, 19), (659, 35), (617, 35), (454, 22))})
    assert need.added == 535
    unknown = Readings(before=678, peak=678 + 900, after=678)
    (need,) = needs({820: [unknown, *steps((454, 193), (659, 357))]})
    assert need.added == 659 - 357 + 193


def test_a_size_waits_for_a_place_in_one_piece() -> None:
    """XLA's block for 171 samples is by no means larger than 171/128 of that for 128.

    It has no place between two batches that lie in the middle of the pool, however much
    is free in all. Where there is no map nothing is known, and nothing waited for.
    """
    need = Need(size=128, between=30, added=170, highest=200, request=169)
    assert not has_place(need, 171, free_bytes=170)
    assert not has_place(need, 171, free_bytes=225)
    assert has_place(need, 171, free_bytes=226)
    assert has_place(need, 171, free_bytes=None)
    blind = Need(size=128, between=30, added=170, highest=200)
    assert has_place(blind, 171, free_bytes=1)


def test_a_block_that_was_too_large_once_is_not_all_that_a_step_adds() -> None:
    """What it had to spare counts neither for the step nor for the block."""
    steps = [
        Readings(before=0, peak=55 + given, after=0, request=given)
        for given in (45, 90, 45, 45)
    ]
    (need,) = needs({8: steps})
    assert (need.added, need.request) == (100, 90)
    assert not need.in_one_piece


def test_the_largest_request_of_any_step_counts() -> None:
    """One step of a size may ask for more than another; not known is not nothing."""
    steps = [Readings(before=1, peak=9, after=1, request=one) for one in (5, 7, None)]
    (need,) = needs({4: steps})
    assert need.request == 7
    (need,) = needs({4: steps[2:]})
    assert need.request is None


def test_a_slice_that_turns_out_tight_is_not_stayed_with() -> None:
    """What needs nearly the whole limit gives way to less, never below the one before."""
    before = need_of(100, 200_000_000, between=0)
    for added, size in ((290_000_000, 140), (297_000_000, 131), (420_000_000, 100)):
        last = need_of(140, added, between=0)
        assert settled([before, last], limit_bytes=LIMIT) == size


# --- room for what varies ---


def test_the_demo_on_a_busy_machine() -> None:
    """Measured, bytes of 280 MiB: 32 samples, two steps; 64 then came to the limit in
    each of four, and memory ran out in the sixth. By the median they had fitted.
    """
    limit = 280 * 2**20
    known = {"batch": 128, "ceiling": 128, "limit_bytes": limit}
    before = need_of(16, 60_000_000, between=34_000_000, steps=2, most=76_000_000)
    need = need_of(32, 115_000_000, between=34_000_000, steps=2, most=115_000_000)
    assert next_trial(need, before=before, **known) == 43
    steady = replace(need, steps=ENOUGH_STEPS)
    assert next_trial(steady, before=before, **known) == 64
    full = need_of(64, 230_000_000, between=34_000_000, steps=4, most=259_000_000)
    assert not fits(full, limit_bytes=limit)
    assert settled([before, steady, full], limit_bytes=limit) < 64


def test_few_steps_leave_in_doubt_what_more_of_them_may_show() -> None:
    """By the prior 86 samples may need more than there is; measured they may not."""
    need = need_of(64, 150_000_000, steps=4, most=150_000_000)
    known = {"batch": 256, "ceiling": 256, "limit_bytes": LIMIT}
    assert next_trial(need, before=None, **known) != 86
    assert in_doubt(need, batch=256, ceiling=256, limit_bytes=LIMIT)
    seasoned = replace(need, steps=ENOUGH_STEPS)
    assert next_trial(seasoned, before=None, **known) == 86
    varied = replace(seasoned, most=200_000_000)
    assert not in_doubt(varied, batch=256, ceiling=256, limit_bytes=LIMIT)


def test_a_size_is_left_where_its_own_steps_vary_too_much() -> None:
    """For the largest below it that fits: not for the next one, if that varies, too."""
    small = need_of(16, 60_000_000)
    middle = need_of(32, 120_000_000)
    large = need_of(64, 200_000_000, most=245_000_000)
    assert not fits(large, limit_bytes=LIMIT)
    assert 32 <= settled([small, middle, large], limit_bytes=LIMIT) < 64
    wild = replace(middle, most=240_000_000)
    assert settled([small, wild, large], limit_bytes=LIMIT) == 16
    assert settled([wild, large], limit_bytes=LIMIT) == 32
    assert settled([large], limit_bytes=LIMIT) == 64


def test_between_two_sizes_what_a_step_needs_lies_below_a_line() -> None:
    """Half the slice needs 200 MB of 290, not 145: 46 samples then, not 60."""
    lower = need_of(32, 200_000_000, between=0)
    upper = need_of(64, 297_000_000, between=0)
    size = settled([lower, upper], limit_bytes=LIMIT)
    assert size == 32 + int(32 * 79 / 97)
    assert 200e6 + 97e6 * (size - 32) / 32 <= LIMIT


bytes_added = st.integers(1, LIMIT)
varied_needs = st.builds(
    need_of,
    st.integers(1, 2000),
    bytes_added,
    between=st.integers(0, LIMIT),
    highest=st.integers(0, LIMIT),
    request=st.none() | bytes_added,
    most=bytes_added,
    steps=st.integers(1, 20),
)


@given(
    need=varied_needs,
    batch=st.integers(2, 4000),
    ceiling=st.none() | st.integers(2, 4000),
    more=st.integers(0, LIMIT),
)
def test_a_trial_has_room_for_what_varied(
    need: Need, batch: int, ceiling: int | None, more: int
) -> None:
    """The worst that was seen, in proportion, stays below the limit; so does a size that
    failed; more memory is never a smaller trial; and steps that do not vary allow most.
    """
    steady = replace(need, most=0, steps=ENOUGH_STEPS)
    trial, calm, roomy = (
        next_trial(one, batch=batch, ceiling=ceiling, limit_bytes=limit)
        for one, limit in ((need, LIMIT), (steady, LIMIT), (need, LIMIT + more))
    )
    if trial is not None:
        assert need.between + need.worst * trial / need.size <= LIMIT
        assert ceiling is None or trial < max(2, ceiling)
        assert roomy is not None
        assert roomy >= trial
        assert calm is not None
        assert calm >= trial


@given(st.lists(varied_needs, min_size=1, max_size=5, unique_by=lambda one: one.size))
def test_what_is_settled_with_has_room(found: list[Need]) -> None:
    """A size that was tried is stayed with if it fits; else a smaller one that does, or
    one between them. Only where none fits the smallest stays."""
    found = sorted(found, key=lambda one: one.size)
    size = settled(found, limit_bytes=LIMIT)
    fitting = [one.size for one in found if fits(one, limit_bytes=LIMIT)]
    assert found[0].size <= size <= found[-1].size
    assert size >= max(fitting, default=0)
    if not fitting:
        assert size == found[0].size
    tried = [one for one in found if one.size == size]
    assert not tried or not fitting or fits(tried[0], limit_bytes=LIMIT)


def test_the_prior_holds_for_few_steps_only() -> None:
    """From a dozen on, what was seen counts: twice what lies above the median."""
    need = need_of(8, 100, most=110, steps=2)
    assert need.worst == PRIOR * 100
    assert replace(need, steps=ENOUGH_STEPS).worst == 120
    assert replace(need, most=130).worst == 160
    assert replace(need, request=95, least=95).worst == 100  # one block, and no more


def test_what_might_not_fit_is_daring() -> None:
    """It begins from a snapshot: 32 samples of 3 MB are certain in 300 MB, 64 are not."""
    need = need_of(16, 48_000_000)
    assert not is_daring(need, 32, limit_bytes=LIMIT)
    assert is_daring(need, 64, limit_bytes=LIMIT)
    assert is_daring(replace(need, steps=2), 32, limit_bytes=LIMIT - 35_000_000)
