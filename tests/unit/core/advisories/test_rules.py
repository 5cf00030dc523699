"""Each rule tells just above its threshold, and says nothing just below."""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.advisories import compile_rules, input_rules
from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.advisories.gpu_evidence import GpuEvidence
from supervisor.core.advisories.rules import RULES, advise, followed
from supervisor.core.advisories.run_evidence import RunEvidence
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.step_evidence import StepEvidence

HEALTHY = StepEvidence(
    fit=0,
    steps=1000,
    seconds=100.0,
    data_steps=1000,
    data_seconds=100.0,
    wait_seconds=1.0,
    traced_steps=2,
    trace_seconds=1.0,
    float64_operations=0,
    products=10,
)
WIDE = input_rules.WIDE_BYTES
Judge = Callable[[RunEvidence], Advisory | None]


def kinds(evidence: RunEvidence) -> set[AdvisoryKind]:
    """What is told of it."""
    return {one.kind for one in advise(evidence)}


def of(**changes: object) -> set[AdvisoryKind]:
    """What is told of healthy steps, but for these."""
    return kinds(RunEvidence(steps=replace(HEALTHY, **changes)))  # type: ignore[arg-type]


def test_nothing_is_told_of_healthy_steps_nor_of_none() -> None:
    """No evidence is no advice."""
    assert of() == set()
    assert kinds(RunEvidence()) == set()
    nothing = StepEvidence(fit=None, steps=0, seconds=0.0)
    assert kinds(RunEvidence(steps=nothing)) == set()


THRESHOLDS = [
    ("input_bound", {"wait_seconds": 25.0}, {"wait_seconds": 24.9}),
    (
        "input_bound",
        {"wait_seconds": 50.0, "seconds": 10.0},
        {"wait_seconds": 50.0, "seconds": 9.9},
    ),
    (
        "input_bound",
        {"wait_seconds": 50.0, "data_steps": 32},
        {"wait_seconds": 50.0, "data_steps": 31},
    ),
    (
        "input_bound",
        {"wait_seconds": 50.0},
        {"wait_seconds": 50.0, "in_memory": True},
    ),
    ("retracing", {"traced_steps": 500}, {"traced_steps": 499}),
    (
        "retracing",
        {"traced_steps": 10, "steps": 10},
        {"traced_steps": 9, "steps": 9},
    ),
    ("float64", {"float64_operations": 1}, {"float64_operations": 0}),
    (
        "slow_writes",
        {"write_looks": 20, "writing_looks": 5},
        {"write_looks": 19, "writing_looks": 5},
    ),
    (
        "slow_writes",
        {"write_looks": 100, "writing_looks": 25, "written_file": "/nfs/log.csv"},
        {"write_looks": 100, "writing_looks": 24},
    ),
    (
        "converted_inputs",
        {"wide_input_bytes": WIDE},
        {"wide_input_bytes": WIDE - 1},
    ),
]


@pytest.mark.parametrize(("kind", "above", "below"), THRESHOLDS)
def test_just_above_and_just_below(
    kind: str, above: dict[str, object], below: dict[str, object]
) -> None:
    """At its threshold it is told, below it is not."""
    assert of(**above) == {kind}
    assert of(**below) == set()


@given(part=st.floats(0.0, 1.0), seconds=st.floats(0.1, 1e6))
def test_input_bound_is_told_by_part_and_by_time(part: float, seconds: float) -> None:
    """Whatever was measured: told from both thresholds on, and never otherwise."""
    waited = part * HEALTHY.data_seconds
    told = of(wait_seconds=waited, seconds=seconds)
    measured = waited / HEALTHY.data_seconds
    enough = measured * seconds >= input_rules.WAITED_SECONDS
    assert bool(told) == (measured >= input_rules.WAITED_PART and enough)


@given(steps=st.integers(0, 10**6), traced=st.integers(0, 10**6))
def test_retracing_is_told_by_part_and_by_number(steps: int, traced: int) -> None:
    """A function that is traced a few times, or in few of the steps, is none."""
    told = of(steps=steps, traced_steps=traced)
    many = traced >= compile_rules.TRACED_STEPS
    assert bool(told) == (many and traced >= compile_rules.TRACED_PART * steps)


