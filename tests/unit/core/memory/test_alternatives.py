"""What there is to try of a script, and what makes no sense for it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.alternatives import (
    AUTOTUNE,
    AXES,
    MIXED_BFLOAT16,
    OFF,
    TUNED,
    Alternative,
    AlternativeAxis,
    combined,
    has,
    of_slices,
    read_ahead_of,
    size_of_slice,
    slices_in,
    title_of,
    to_try,
    variables_of,
)
from supervisor.wire.records.trial_records import TrialFit
from supervisor.wire.slices import count
from tests.support.advice import FIT as OF_CPU

MIB = 2**20
FIT = replace(
    OF_CPU,
    batch=64,
    pass_steps=100,
    device="GPU",
    optimizer_bytes=20 * MIB,
    weights_bytes=10 * MIB,
    jit=True,
    read_ahead=0,
    lone_maps=1,
    cache_place="before shuffle",
    array_bytes=50 * MIB,
    sizes="images",
    convolutions=3,
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
        (replace(FIT, array_bytes=0), None, AlternativeAxis.ARRAYS, "no arrays"),
        (replace(FIT, array_bytes=MIB), 100 * MIB, AlternativeAxis.ARRAYS, "small"),
        (
            replace(FIT, read_ahead=None),
            None,
            AlternativeAxis.READ_AHEAD,
            "no pipeline",
        ),
        (replace(FIT, read_ahead=8), None, AlternativeAxis.READ_AHEAD, "main memory"),
        (replace(FIT, lone_maps=0), None, AlternativeAxis.MAPS, "no map"),
        (replace(FIT, cache_place=""), None, AlternativeAxis.CACHE, "the same"),
        (replace(FIT, sizes=""), None, AlternativeAxis.SIZE, "does not say"),
        (
            replace(FIT, xla_flags="--x"),
            None,
            AlternativeAxis.XLA_AUTOTUNE,
            "set already",
        ),
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


def test_what_only_a_gpu_has_is_not_tried_on_a_cpu() -> None:
    """The allocator is told, as before; settings of a few scripts are not."""
    _, left = to_try(replace(FIT, device="CPU"), None)
    told = {one.alternative.axis: one for one in left}
    assert set(told) == {
        AlternativeAxis.ALLOCATOR,
        AlternativeAxis.CUDNN_AUTOTUNE,
        AlternativeAxis.CUDNN_WORKSPACE,
        AlternativeAxis.XLA_AUTOTUNE,
    }
    assert all("on the CPU" in one.because for one in left)
    assert [axis for axis, one in told.items() if one.unasked] == [
        AlternativeAxis.ALLOCATOR
    ]


@pytest.mark.parametrize(
    ("fit", "axes"),
    [
        (
            replace(FIT, jit=False, jit_possible=False),
            {AlternativeAxis.JIT, AlternativeAxis.XLA_AUTOTUNE},
        ),
        (
            replace(FIT, convolutions=0),
            {AlternativeAxis.CUDNN_AUTOTUNE, AlternativeAxis.CUDNN_WORKSPACE},
        ),
    ],
)
def test_a_setting_is_tried_where_something_uses_it(
    fit: TrialFit, axes: set[AlternativeAxis]
) -> None:
    """XLA's where it compiles, those of cuDNN for convolutions."""
    _, left = to_try(fit, None)
    assert {one.alternative.axis for one in left} == axes


@pytest.mark.parametrize(
    ("there", "tried", "batches"),
    [(0, AUTOTUNE, TUNED), (1, AUTOTUNE, TUNED), (8, "1", 1), (TUNED, "1", 1)],
)
def test_less_is_read_ahead_or_as_much_as_is_right(
    there: int, tried: str, batches: int
) -> None:
    """By what the script says."""
    found, _ = to_try(replace(FIT, device="CPU", read_ahead=there), None)
    one = Alternative(axis=AlternativeAxis.READ_AHEAD, value=tried)
    assert one in found
    assert read_ahead_of((JIT, one)) == batches
    assert read_ahead_of((JIT,)) is None


def test_a_model_of_one_size_is_told_which() -> None:
    """To who did not ask, too: somebody may think of smaller images."""
    fit = replace(FIT, sizes="", fixed_size="images of 128 x 96")
    _, (left,) = to_try(fit, None)
    assert (left.alternative.axis, left.unasked) == (AlternativeAxis.SIZE, True)
    assert left.because == "the model is built for images of 128 x 96 alone"


def test_variables_of_a_combination() -> None:
    """By their names; what is none is left out."""
    workspace = Alternative(axis=AlternativeAxis.CUDNN_WORKSPACE, value="64")
    assert variables_of((JIT, workspace)) == {"TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "64"}
    assert has((JIT, workspace), AlternativeAxis.JIT)
    assert not has((JIT,), AlternativeAxis.SLICES)


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
