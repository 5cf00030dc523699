"""What ``advise`` says to a person."""

import tomllib
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from supervisor.cli.sources.daemon_client import box_option
from supervisor.cli.views.advised_spec import WrittenSpec
from supervisor.cli.views.alternative_lines import OF_IT, as_json, lines
from supervisor.core.jobs.spec import build_spec
from supervisor.core.memory.alternatives import (
    ASYNC_ALLOCATOR,
    AXES,
    LESS_XLA_TUNING,
    MIXED_BFLOAT16,
    ON,
    Alternative,
    AlternativeAxis,
    Numbers,
    of_slices,
)
from supervisor.core.memory.best_combination import Compared
from supervisor.core.memory.trial_results import NumbersFound, TrialOutcome, TrialResult
from tests.support.advice import FIT, advice, measured

IN_A_SPEC = "  in a spec: "
JIT = Alternative(axis=AlternativeAxis.JIT, value=ON)
ALTERNATIVES = [
    of_slices(2),
    JIT,
    Alternative(axis=AlternativeAxis.PRECISION, value=MIXED_BFLOAT16),
    Alternative(axis=AlternativeAxis.RECOMPUTATION, value=ON),
    Alternative(axis=AlternativeAxis.ALLOCATOR, value=ASYNC_ALLOCATOR),
    Alternative(axis=AlternativeAxis.CUDNN_AUTOTUNE, value="0"),
    Alternative(axis=AlternativeAxis.CUDNN_WORKSPACE, value="64"),
    Alternative(axis=AlternativeAxis.XLA_AUTOTUNE, value=LESS_XLA_TUNING),
]


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
        (
            "faster, but near the limit: jit_compile on: 950 bytes, 0.50 of the step time"
            " as it is"
        )
    ]


def test_what_times_are_compared_with_is_shown() -> None:
    """The script as it is was tried first and last: the mean of both is the 1.00 of the
    column, and stands in its row."""
    first, last = measured(ratio=0.9), measured(ratio=1.1)
    found = replace(advice(first, measured(JIT, ratio=0.5)), again=last.result)
    said = list(lines(found, None))
    (base,) = [one.split() for one in said if one.strip().startswith("as it is ")]
    assert base[-3:] == ["100", "ms", "1.00"]
    (other,) = [one for one in said if one.strip().startswith("jit_compile on ")]
    assert " 50 ms 0.50 " in " ".join(other.split())
    assert f"note: {OF_IT}" in said
    alone = replace(measured(JIT), ratio=None)
    assert f"note: {OF_IT}" not in list(lines(advice(alone), None))


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


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (
            TrialOutcome.TOO_NEAR,
            "near the limit trials made all their steps, in slices: trainwarden run finds its",
        ),
        (TrialOutcome.NO_ROOM, "see the peaks above, or a smaller batch or model"),
    ],
)
def test_nothing_fits_is_not_said_of_what_a_run_trains_in(
    outcome: TrialOutcome, said: str
) -> None:
    """It goes on near the limit, where no slices leave room to spare."""
    unknown = NumbersFound(numbers=Numbers.UNKNOWN)
    tried = [
        Compared(
            result=TrialResult(combination=combination, outcome=ended),
            numbers=unknown,
            ratio=None,
        )
        for combination, ended in (
            ((), TrialOutcome.NO_ROOM),
            ((of_slices(2),), outcome),
        )
    ]
    assert said in "\n".join(lines(advice(*tried), None))


def test_where_all_numbers_are_too_near_it_is_said_in_how_many_trials_went_on() -> None:
    """Each made all its steps; that a run comes to one of these numbers is not promised."""
    unknown = NumbersFound(numbers=Numbers.UNKNOWN)

    def near(*made: int) -> str:
        tried = [
            Compared(
                result=TrialResult(
                    combination=(of_slices(2),),
                    outcome=TrialOutcome.TOO_NEAR,
                    slices_made=one,
                ),
                numbers=unknown,
                ratio=None,
            )
            for one in made
        ]
        found = advice(
            Compared(
                result=TrialResult(outcome=TrialOutcome.NO_ROOM),
                numbers=unknown,
                ratio=None,
            ),
            *tried,
        )
        assert as_json(found, None)["trials"][-1]["slices_made"] == made[-1]
        return "\n".join(lines(found, None))

    said = near(8, 16, 128)
    assert "near the limit trials made all their steps, in 8 to 128 slices: " in said
    assert "trainwarden run finds its own number, which may be another" in said
    assert "all their steps, in 43 slices: trainwarden run" in near(43)


