"""What a step of a real run needs, by its variables and one peak."""

import json
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.explain_memory import autopsy_paragraph
from supervisor.core.memory.oom_analysis import OomFindings, autopsy_of
from supervisor.core.memory.step_budget import (
    budget_from_json,
    budget_of,
    fixed_bytes,
    sentence,
    too_large,
)
from supervisor.core.memory.step_estimate import MARGIN
from supervisor.wire.records.step_needs import StepNeeds

MIB = 1 << 20
NEEDS = StepNeeds(
    fit=0,
    batch=64,
    slices=1,
    parameters=12 * MIB // 4,
    trained=10 * MIB // 4,
    parameter_bytes=12 * MIB,
    trained_bytes=10 * MIB,
    largest_bytes=4 * MIB,
    optimizer_bytes=20 * MIB,
    optimizer="Adam",
    other_bytes=0,
    limit_bytes=200 * MIB,
    backend="tensorflow",
    array_bytes=6 * MIB,
    batch_bytes=MIB,
    in_use_bytes=40 * MIB,
    peak_bytes=114 * MIB,
)
BEFORE = replace(NEEDS, in_use_bytes=None, peak_bytes=None)
SIZES = st.integers(0, 400 * MIB)


def rows(needs: StepNeeds) -> dict[str, int]:
    """The parts by their names, in MiB."""
    return {one.name: one.bytes // MIB for one in budget_of(needs).parts}


def test_a_peak_in_parts() -> None:
    """What a step adds is gradients as far as the trained weights go, then activations."""
    assert rows(NEEDS) == {
        "parameters": 12,
        "optimizer": 20,
        "gradients": 10,
        "activations": 64,
        "data": 8,
    }
    about = {one.name: one.about for one in budget_of(NEEDS).parts}
    assert about["activations"] == "and workspace, 1.00 MiB a sample"
    assert "not trained" in about["parameters"]


@given(SIZES, SIZES, SIZES, SIZES, SIZES, st.integers(1, 4096), st.integers(1, 8))
def test_the_parts_add_up(  # noqa: PLR0917
    weights: int,
    state: int,
    between: int,
    peak: int,
    arrays: int,
    batch: int,
    slices: int,
) -> None:
    """To the peak, wherever one is told; and a batch that fits is this one, or at most
    twice as many."""
    needs = replace(
        NEEDS,
        parameter_bytes=weights,
        trained_bytes=weights,
        optimizer_bytes=state,
        in_use_bytes=between,
        peak_bytes=peak,
        array_bytes=arrays,
        batch=batch,
        slices=slices,
    )
    found = budget_of(needs)
    assert all(one.bytes >= 0 for one in found.parts)
    if found.peak_bytes is not None:
        assert sum(one.bytes for one in found.parts) == peak
    if found.largest_batch is not None:
        assert slices == 1
        assert batch <= found.largest_batch <= 2 * batch
    assert sentence(found)


@given(st.integers(70, 2000), st.integers(1, 1000))
def test_a_larger_limit_never_lets_fewer_fit(limit: int, more: int) -> None:
    """And what is said to fit leaves the margin of an estimate free."""
    fits = [
        budget_of(replace(NEEDS, limit_bytes=size * MIB)).largest_batch
        for size in (limit, limit + more)
    ]
    assert fits[0] is not None
    assert fits[1] is not None
    assert fits[0] <= fits[1]
    if fits[0] > 64:
        least = 48 * MIB + fits[0] * MIB  # what grows with the batch, and what does not
        assert least <= (1 - MARGIN) * limit * MIB


@pytest.mark.parametrize(
    "changes",
    [
        {"slices": 2},
        {"alike": False},
        {"batch": None},
        {"limit_bytes": None},
        {"peak_bytes": None},
        {"peak_bytes": 40 * MIB},  # no step's: it is what lies between them
        {"in_use_bytes": 30 * MIB},  # less than the variables: of another memory
        {"optimizer_bytes": None},
    ],
)
def test_of_other_batches_nothing_is_said(changes: dict[str, Any]) -> None:
    """Where one size does not tell of them."""
    found = budget_of(replace(NEEDS, **changes))
    assert found.largest_batch is None
    assert "roughly" not in sentence(found)


def test_slices_and_unknown_batches_are_told_so() -> None:
    """What a slice takes is no batch's."""
    sliced = budget_of(replace(NEEDS, slices=2)).parts
    assert "of a slice" in {one.name: one.about for one in sliced}["activations"]
    unknown = budget_of(replace(NEEDS, batch=None)).parts
    assert "sample" not in {one.name: one.about for one in unknown}["activations"]


def test_read_ahead_batches_grow_with_the_batch() -> None:
    """Arrays do not: of two runs that hold the same, that with less of them in arrays has
    the smaller batch that fits."""
    tight = replace(NEEDS, limit_bytes=180 * MIB, in_use_bytes=60 * MIB)
    tight = replace(tight, peak_bytes=134 * MIB, batch_bytes=0)
    arrays = budget_of(replace(tight, array_bytes=28 * MIB)).largest_batch
    streamed = budget_of(replace(tight, array_bytes=0)).largest_batch
    assert arrays is not None
    assert streamed is not None
    assert 64 < streamed < arrays < 128


def test_before_the_first_step() -> None:
    """Only what is counted is told."""
    assert rows(BEFORE) == {"parameters": 12, "optimizer": 20, "gradients": 10}
    assert "activations are not known of 200 MiB" in sentence(budget_of(BEFORE))
    unknown = replace(BEFORE, optimizer_bytes=None, trained=BEFORE.parameters)
    assert set(rows(unknown)) == {"parameters", "gradients"}


def test_one_line() -> None:
    """Of all parts, and of what fits, as far as one size tells."""
    said = sentence(budget_of(NEEDS))
    assert "activations 64 MiB" in said
    assert said.endswith(": 114 MiB of 200 MiB; roughly 128 samples fit")
    more = sentence(budget_of(replace(NEEDS, limit_bytes=900 * MIB)))
    assert more.endswith("roughly 128 samples or more fit")
    tight = sentence(budget_of(replace(NEEDS, limit_bytes=116 * MIB)))
    assert tight.endswith("roughly no larger batch than 64 fits")
    free = sentence(budget_of(replace(NEEDS, limit_bytes=None)))
    assert free.endswith(": 114 MiB")


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        (42, ""),
        (41, "a step fits only where gradients are let go of"),
        (36, "a step fits only where gradients are let go of"),
        (35, "no batch fits"),
        (10, "no batch fits"),
    ],
)
def test_what_no_batch_makes_smaller(limit: int, said: str) -> None:
    """It is sure by the largest gradient; all of them need not be there at once."""
    told = too_large(replace(BEFORE, limit_bytes=limit * MIB))
    assert (said in told) if said else not told
    if told:
        assert f"Adam's state need 42 MiB, and the limit is {limit} MiB" in told


