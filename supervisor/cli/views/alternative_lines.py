"""Advice for a person, a table and what to do; and the same as JSON."""

import statistics
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from supervisor.cli.command_hint import command_hint
from supervisor.cli.views import advised_spec
from supervisor.cli.views.advised_spec import WrittenSpec
from supervisor.core.memory import best_combination
from supervisor.core.memory.alternatives import (
    AS_IT_IS,
    AXES,
    ON,
    Alternative,
    AlternativeAxis,
    Numbers,
    has,
    title_of,
)
from supervisor.core.memory.best_combination import Compared
from supervisor.core.memory.trial_results import (
    NumbersFound,
    TrialOutcome,
    TrialResult,
    difference,
    goes_on_in,
    is_tight,
    no_smaller,
    same_bits,
)
from supervisor.core.text.toml_text import toml
from supervisor.core.text.units import format_duration, format_size, format_step
from supervisor.runtime.measuring.alternative_trials import Advice

WIDTH = 100
NOISE = (
    "as it is, tried again at the end, it took {:.2f} times as long: step times within a factor"
    " of {:.2f}, twice that difference, are taken for the same"
)
FIRST_FIT = (
    "this is the script's first fit: a later one, or a validation with a larger batch, may"
    " need more"
)
FEW_STEPS = (
    "numbers were compared over {} steps: after thousands, rounding differs by more, as two"
    " runs on two machines do"
)
TIGHT = (
    "it comes near the limit: a run may need a little more than some steps show, from its"
    " first step on; it takes slices then, or more of them, and says so"
)

OF_IT = (
    "of it: each step beside the same step of the script as it is, and of these parts the"
    " median: it need not be that of the two medians under step"
)

NOTHING_FITS = (
    "nothing that was tried fits: see the peaks above, or a smaller batch or model"
)
ONLY_NEAR = (
    "nothing that was tried fits with room to spare; near the limit trials made all their"
    " steps, in {}: trainwarden run finds its own number, which may be another, and makes more"
    " where a step comes near the limit, each of which costs time"
)
NO_SMALLER = (
    "{} took no less memory than fewer: a slice makes neither the whole batch, the sum of the"
    " gradients (as large as the weights, {}) nor {} smaller, and of such buffers there are as"
    " many at once as operations happen to run side by side{}"
)
CACHED = (
    "cache on disk: its steps read from the file, as those of a second epoch do; the first"
    " epoch writes it{}"
)
BUFFERS = "buffers of fixed size"
OF_CONVOLUTIONS = "what a convolution takes beside it on a CPU"
ONE_BY_ONE = "; with --env TF_NUM_INTEROP_THREADS=1 they run one after another"
NOT_ALL = (
    "this is not all: it was ended before {}: what is better may be yet to be tried"
)
NOT_AGAIN = (
    "this is not all: it was ended before the script as it is was tried once more, so how much"
    " times differ by themselves is not known"
)
AS_IT_IS_BEST = (
    "{}: as it is: it fits, and nothing with room to spare that keeps the numbers is"
    " notably faster"
)
AS_IT_IS_NEAR = (
    "{}: as it is: it fits, but near the limit: nothing fits with room to spare, and nothing"
    " that keeps the numbers is notably faster"
)


def lines(advice: Advice, applied: WrittenSpec | None) -> Iterator[str]:
    """The table, what was left out, what to do. ``applied``: what ``--apply`` did; None:
    it was not asked for."""
    yield _what(advice)
    yield from _table(advice)
    yield from (
        f"not tried: {one.alternative.title}: {one.because}" for one in advice.not_tried
    )
    yield from (f"note: {note}" for note in notes_of(advice))
    yield ""
    if not advice.whole:
        yield _what_is_left(advice)
    yield from _best_lines(advice)
    if applied is not None:
        yield from _applied_lines(advice, applied)
    yield f"took {format_duration(advice.seconds)}; nothing was trained"


