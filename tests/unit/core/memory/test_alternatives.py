"""What there is to try of a script, and what makes no sense for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.alternatives import (
    AXES,
    MIXED_BFLOAT16,
    OFF,
    Alternative,
    AlternativeAxis,
    combined,
    of_slices,
    size_of_slice,
    slices_in,
    title_of,
    to_try,
)
from supervisor.wire.records.trial_records import TrialFit
from supervisor.wire.slices import count

MIB = 2**20
FIT = TrialFit(
    batch=64,
    pass_steps=100,
    backend="tensorflow",
    device="GPU",
    precision="float32",
    loss_scaling=False,
    jit=False,
    jit_possible=True,
    own_step=False,
    optimizer="Adam",
    optimizer_bytes=20 * MIB,
    weights_bytes=10 * MIB,
    steps_per_execution=1,
    recomputed=0,
    not_recomputed=0,
)
JIT = Alternative(axis=AlternativeAxis.JIT, value="on")
BFLOAT16 = Alternative(axis=AlternativeAxis.PRECISION, value=MIXED_BFLOAT16)


def test_all_is_tried_where_nothing_stands_against_it() -> None:
    """Of every axis but slices, which are planned one after another."""
    tried, left = to_try(FIT, 100 * MIB)
    assert {one.axis for one in tried} == set(AlternativeAxis) - {
        AlternativeAxis.SLICES
    }
    assert not left


@pytest.mark.parametrize(
    ("fit", "peak", "axis", "word"),
    [
        (replace(FIT, device="CPU"), None, AlternativeAxis.ALLOCATOR, "on the CPU"),
        (
            replace(FIT, jit_possible=False),
            None,
            AlternativeAxis.JIT,
            "does not compile",
        ),
        (
            replace(FIT, precision=MIXED_BFLOAT16),
            None,
            AlternativeAxis.PRECISION,
            "already",
        ),
        (
            replace(FIT, pass_steps=3),
            None,
            AlternativeAxis.STEPS_PER_EXECUTION,
            "only 3 steps",
        ),
        (
            replace(FIT, steps_per_execution=8),
            None,
            AlternativeAxis.STEPS_PER_EXECUTION,
            "8 st",
        ),
        (replace(FIT, own_step=True), None, AlternativeAxis.OPTIMIZER, "not known"),
        (
            replace(FIT, optimizer="SGD"),
            None,
            AlternativeAxis.OPTIMIZER,
            "little already",
        ),
        (FIT, 1000 * MIB, AlternativeAxis.OPTIMIZER, "less than 3%"),
    ],
)
def test_what_makes_no_sense_is_left_out_with_its_reason(
    fit: TrialFit, peak: int | None, axis: AlternativeAxis, word: str
) -> None:
    """And all else is tried."""
    tried, left = to_try(fit, peak)
    assert {one.alternative.axis for one in left} == {axis}
    assert all(word in one.because for one in left)
    assert len(tried) + len(left) == len(to_try(FIT, None)[0])


def test_a_compiled_step_is_tried_without_xla() -> None:
    """Whatever Keras would do by itself."""
    tried, _ = to_try(replace(FIT, jit=True, jit_possible=False), None)
    assert Alternative(axis=AlternativeAxis.JIT, value=OFF) in tried


def test_a_combination_has_one_of_each_axis() -> None:
    """In one order, however it was put together."""
    assert combined([JIT, of_slices(4)]) == combined([of_slices(4), JIT])
    assert title_of(combined([JIT, of_slices(4)])) == "4 slices + jit_compile on"
    assert title_of(()) == "as it is"
    assert slices_in((JIT,)) == 1
    assert slices_in((of_slices(4), JIT)) == 4
    with pytest.raises(ValueError, match="one alternative of each axis"):
        combined([of_slices(2), of_slices(4)])


@given(st.integers(1, 10_000), st.integers(1, 64))
def test_a_size_of_a_slice_makes_as_many_slices_as_were_asked_for(
    batch: int, slices: int
) -> None:
    """Or there is none."""
    size = size_of_slice(batch, slices)
    if size is not None:
        assert count(batch=batch, size=size) == slices


def test_what_a_spec_can_do_is_a_key_of_it() -> None:
    """The value that is tried is one that the key takes."""
    values = {AlternativeAxis.SLICES: 16, AlternativeAxis.PRECISION: MIXED_BFLOAT16}
    for axis, facts in AXES.items():
        if facts.spec is not None:
            table, _, key = facts.spec.partition(".")
            value = values.get(axis, "x" if table == "environment" else True)
            build_spec({"script": "train.py", table: {key: value}})
    assert BFLOAT16.title == MIXED_BFLOAT16