def test_what_is_not_known_is_no_warning() -> None:
    """No limit, or a step was made: it fitted. An optimizer of the script's own keeps at
    least nothing."""
    assert not too_large(replace(BEFORE, limit_bytes=None))
    assert not too_large(replace(NEEDS, limit_bytes=10 * MIB))
    own = replace(BEFORE, optimizer_bytes=None, optimizer="", limit_bytes=10 * MIB)
    assert "the optimizer's state need at least 22 MiB" in too_large(own)
    assert not too_large(replace(own, limit_bytes=30 * MIB))


@pytest.mark.parametrize("needs", [NEEDS, BEFORE])
def test_there_and_back_as_json(needs: StepNeeds) -> None:
    """What a newer version adds is left out."""
    budget = budget_of(needs)
    value = json.loads(json.dumps(asdict(budget)))
    value["newer"] = value["parts"][0]["newer"] = 1
    assert budget_from_json(value) == budget


def test_explain_tells_what_no_batch_changes() -> None:
    """Where it is much of the limit, and of the device's memory only."""
    for limit, cause, told in (
        (60, Cause.DEVICE_OOM, True),
        (200, Cause.DEVICE_OOM, False),
        (60, Cause.HOST_OOM, False),
    ):
        needs = replace(BEFORE, limit_bytes=limit * MIB)
        autopsy = autopsy_of(cause, None, OomFindings(needs=needs))
        assert autopsy is not None
        said = autopsy_paragraph(asdict(autopsy), None)
        assert ("gradients together take 42 MiB of 60 MiB" in said) is told
    assert fixed_bytes(replace(BEFORE, optimizer_bytes=None)) is None