def _what(advice: Advice) -> str:
    fit, limit = advice.fit, advice.question.limit_bytes
    batch = "batches" if fit.batch is None else f"batches of {fit.batch}"
    within = "no limit" if limit is None else f"under {format_size(limit)}"
    return f"{batch} on the {fit.device}, {within}, {advice.question.steps} steps each"


def _table(advice: Advice) -> Iterator[str]:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("alternative")
    for name in ("peak", "step", "of it"):
        table.add_column(name, justify="right")
    table.add_column("numbers")
    for one in advice.trials:
        table.add_row(*_row(one, advice))
        if one.result is advice.as_it_is and not one.result.measured:
            _add_reference(table, advice)
    console = Console(width=WIDTH, color_system=None, highlight=False)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().splitlines() if line.strip())


def _row(one: Compared, advice: Advice) -> tuple[str, ...]:
    result, title = one.result, title_of(one.combination)
    if not result.measured:
        because = f": {result.because}" if result.because else ""
        return title, "-", "-", "-", f"{result.outcome}{because}"
    own = "" if one.combination == AS_IT_IS else numbers_text(one.numbers)
    tight = is_tight(result, advice.question.limit_bytes)
    return (
        title,
        _size(result.peak_bytes) + (" !" if tight else ""),
        *_times(one, advice),
        own,
    )


def _times(one: Compared, advice: Advice) -> tuple[str, str]:
    """Of a step, and as a part of that of the script as it is, which is all of itself."""
    if one.result is advice.reference and one.ratio is not None:
        return _seconds(base_seconds(advice)), "1.00"
    ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
    return _seconds(one.result.step_seconds), ratio


def base_seconds(advice: Advice) -> float | None:
    """What a step of the script as it is took, of its tries at the beginning and at the
    end: what times are compared with. None: not known."""
    tries = [one for one in (advice.reference, advice.again) if one is not None]
    known = [one.step_seconds for one in tries if one.step_seconds is not None]
    return statistics.fmean(known) if known else None


def _add_reference(table: Table, advice: Advice) -> None:
    reference = advice.reference
    if reference is not None:
        table.add_row(
            "as it is, no limit",
            _size(reference.peak_bytes),
            _seconds(base_seconds(advice)),
            "1.00",
            "what the others are compared with",
        )


def _size(size: int | None) -> str:
    return "not known" if size is None else format_size(size)


def _seconds(seconds: float | None) -> str:
    return "not known" if seconds is None else format_step(seconds)


def numbers_text(found: NumbersFound) -> str:
    """What becomes of the numbers, with the largest difference of a loss."""
    names = {
        Numbers.BITS: "the same, to the bit",
        Numbers.ROUNDING: "the same, but for rounding",
        Numbers.PRECISION: "lower precision",
        Numbers.DIFFERENT: "a different computation",
        Numbers.UNKNOWN: "not compared",
    }
    said = names[found.numbers]
    if found.difference and found.numbers is not Numbers.BITS:
        said += f" (loss: {found.difference:.1e})"
    return f"{said}: {found.because}" if found.because else said


def notes_of(advice: Advice) -> list[str]:
    """What a person has to know of the figures."""
    compared = any(one.ratio is not None for one in advice.trials)
    found = [
        *([OF_IT] if compared else []),
        FEW_STEPS.format(advice.question.steps),
        FIRST_FIT,
    ]
    again, reference = advice.again, advice.reference
    if reference is not None and again is not None:
        found = [*_noise(advice, reference, again), *found]
    found = [*_no_smaller(advice), *found]
    if any(is_tight(one.result, advice.question.limit_bytes) for one in advice.trials):
        found = [f"!: {TIGHT}", *found]
    found.extend(_of_cache(advice))
    left_out = max(
        (one.result.fit.not_recomputed for one in advice.trials if one.result.fit),
        default=0,
    )
    if left_out:
        found.append(
            f"recomputation leaves out {left_out} layers whose calls draw or change"
            " something (as Dropout and BatchNormalization do)"
        )
    return found


