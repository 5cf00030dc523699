"""What is said of a batch of any size, by a few that were tried."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.memory.step_estimate import (
    COMMON_GPUS_GIB,
    ENOUGH_STEPS,
    MARGIN,
    READ_AHEAD_BATCHES,
    StepEstimate,
    fit_into,
    fit_into_common,
    largest_fitting,
    parts,
)
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory

MIB = 2**20
MODEL = ModelMemory(
    batch=64,
    batch_bytes=64 * 1000,
    parameters=1100,
    trained=1000,
    parameter_bytes=4400,
    trained_bytes=4000,
    optimizer_bytes=8000,
    optimizer="Adam",
    other_bytes=12,
    data_bytes=5000,
    drawn_bytes=3 * 64 * 1000,
    jit=False,
    jit_possible=True,
    backend="tensorflow",
)


def tried(size: int, added: int) -> StepMemory:
    """Steps of one size, all alike."""
    return StepMemory(
        size=size,
        added_bytes=added,
        least_bytes=added,
        step_seconds=0.1,
        first_seconds=1.0,
    )


def estimate(*sizes: tuple[int, int], model: ModelMemory = MODEL) -> StepEstimate:
    """By what each size added."""
    return StepEstimate(model=model, steps=tuple(tried(*one) for one in sizes))


LINE = estimate((4, 14_000), (16, 26_000), (64, 74_000))
"""10,000 bytes, and 1,000 a sample."""

sums = st.lists(
    st.tuples(st.integers(0, 10 * MIB), st.integers(0, MIB)), min_size=1, max_size=4
)
"""(constant, slope) each: forward, backward, the update."""


@given(sums=sums, first=st.integers(1, 64), batch=st.integers(1, 5000))
def test_what_steps_add_is_never_said_to_be_more_beyond(
    sums: list[tuple[int, int]], first: int, batch: int
) -> None:
    """A step is the highest of several sums: beyond the largest size the line is no more
    than the truth, and by a quarter of the batch it is at least a quarter of it."""

    def added(size: int) -> int:
        return max(constant + slope * size for constant, slope in sums)

    found = estimate(*((size, added(size)) for size in (first, 4 * first)))
    assert found.added(4 * first) == added(4 * first)
    beyond = 4 * first + batch
    assert found.added(beyond) <= added(beyond) + 1
    assert found.added(16 * first) >= added(16 * first) // 4


@given(
    sizes=st.lists(st.tuples(st.integers(1, 999), st.integers(0, MIB)), min_size=2),
    batch=st.integers(1, 2000),
)
def test_rows_add_up_to_the_peak(sizes: list[tuple[int, int]], batch: int) -> None:
    """Whatever was measured, and none of them is below zero."""
    found = estimate(*sorted(dict(sizes).items()))
    rows = parts(found, batch)
    assert sum(row.bytes for row in rows) == found.peak(batch)
    assert all(row.bytes >= 0 for row in rows)


@given(limit=st.integers(1, 10**9), slope=st.integers(0, 10**6))
def test_the_largest_batch_that_fits(limit: int, slope: int) -> None:
    """It fits, with the margin, and one more does not."""
    found = estimate((4, 4 * slope), (64, 64 * slope))
    room = int((1 - MARGIN) * limit)
    largest = largest_fitting(found.peak, limit_bytes=limit, start=64)
    assert largest == 0 or found.peak(largest) <= room
    assert found.peak(largest + 1) > room


def test_what_was_tried_needs_what_was_seen() -> None:
    """A size that was tried is not estimated; others lie on the line."""
    assert [LINE.added(size) for size in (4, 16, 64)] == [14_000, 26_000, 74_000]
    assert [LINE.added(size) for size in (1, 10, 40, 100)] == [
        11_000,
        20_000,
        50_000,
        110_000,
    ]
    assert LINE.slope == 1000
    assert LINE.measured_batch == 64


def test_few_steps_of_a_large_size_do_not_count_against_many_of_smaller_ones() -> None:
    """What a step adds bends upwards: the line through smaller sizes is the least."""
    found = estimate((4, 14_000), (16, 26_000), (64, 70_000))
    assert found.added(64) == 74_000
    assert found.slope == 1000
    assert estimate((4, 14_000), (16, 26_000), (64, 80_000)).added(64) == 80_000


def test_many_steps_say_what_their_size_needs() -> None:
    """Buffers of a fixed size: one of them at 4 samples, two at 16 and at 64. A line through
    the smaller sizes would lead anywhere."""
    few = estimate((4, 18 * MIB), (16, 36 * MIB), (64, 39 * MIB))
    assert few.added(64) == 108 * MIB
    last = replace(few.steps[-1], steps=ENOUGH_STEPS)
    many = replace(few, steps=(*few.steps[:-1], last))
    assert many.added(64) == 39 * MIB
    assert many.added(128) == 43 * MIB


def test_the_peak_is_the_sum_of_what_is_there() -> None:
    """Variables, data, what is read ahead, and the step."""
    assert LINE.peak(64) == 4400 + 8000 + 12 + 5000 + 192_000 + 74_000
    assert LINE.device_peak(64) == 4400 + 8000 + 12 + 64_000 + 74_000
    assert LINE.peak(128) == LINE.peak(64) + 192_000 + 64_000


def test_the_buffer_of_a_shuffle_does_not_grow_with_the_batch() -> None:
    """Only the batch in work does."""
    many = 2 * READ_AHEAD_BATCHES * MODEL.batch_bytes
    found = estimate((4, 4), (64, 64), model=replace(MODEL, drawn_bytes=many))
    assert found.drawn(128) == many + 64_000
    assert found.drawn(64) == many


def test_rows_by_name() -> None:
    """Gradients are taken for the part of the constant that they may have."""
    rows = {row.name: row for row in parts(LINE, 64)}
    assert rows["activations"].bytes == 64_000
    assert rows["gradients"].bytes == 4000
    assert rows["workspace"].bytes == 6000
    assert rows["parameters"].about == "1,100 numbers, 100 of them not trained"
    all_trained = estimate(
        (4, 4 * MIB), (64, 64 * MIB), model=replace(MODEL, trained=1100)
    )
    rows = {row.name: row for row in parts(all_trained, 64)}
    assert rows["parameters"].about == "1,100 numbers"
    assert rows["activations"].about == "1.00 MiB a sample"


def test_one_size_says_nothing_of_others() -> None:
    """A batch that cannot be cut: its peak, and no other batch."""
    found = estimate((64, 74_000))
    assert not found.scales
    assert found.added(64) == found.added(3) == 74_000
    rows = {row.name: row.bytes for row in parts(found, 64)}
    assert rows["activations"] == 70_000
    told = fit_into(found, 64, where="limit", limit_bytes=1000)
    assert (told.fits, told.largest_batch, told.slices) == (False, None, None)


@pytest.mark.parametrize(
    ("limit", "fits", "largest", "slices"),
    [
        (400_000, True, 82, 1),
        (280_000, False, 56, 3),
        (252_000, False, 49, None),
        (237_000, False, 46, None),
        (17_000, False, 0, None),
    ],
)
def test_where_it_fits(
    limit: int, *, fits: bool, largest: int, slices: int | None
) -> None:
    """The largest batch, and the slices of this one: what is read ahead stays whole, and
    the gradients of slices are added up beside it."""
    told = fit_into(LINE, 64, where="limit", limit_bytes=limit)
    assert (told.fits, told.largest_batch, told.slices) == (fits, largest, slices)
    assert told.need_bytes == LINE.peak(64)


def test_slices_are_counted_as_a_run_takes_them() -> None:
    """With both sums of the gradients beside them, and room for how steps vary. XLA's
    analysis does not vary."""
    small = replace(MODEL, batch_bytes=0, drawn_bytes=0, data_bytes=0)
    line = replace(LINE, model=small)
    fixed = line.weights + 2 * small.trained_bytes
    limit = int((fixed + 1.4 * line.added(32)) / 0.98) + 100
    assert fit_into(line, 64, where="limit", limit_bytes=limit).slices == 2
    less = limit - 2000
    assert fit_into(line, 64, where="limit", limit_bytes=less).slices == 3
    on_jax = replace(line, model=replace(small, backend="jax"))
    assert fit_into(on_jax, 64, where="limit", limit_bytes=less).slices == 2


def test_on_a_gpu_the_data_do_not_count() -> None:
    """They stay in main memory, but for the batch in work."""
    told = fit_into(LINE, 64, where="GPU 0", limit_bytes=170_000, device=True)
    assert told.fits
    assert not fit_into(LINE, 64, where="limit", limit_bytes=170_000).fits


def test_a_model_without_activations_fits_whatever_the_batch() -> None:
    """There is an end to the search."""
    flat = estimate(
        (4, 10), (64, 10), model=replace(MODEL, batch_bytes=0, drawn_bytes=0)
    )
    assert largest_fitting(flat.peak, limit_bytes=MIB, start=64) > 2**31


def test_a_line_through_workspace_is_not_followed_far() -> None:
    """Readings that hardly differ say nothing of a batch many times as large, nor of one
    below the smallest."""
    noise = estimate((8, 3_000_000), (32, 3_000_100))
    told = fit_into(noise, 32, where="limit", limit_bytes=100 * MIB)
    assert (told.largest_batch, told.or_more) == (64, True)
    asked = fit_into(noise, 200, where="limit", limit_bytes=100 * MIB)
    assert (asked.largest_batch, asked.or_more) == (200, True)
    less = fit_into(noise, 32, where="limit", limit_bytes=3_200_000)
    assert (less.fits, less.largest_batch, less.slices) == (False, None, None)
    rows = {row.name: row.about for row in parts(estimate((8, 10), (32, 10)), 32)}
    assert "not told apart" in rows["activations"]


def test_gpus_of_the_usual_sizes() -> None:
    """The smallest first; what fits into one fits into all larger ones."""
    found = fit_into_common(estimate((8, 8 * 2**30), (16, 16 * 2**30)), 16)
    assert [one.where for one in found] == [
        f"a GPU of {size} GiB" for size in COMMON_GPUS_GIB
    ]
    fits = [one.fits for one in found]
    assert fits == sorted(fits)
    assert set(fits) == {False, True}


@given(sums=sums, first=st.integers(1, 64), batch=st.integers(1, 5000))
def test_a_line_that_carries_says_how_far_it_may_be_off(
    sums: list[tuple[int, int]], first: int, batch: int
) -> None:
    """Beyond what was tried a step adds no less than the line says, and no more than its
    share: where sizes differ little, the whole of that may be missing."""

    def added(size: int) -> int:
        return max(constant + slope * size for constant, slope in sums)

    found = estimate(*((size, added(size)) for size in (first, 4 * first)))
    beyond = 4 * first + batch
    assert found.too_high(beyond) <= 1
    share = added(4 * first) * beyond // (4 * first)
    assert 0 <= found.too_low(beyond) <= max(share - found.added(beyond), 0)
    if found.slope * 4 * first < added(4 * first) / 2:
        assert added(beyond) <= found.added(beyond) + found.too_low(beyond) + 1
    assert found.too_low(4 * first) == found.too_high(first) == 0


def test_a_line_through_readings_that_differ_says_so() -> None:
    """As on a busy machine: steps of 8 added 33 to 51 MiB, the whole batch of 128 added 87,
    115 in all. One estimate had taken it for 126, and another for 194."""
    model = replace(
        MODEL, batch=128, batch_bytes=3 * MIB, data_bytes=14 * MIB, drawn_bytes=14 * MIB
    )

    def seen(*sizes: tuple[int, int, int]) -> StepEstimate:
        return StepEstimate(
            model=model,
            steps=tuple(
                replace(tried(size, most * MIB), least_bytes=least * MIB)
                for size, most, least in sizes
            ),
        )

    real = 115 * MIB
    for found in (seen((8, 51, 33), (32, 61, 43)), seen((8, 34, 33), (32, 61, 43))):
        peak = found.peak(128)
        assert not found.is_measured(128)
        assert peak - found.too_high(128) <= real <= peak + found.too_low(128)
        told = fit_into(found, 128, where="limit", limit_bytes=130 * MIB)
        assert (told.fits, told.may_fit) == (False, True)
        assert (told.least_bytes, told.most_bytes) == (
            peak - found.too_high(128),
            peak + found.too_low(128),
        )
        too_small = fit_into(found, 128, where="limit", limit_bytes=60 * MIB)
        assert (too_small.fits, too_small.may_fit) == (False, False)
        plenty = fit_into(found, 128, where="limit", limit_bytes=400 * MIB)
        assert (plenty.fits, plenty.may_fit) == (True, False)
    whole = seen((8, 51, 33), (32, 43, 43), (128, 87, 86))
    assert whole.is_measured(128)
    told = fit_into(whole, 128, where="limit", limit_bytes=real)
    assert (told.fits, told.may_fit, told.most_bytes) == (False, False, None)


def test_slices_of_a_batch_that_was_not_measured_are_counted_with_a_margin() -> None:
    """Sizes of which a few steps were tried say as little of a slice as of the batch."""
    small = replace(MODEL, batch_bytes=0, drawn_bytes=0, data_bytes=0)
    line = replace(LINE, model=small)
    fixed = line.weights + 2 * small.trained_bytes
    limit = int((fixed + 1.4 * line.added(32)) / 0.98) + 100
    assert fit_into(line, 64, where="limit", limit_bytes=limit).slices == 2
    slices = fit_into(line, 128, where="limit", limit_bytes=limit).slices
    assert slices is not None
    assert -(-128 // slices) < 32
