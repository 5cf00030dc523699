"""An estimate as a person reads it, where there is nothing to judge it by."""

from dataclasses import replace

import pytest

from supervisor.cli.views.estimate_lines import as_json, how, lines
from supervisor.core.memory.step_estimate import (
    COMMON_GPUS_GIB,
    BatchFit,
    StepEstimate,
    fit_into,
    fit_into_common,
)
from supervisor.runtime.measuring.estimation import MeasuredScript
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory

GIB = 2**30
MODEL = ModelMemory(
    batch=64,
    batch_bytes=0,
    parameters=1000,
    trained=1000,
    parameter_bytes=0,
    trained_bytes=0,
    optimizer_bytes=0,
    optimizer="Adam",
    other_bytes=0,
    data_bytes=100 * GIB,
    drawn_bytes=0,
    jit=False,
    jit_possible=False,
    backend="tensorflow",
)


def adding(each: int) -> StepEstimate:
    """A step of so many bytes a sample, and a data set larger than any GPU, which stays in
    main memory."""
    sizes = (
        StepMemory(
            size=size,
            added_bytes=size * each,
            least_bytes=size * each,
            step_seconds=0.1,
            first_seconds=1.0,
        )
        for size in (16, 64)
    )
    return StepEstimate(model=MODEL, steps=tuple(sizes))