def _of_cache(advice: Advice) -> Iterator[str]:
    cached = [
        one.result.fit
        for one in advice.trials
        if one.result.measured and has(one.combination, AlternativeAxis.CACHE)
    ]
    sizes = [fit.cache_bytes for fit in cached if fit is not None and fit.cache_bytes]
    if cached:
        size = f", of about {format_size(max(sizes))}" if sizes else ""
        yield CACHED.format(size)


def _no_smaller(advice: Advice) -> Iterator[str]:
    """Why more slices took no less memory, where some did."""
    fit = advice.fit
    found = no_smaller(one.result for one in advice.trials)
    if not found:
        return
    titles = ", ".join(title_of(one.combination) for one in found)
    buffered = fit.device == "CPU" and fit.convolutions > 0
    buffers, way = (OF_CONVOLUTIONS, ONE_BY_ONE) if buffered else (BUFFERS, "")
    sums = format_size(fit.weights_bytes)
    yield NO_SMALLER.format(titles, sums, buffers, way)


def _noise(advice: Advice, reference: TrialResult, again: TrialResult) -> Iterator[str]:
    """What the script, and the machine, differ by themselves."""
    ratio = advice.own_ratio
    if ratio is not None and advice.alike > best_combination.ALIKE:
        yield NOISE.format(ratio, advice.alike)
    if not same_bits(again, reference):
        found = difference(again, reference)
        by = "" if found is None else f" (loss: {found:.0e})"
        yield f"the script as it is does not compute the same twice{by}"


def _what_is_left(advice: Advice) -> str:
    """Of what was ended early: the last trial is that of the script as it is."""
    if advice.left is None:
        return NOT_ALL.format("any alternative was tried")
    if advice.left == 1 and advice.reference is not None:
        return NOT_AGAIN
    trials = (
        "1 more trial was" if advice.left == 1 else f"{advice.left} more trials were"
    )
    return NOT_ALL.format(f"{trials} made, at most")


def _best_lines(advice: Advice) -> Iterator[str]:
    best = advice.best
    if best is None:
        yield _only_near(advice)
        return
    near = is_tight(best.result, advice.question.limit_bytes)
    name = "best" if advice.whole else "best so far"
    if best.combination == AS_IT_IS:
        yield (AS_IT_IS_NEAR if near else AS_IT_IS_BEST).format(name)
    else:
        but = ", near the limit" if near else ""
        yield f"{name}: {title_of(best.combination)}: {_figures(best)}{but}"
        yield f"  numbers: {numbers_text(best.numbers)}"
    if near:
        yield f"  {TIGHT}"
    for part in best.combination:
        yield from _how(advice, part)
    yield from _others(advice, best)


def _only_near(advice: Advice) -> str:
    """Where trials went on near the limit, which a run may, too; or that nothing fits."""
    results = [one.result for one in advice.trials]
    if not any(one.outcome is TrialOutcome.TOO_NEAR for one in results):
        return NOTHING_FITS
    span = goes_on_in(results)
    if span is None:
        return ONLY_NEAR.format("slices")
    fewest, most = span
    many = f"{most}" if fewest == most else f"{fewest} to {most}"
    return ONLY_NEAR.format(f"{many} slices")


def _figures(one: Compared) -> str:
    ratio = "" if one.ratio is None else f", {one.ratio:.2f} of the step time as it is"
    return f"{_size(one.result.peak_bytes)}{ratio}"


def _how(advice: Advice, part: Alternative) -> Iterator[str]:
    """The lines that do it."""
    facts = AXES[part.axis]
    if facts.spec is not None:
        value = toml({"": advised_spec.value_of(advice, part)}).partition(" = ")[2]
        yield f"  in a spec: {facts.spec} = {value.strip()}"
    if facts.script:
        value = (
            str(part.value == ON) if part.axis is AlternativeAxis.JIT else part.value
        )
        yield f"  in the script: {facts.script.format(value)}"


