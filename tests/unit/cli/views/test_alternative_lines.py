"""What ``advise`` says to a person."""

import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supervisor.cli.daemon_client import box_option
from supervisor.cli.views.advised_spec import WrittenSpec
from supervisor.cli.views.alternative_lines import lines
from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.alternatives import (
    ASYNC_ALLOCATOR,
    AXES,
    MIXED_BFLOAT16,
    ON,
    Alternative,
    Axis,
    Numbers,
    of_slices,
)
from supervisor.core.memory.best_combination import Compared
from supervisor.core.memory.trial_results import NumbersFound, Outcome, TrialResult
from supervisor.runtime.alternative_trials import Advice, TrialQuestion
from supervisor.wire.trial_records import TrialEnd, TrialFit, TrialStep

LIMIT = 1000
IN_A_SPEC = "  in a spec: "
FIT = TrialFit(
    batch=32,
    pass_steps=8,
    backend="tensorflow",
    device="CPU",
    precision="float32",
    loss_scaling=False,
    jit=False,
    jit_possible=True,
    own_step=False,
    optimizer="Adam",
    optimizer_bytes=200,
    weights_bytes=100,
    steps_per_execution=1,
    recomputed=0,
    not_recomputed=0,
)
JIT = Alternative(axis=Axis.JIT, value=ON)
ALTERNATIVES = [
    of_slices(2),
    JIT,
    Alternative(axis=Axis.PRECISION, value=MIXED_BFLOAT16),
    Alternative(axis=Axis.RECOMPUTATION, value=ON),
    Alternative(axis=Axis.ALLOCATOR, value=ASYNC_ALLOCATOR),
]


def measured(
    *combination: Alternative, peak: int = 500, ratio: float = 1.0
) -> Compared:
    """A trial that came to its end, with numbers that differ by rounding."""
    step = TrialStep(steps=1, seconds=0.1 * ratio, loss=1.0, peak_bytes=peak)
    result = TrialResult(
        combination=combination,
        outcome=Outcome.MEASURED,
        fit=FIT,
        steps=(step,) * 3,
        end=TrialEnd(between_bytes=100, weights="w"),
    )
    return Compared(
        result=result, numbers=NumbersFound(numbers=Numbers.ROUNDING), ratio=ratio
    )


def advice(*trials: Compared) -> Advice:
    """What was found on the CPU under ``LIMIT``; the first: as it is."""
    return Advice(
        question=TrialQuestion(
            limit_bytes=LIMIT,
            on_gpu=False,
            pool_bytes=10 * LIMIT,
            steps=8,
            patience_seconds=60,
            only=frozenset(Axis),
        ),
        fit=FIT,
        as_it_is=trials[0].result,
        reference=trials[0].result,
        again=None,
        trials=trials,
        not_tried=(),
        seconds=1.0,
    )


def test_every_axis_of_a_spec_is_among_them() -> None:
    """What is added to the table is tried here, too."""
    in_a_spec = {axis for axis, facts in AXES.items() if facts.spec is not None}
    assert {one.axis for one in ALTERNATIVES} == in_a_spec


@pytest.mark.parametrize("alternative", ALTERNATIVES, ids=lambda one: one.title)
def test_what_is_said_of_a_spec_is_toml(alternative: Alternative) -> None:
    """It can be pasted into one, with its quotes."""
    found = advice(measured(peak=980), measured(alternative, ratio=0.5))
    said = [one for one in lines(found, None) if one.startswith(IN_A_SPEC)]
    assert len(said) == 1
    tables = tomllib.loads(said[0].removeprefix(IN_A_SPEC))
    build_spec({"script": "train.py", **tables})


def test_as_it_is_is_not_called_the_fastest_where_a_tight_one_is_faster() -> None:
    """It is named beside it."""
    found = advice(measured(), measured(JIT, peak=950, ratio=0.5))
    said = list(lines(found, None))
    assert (
        "best: as it is: it fits, and nothing with room to spare that keeps the numbers is"
        " notably faster"
    ) in said
    near = [one for one in said if one.startswith("faster, but near the limit: ")]
    assert near == [
        "faster, but near the limit: jit_compile on: 950 bytes, 0.50 of the step time"
    ]


def test_what_was_applied_is_run_in_the_state_directory_that_was_named(
    tmp_path: Path,
) -> None:
    """The line works when it is pasted."""

    @click.command()
    @box_option
    def told(state_dir: Path) -> None:
        """As ``advise`` tells it."""
        assert state_dir == tmp_path
        found = advice(measured(), measured(JIT, ratio=0.5))
        click.echo("\n".join(lines(found, WrittenSpec(path=Path("x.advised.toml")))))

    done = CliRunner().invoke(told, ["--state-dir", str(tmp_path)])
    line = f"applied: trainwarden run --spec x.advised.toml --state-dir {tmp_path}"
    assert line in done.output.splitlines()