def test_the_sentence_tells_by_how_much() -> None:
    """Waiting half of the time, it could be twice as fast."""
    (told,) = advise(RunEvidence(steps=replace(HEALTHY, wait_seconds=50.0)))
    assert "waits for its data 50% of the time" in told.sentence
    assert "up to 2.0 times as fast" in told.sentence
    assert told.figures["waited_ratio"] == 0.5


def test_a_wait_that_a_gpu_computes_through_is_none() -> None:
    """On a GPU it counts as far as that is idle; where nobody says, nothing is told."""
    steps = replace(HEALTHY, wait_seconds=90.0, on_cpu=False)

    def told(looks: int, busy: float) -> list[Advisory]:
        gpus = GpuEvidence(busy_looks=looks, busy_sum=looks * busy)
        return list(advise(RunEvidence(steps=steps, gpus=gpus)))

    assert told(0, 0.0) == []
    assert told(input_rules.LOOKS - 1, 0.1) == []
    assert told(input_rules.LOOKS, 0.76) == []
    (found,) = told(input_rules.LOOKS, 0.7)
    assert found.figures["waited_ratio"] == pytest.approx(0.3)
    assert "the GPU is idle" in found.sentence


def test_float64_that_is_meant_is_none() -> None:
    """A script that sets Keras' default type to it gets no advice."""
    assert of(float64_operations=9, wide_input_bytes=WIDE, float64_meant=True) == set()


def test_all_waiting_is_told_without_a_division_by_zero() -> None:
    """Figures at their ends make a sentence all the same."""
    assert of(wait_seconds=100.0) == {AdvisoryKind.INPUT_BOUND}
    assert of(steps=10, seconds=0.0, traced_steps=10) == {AdvisoryKind.RETRACING}
    assert of(float64_operations=1, products=None) == {AdvisoryKind.FLOAT64}


def test_each_kind_has_one_row_and_says_what_to_do() -> None:
    """The table is whole, and a rule tells of its own kind."""
    assert [rule.kind for rule in RULES] == list(AdvisoryKind)
    assert all(rule.advice and rule.threshold and rule.title for rule in RULES)
    for kind, above, _ in THRESHOLDS:
        steps = replace(HEALTHY, **above)  # type: ignore[arg-type]
        judge = next(rule.judge for rule in RULES if rule.kind == kind)
        told = judge(RunEvidence(steps=steps))
        assert told is not None
        assert told.kind == kind


def test_what_holds_no_more_is_kept_as_over() -> None:
    """The newest figures of what holds; what held earlier, marked so."""
    first = advise(RunEvidence(steps=replace(HEALTHY, wait_seconds=50.0)))
    second = advise(RunEvidence(steps=replace(HEALTHY, float64_operations=1)))
    both = followed(first, second)
    assert [(one.kind, one.over) for one in both] == [
        (AdvisoryKind.FLOAT64, False),
        (AdvisoryKind.INPUT_BOUND, True),
    ]
    assert followed(both, ()) == tuple(replace(one, over=True) for one in both)
    assert followed(both, first)[0] == first[0]


def test_every_figure_of_the_evidence_may_be_missing() -> None:
    """Of what was not measured nothing is told."""
    optional = {
        one.name: None for one in fields(StepEvidence) if "None" in str(one.type)
    }
    assert of(**optional) == set()


NEAR = NearLimit(
    batch=128,
    first_size=8,
    size=6,
    peak_bytes=89 << 20,
    limit_bytes=90 << 20,
    unsliced_bytes=None,
)


def test_more_slices_than_it_began_with_are_told_with_the_reason() -> None:
    """How many there were, how many there are, and what came near the limit."""
    (told,) = advise(RunEvidence(near_limit=NEAR))
    assert told.kind is AdvisoryKind.NEAR_LIMIT
    assert told.sentence == (
        "a batch is worked through in 22 slices, not in 16 as it began: a step needed 89 MiB"
        " of the limit of 90 MiB, and another might have run out of memory"
    )
    assert (told.figures["first_slices"], told.figures["slices"]) == (16, 22)
    assert "unsliced_bytes" not in told.figures


def test_why_no_more_slices_are_made_is_told() -> None:
    """What they share shrinks with none of them."""
    (told,) = advise(RunEvidence(near_limit=replace(NEAR, unsliced_bytes=88 << 20)))
    assert "; more are not made, as steps filled about 88 MiB whatever" in told.sentence
    assert told.figures["unsliced_bytes"] == 88 << 20