def _others(advice: Advice, best: Compared) -> Iterator[str]:
    limit = advice.question.limit_bytes
    near = best_combination.faster_near_limit(
        advice.trials, best, limit, alike=advice.alike
    )
    if near is not None:
        yield (
            f"faster, but near the limit: {title_of(near.combination)}: {_figures(near)}"
        )
    faster = best_combination.faster_otherwise(advice.trials, best, alike=advice.alike)
    if faster is not None:
        yield (
            f"faster, with other numbers: {title_of(faster.combination)}:"
            f" {_figures(faster)}"
        )
    least = best_combination.least_memory(advice.trials)
    if least is not None and least is not best:
        yield f"least memory, same numbers: {title_of(least.combination)}: {_figures(least)}"


def _applied_lines(advice: Advice, applied: WrittenSpec) -> Iterator[str]:
    best = advice.best
    if not advice.whole:
        yield "applied: nothing: it was ended before all was tried"
        return
    if applied.path is None:
        yield "applied: nothing: there is nothing in it that run could do by a spec"
        return
    yield f"applied: {command_hint('run', '--spec', str(applied.path))}"
    left = (
        [one for one in best.combination if AXES[one.axis].spec is None] if best else []
    )
    if left:
        yield f"  not by that: {title_of(tuple(left))}: change the script"


# --- JSON ---


def as_json(advice: Advice, applied: WrittenSpec | None) -> dict[str, Any]:
    """The documented shape."""
    best = advice.best
    return {
        "batch": advice.fit.batch,
        "device": advice.fit.device,
        "backend": advice.fit.backend,
        "limit_bytes": advice.question.limit_bytes,
        "steps": advice.question.steps,
        "fits_as_it_is": advice.as_it_is.measured,
        "reference": None
        if advice.reference is None
        else _reference_json(advice.reference),
        "trials": [_trial_json(one, advice) for one in advice.trials],
        "not_tried": [
            {
                "change": _changes((one.alternative,)),
                "title": one.alternative.title,
                "because": one.because,
            }
            for one in advice.not_tried
        ],
        "best": None if best is None else _best_json(advice, best),
        "applied": None
        if applied is None or applied.path is None
        else str(applied.path),
        "complete": advice.whole,
        "trials_left_at_most": advice.left,
        "notes": notes_of(advice),
        "seconds": round(advice.seconds, 1),
    }


def _changes(parts: tuple[Alternative, ...]) -> dict[str, str]:
    return {one.axis.value: one.value for one in parts}


def _reference_json(reference: TrialResult) -> dict[str, Any]:
    return {
        "limited": reference.limited,
        "peak_bytes": reference.peak_bytes,
        "step_seconds": reference.step_seconds,
    }


def _trial_json(one: Compared, advice: Advice) -> dict[str, Any]:
    result = one.result
    return {
        "title": title_of(one.combination),
        "change": _changes(one.combination),
        "outcome": result.outcome.value,
        "because": result.because,
        "slices_made": result.slices_made,
        "peak_bytes": result.peak_bytes,
        "tight": is_tight(result, advice.question.limit_bytes),
        "step_seconds": result.step_seconds,
        "step_ratio": one.ratio,
        "numbers": one.numbers.numbers.value,
        "difference": one.numbers.difference,
        "numbers_because": one.numbers.because,
        "fit": None if result.fit is None else asdict(result.fit),
    }


def _best_json(advice: Advice, best: Compared) -> dict[str, Any]:
    scripts = [
        AXES[one.axis].script.format(
            str(one.value == ON) if one.axis is AlternativeAxis.JIT else one.value
        )
        for one in best.combination
    ]
    return {
        **_trial_json(best, advice),
        "spec": advised_spec.tables_of(advice, best.combination),
        "script": [line for line in scripts if line],
    }