def told(estimate: StepEstimate) -> str:
    """What is said of a batch of 64, without a GPU or a limit."""
    measured = MeasuredScript(estimate=estimate, notes=(), seconds=1.0)
    return "\n".join(lines(measured, 64, (), fit_into_common(estimate, 64)))


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (1, "it fits a GPU of 8 GiB and more"),
        (10, "it fits a GPU of 16 GiB and more, and not a GPU of 12 GiB"),
        (20, "it fits a GPU of 24 GiB and more, and not a GPU of 16 GiB"),
        (71, "it fits a GPU of 80 GiB and more, and not a GPU of 48 GiB"),
        (
            90,
            "a GPU of 80 GiB: a batch of 64 does not fit into 79.00 GiB: at most 50 do",
        ),
    ],
)
def test_without_a_gpu_it_is_said_which_it_would_take(need: int, said: str) -> None:
    """A tenth of what a GPU has beside 1 GiB is left free."""
    text = told(adding(need * GIB // 64))
    assert "no GPU here: give --memory-limit, or the size of the GPU it is for" in text
    assert f"a step needs {need}.00 GiB of a GPU" in text
    assert said in text


def test_where_it_is_judged_nothing_is_said_of_other_gpus() -> None:
    """A limit was given, or there is a GPU."""
    estimate = adding(GIB // 64)
    measured = MeasuredScript(estimate=estimate, notes=(), seconds=1.0)
    limit = fit_into(estimate, 64, where="limit", limit_bytes=4 * GIB, device=True)
    text = "\n".join(lines(measured, 64, (limit,)))
    assert "limit: fits into 4.00 GiB" in text
    assert "no GPU here" not in text
    assert as_json(measured, 64, (limit,))["common_gpus"] == []


def test_the_sizes_in_json() -> None:
    """Each with its own verdict, the smallest first."""
    estimate = adding(10 * GIB // 64)
    measured = MeasuredScript(estimate=estimate, notes=(), seconds=1.0)
    common = fit_into_common(estimate, 64)
    found = as_json(measured, 64, (), common)
    assert found["fits"] == []
    assert [one["fits"] for one in found["common_gpus"]] == [
        size > 12 for size in COMMON_GPUS_GIB
    ]
    whole = replace(estimate, steps=estimate.steps[:1])
    assert len(fit_into_common(whole, 16)) == len(COMMON_GPUS_GIB)


def instead(*, largest: int, slices: int | None) -> str:
    """What is said of a batch of 128 that does not fit."""
    fit = BatchFit(
        where="limit",
        limit_bytes=1 << 20,
        need_bytes=2 << 20,
        fits=False,
        largest_batch=largest,
        slices=slices,
    )
    measured = MeasuredScript(estimate=adding(1), notes=(), seconds=1.0)
    said = "\n".join(lines(measured, 128, (fit,)))
    return said.partition(": at most ")[2].splitlines()[0]


def test_why_slices_are_smaller_than_the_largest_batch() -> None:
    """35 samples fit as a batch of their own; as a part of 128 they have the rest of it
    beside them. Where the largest batch would make as many slices, nothing is to explain."""
    why = (
        "; each of 13 samples only, as the whole batch and the sum of the gradients stay in"
        " memory beside a slice, and a run leaves room for how steps differ"
    )
    cut = "slices of this one (trainwarden run cuts it by itself)"
    assert instead(largest=35, slices=10) == f"35 do, or 10 {cut}{why}"
    assert instead(largest=35, slices=4) == f"35 do, or 4 {cut}"
    assert instead(largest=35, slices=None) == "35 do"


def test_a_batch_that_was_not_measured_is_told_as_such_in_the_first_line() -> None:
    """With how far such lines were off, what to do, and a verdict no surer than that."""
    estimate = adding(GIB // 64)
    measured = MeasuredScript(estimate=estimate, notes=(), seconds=1.0)
    fit = fit_into(estimate, 256, where="limit", limit_bytes=5 * GIB, device=True)
    text = "\n".join(lines(measured, 256, (fit,)))
    assert text.startswith(
        "a step of 256 samples, not measured: by the line through smaller ones that were"
        " tried: 16, 64\n"
    )
    assert "note: such lines were up to a third too low" in text
    assert "--seconds gives time to measure larger batches" in text
    assert "limit: fits into 5.00 GiB" in text
    unsure = replace(fit, fits=False, least_bytes=3 * GIB, most_bytes=6 * GIB)
    (told_of,) = (
        line for line in lines(measured, 256, (unsure,)) if line.startswith("limit: ")
    )
    assert told_of.startswith(
        "limit: whether a batch of 256 fits into 5.00 GiB is not known: it may need"
        " 3.00 GiB to 6.00 GiB"
    )
    known = "\n".join(lines(measured, 64, ()))
    assert known.startswith("a step of 64 samples, measured (tried: 16, 64)\n")
    assert "not measured" not in known
    found = as_json(measured, 256, (fit,))
    assert found["least_bytes"] <= found["peak_bytes"] <= found["most_bytes"]
    assert as_json(measured, 64, ())["most_bytes"] is None


def test_a_gpu_is_not_ruled_out_by_what_was_not_measured() -> None:
    """It may do, and may not."""
    busy = StepEstimate(
        model=MODEL,
        steps=tuple(
            replace(one, added_bytes=9 * GIB, least_bytes=3 * GIB)
            for one in adding(1).steps
        ),
    )
    measured = MeasuredScript(estimate=busy, notes=(), seconds=1.0)
    text = "\n".join(lines(measured, 128, (), fit_into_common(busy, 128)))
    assert "a step needs 3.00 GiB to 18.00 GiB of a GPU" in text
    assert "it fits a GPU of 24 GiB and more, and perhaps not a GPU of 16 GiB" in text


def test_xla_has_not_compiled_what_lies_beyond() -> None:
    """Its analysis is of the sizes that it was given."""
    estimate = replace(adding(1), model=replace(MODEL, backend="jax"))
    assert how(estimate, 64).startswith(
        "by XLA's analysis of compiled steps (of 16, 64;"
    )
    assert how(estimate, 256).startswith(
        "not measured: by the line beyond them, and by"
    )
    assert how(adding(1), 32) == "by the line between those that were tried: 16, 64"


def test_of_several_devices_only_the_whole_is_told() -> None:
    """One memory stands in for all of them; nobody knows what a GPU's share of it would
    be. Where a strategy has one device here, a whole batch is more than one of several
    GPUs would have to work on, and that is said."""
    two = replace(adding(GIB // 64), model=replace(MODEL, devices=2, parted=True))
    measured = MeasuredScript(estimate=two, notes=(), seconds=1.0)
    text = "\n".join(lines(measured, 64, ()))
    assert "GPU" not in text.partition("\nnote: ")[0]
    assert "the figures are of all 2 devices together" in text
    assert "for a GPU the data that stay in main memory" not in text
    found = as_json(measured, 64, ())
    assert (found["devices"], found["device_peak_bytes"]) == (2, None)
    one = replace(two, model=replace(MODEL, parted=True))
    text = told(one)
    assert "--batch asks about such a part" in text
    assert "of it on a GPU" in text
    assert as_json(replace(measured, estimate=one), 64, ())["devices"] == 1
    assert "--batch asks about" not in told(adding(GIB // 64))