def test_the_note_on_times_names_the_factor_that_the_rule_has() -> None:
    """What is within it is not called faster; what is beyond it is."""
    last = measured(ratio=1.2).result
    within = measured(JIT, peak=950, ratio=0.74)
    beyond = measured(JIT, peak=950, ratio=0.70)
    for other, is_faster in ((within, False), (beyond, True)):
        found = replace(advice(measured(), other), again=last)
        said = list(lines(found, None))
        assert (
            "note: as it is, tried again at the end, it took 1.20 times as long: step times"
            " within a factor of 1.40, twice that difference, are taken for the same"
        ) in said
        assert is_faster is any(one.startswith("faster, but near") for one in said)


def test_times_that_differ_as_little_as_ever_cost_no_note() -> None:
    """The usual factor is enough then."""
    found = replace(advice(measured()), again=measured(ratio=1.02).result)
    assert not any("tried again at the end" in one for one in lines(found, None))


def test_what_is_best_and_near_the_limit_is_not_said_to_fit_alone() -> None:
    """The line itself tells it, of the script as it is and of what changes it."""
    said = list(lines(advice(measured(peak=990)), None))
    assert (
        "best: as it is: it fits, but near the limit: nothing fits with room to spare, and"
        " nothing that keeps the numbers is notably faster"
    ) in said
    said = list(
        lines(advice(measured(peak=990), measured(JIT, peak=950, ratio=0.5)), None)
    )
    assert (
        "best: jit_compile on: 950 bytes, 0.50 of the step time as it is, near the limit"
    ) in said


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "this is not all: it was ended before any alternative was tried: what is"),
        (7, "this is not all: it was ended before 7 more trials were made, at most: what is"),
        (1, "this is not all: it was ended before the script as it is was tried once more"),
    ],
)  # fmt: skip
def test_a_table_of_what_was_ended_early_says_that_it_is_not_all(
    left: int | None, said: str
) -> None:
    """So does what it calls best, and the JSON; nothing is applied."""
    found = replace(advice(measured(), measured(JIT, ratio=0.5)), left=left)
    told = list(lines(found, WrittenSpec(path=None)))
    assert any(one.startswith(said) for one in told)
    assert (
        "best so far: jit_compile on: 500 bytes, 0.50 of the step time as it is" in told
    )
    assert "applied: nothing: it was ended before all was tried" in told
    told_json = as_json(found, None)
    assert (told_json["complete"], told_json["trials_left_at_most"]) == (False, left)


def test_a_last_trial_of_what_cannot_be_compared_is_an_alternative() -> None:
    """Nothing is tried as it is once more then."""
    found = replace(advice(measured()), left=1, reference=None)
    said = "this is not all: it was ended before 1 more trial was made, at most: "
    assert any(one.startswith(said) for one in lines(found, None))


@pytest.mark.parametrize(
    ("convolutions", "said", "end"),
    [
        (
            5,
            "nor what a convolution takes beside it on a CPU smaller",
            "with --env TF_NUM_INTEROP_THREADS=1 they run one after another",
        ),
        (0, "nor buffers of fixed size smaller", "happen to run side by side"),
    ],
)
def test_slices_that_take_no_less_memory_say_why(
    convolutions: int, said: str, end: str
) -> None:
    """By what is known of the model; where they take less there is nothing to say."""
    found = advice(
        measured(),
        measured(of_slices(2), peak=400),
        measured(of_slices(4), peak=450),
        measured(of_slices(8), peak=500),
    )
    fit = replace(found.fit, convolutions=convolutions)
    (note,) = [
        one
        for one in lines(replace(found, fit=fit), None)
        if "no less memory than fewer" in one
    ]
    assert note.startswith("note: 4 slices, 8 slices took no less memory than fewer: ")
    assert said in note
    assert note.endswith(end)
    less = advice(measured(), measured(of_slices(2), peak=400))
    assert not any("no less memory" in one for one in lines(less, None))


@pytest.mark.parametrize(
    ("size", "said"), [(3 * 2**30, ", of about 3.00 GiB"), (None, "")]
)
def test_what_a_cache_on_disk_takes_is_told(size: int | None, said: str) -> None:
    """With the epoch that it saves nothing of, and the place where it belongs."""
    place = "before shuffle"
    cache = Alternative(axis=AlternativeAxis.CACHE, value=place)
    tried = measured(cache, ratio=0.4)
    fit = replace(tried.result.fit or FIT, cache_place=place, cache_bytes=size)
    cached = replace(tried, result=replace(tried.result, fit=fit))
    found = list(lines(advice(measured(), cached), None))
    (note,) = [one for one in found if one.startswith("note: cache on disk")]
    assert note.endswith(f"the first epoch writes it{said}")
    assert any(f'dataset.cache("FILE")  # {place}' in one for one in found)
    plain = list(lines(advice(measured()), None))
    assert not any("cache" in one for one in plain)
