"""What a step of a run needs of its limit: told while it trains, by what it does anyway.

The arithmetic and the words are those of an estimate (``step_estimate``), with one size
measured: that of the run's own batch, by the peak of its first steps. So of other batches
little can be said, and it is said as roughly so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from supervisor.core.memory.step_estimate import (
    REACH,
    MemoryPart,
    StepEstimate,
    largest_fitting,
)
from supervisor.core.memory.step_estimate import parts as parts_of_estimate
from supervisor.core.text.units import format_size
from supervisor.wire.records.estimate_records import ModelMemory, StepMemory
from supervisor.wire.records.step_needs import StepNeeds

DATA = "data, batches read ahead and what else lies there between steps"
NOT_MADE = "of the trained parameters, once a step is made"
UNKNOWN_STATE = "not known before the first step"
HELPS = (
    "a larger limit, a smaller model, fewer trained layers, an optimizer that keeps less"
    " (SGD, Lion, Adafactor) or mixed precision makes room; slices of the batch do not"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBudget:
    """What is told of the needs of a run's steps. None: not known."""

    fit: int
    """Number of the call, from 0."""
    batch: int | None
    slices: int
    limit_bytes: int | None
    peak_bytes: int | None
    """The parts add up to it; None: no step was made yet, or no allocator tells."""
    parts: tuple[MemoryPart, ...]
    largest_batch: int | None
    """Roughly the largest batch that fits: this one, or up to twice as many."""
    or_more: bool = False
    """A larger one may fit as well."""


def budget_from_json(value: Mapping[str, Any]) -> StepBudget:
    """What ``asdict`` made of one, without what a newer version adds. Raises
    KeyError or TypeError for anything else."""
    names = {item.name for item in fields(StepBudget)}
    known: dict[str, Any] = {n: given for n, given in value.items() if n in names}
    of_part = {item.name for item in fields(MemoryPart)}
    rows = [
        MemoryPart(**{name: one[name] for name in of_part}) for one in value["parts"]
    ]
    known["parts"] = tuple(rows)
    return StepBudget(**known)


def budget_of(needs: StepNeeds) -> StepBudget:
    """``needs`` in parts."""
    estimate = _estimate(needs)
    largest, or_more = (None, False) if estimate is None else _largest(needs, estimate)
    return StepBudget(
        fit=needs.fit,
        batch=needs.batch,
        slices=needs.slices,
        limit_bytes=needs.limit_bytes,
        peak_bytes=None if estimate is None else needs.peak_bytes,
        parts=_counted(needs) if estimate is None else _measured(needs, estimate),
        largest_batch=largest,
        or_more=or_more,
    )


def _estimate(needs: StepNeeds) -> StepEstimate | None:
    """The one size that was measured; None: none was, or what lies between steps is less
    than the variables, which cannot be of one memory."""
    between, peak, state = needs.in_use_bytes, needs.peak_bytes, needs.optimizer_bytes
    if between is None or peak is None or state is None:
        return None
    data = between - needs.parameter_bytes - state - needs.other_bytes
    if peak <= between or data < 0:
        return None
    size = max(needs.batch or 1, 1)
    arrays = min(needs.array_bytes, data)
    drawn = data - arrays
    model = ModelMemory(
        batch=size,
        batch_bytes=needs.batch_bytes or drawn,
        parameters=needs.parameters,
        trained=needs.trained,
        parameter_bytes=needs.parameter_bytes,
        trained_bytes=needs.trained_bytes,
        optimizer_bytes=state,
        optimizer=needs.optimizer,
        other_bytes=needs.other_bytes,
        data_bytes=arrays,
        drawn_bytes=drawn,
        jit=False,
        jit_possible=False,
        backend=needs.backend,
    )
    step = StepMemory(
        size=size,
        added_bytes=peak - between,
        least_bytes=peak - between,
        step_seconds=0.0,
        first_seconds=0.0,
    )
    return StepEstimate(model=model, steps=(step,))


def _measured(needs: StepNeeds, estimate: StepEstimate) -> tuple[MemoryPart, ...]:
    """The rows of an estimate, without those that one size does not tell apart."""
    size = estimate.measured_batch
    found = {one.name: one for one in parts_of_estimate(estimate, size)}
    drawn, data = found.pop("prefetched batches"), found.pop("data")
    del found["workspace"]  # in the activations, where one size was measured
    acts = found["activations"]
    if needs.slices > 1 or needs.batch is None:
        about = "and workspace" + (", of a slice" if needs.slices > 1 else "")
    else:
        about = f"and workspace, {acts.about}"
    found["activations"] = MemoryPart(name=acts.name, bytes=acts.bytes, about=about)
    whole = MemoryPart(name="data", bytes=drawn.bytes + data.bytes, about=DATA)
    return (*found.values(), whole)


def _counted(needs: StepNeeds) -> tuple[MemoryPart, ...]:
    """What is known without a measured step."""
    fixed = needs.parameters - needs.trained
    rest = f", {fixed:,} of them not trained" if fixed else ""
    found = [
        MemoryPart(
            name="parameters",
            bytes=needs.parameter_bytes,
            about=f"{needs.parameters:,} numbers{rest}",
        )
    ]
    if needs.optimizer_bytes is not None:
        found.append(
            MemoryPart(
                name="optimizer", bytes=needs.optimizer_bytes, about=needs.optimizer
            )
        )
    gradients = MemoryPart(name="gradients", bytes=needs.trained_bytes, about=NOT_MADE)
    return (*found, gradients)


def _largest(needs: StepNeeds, estimate: StepEstimate) -> tuple[int | None, bool]:
    """The largest batch that roughly fits, and whether a larger one may.

    The line goes through the one size and what there is at any: so it is not followed
    below that, nor beyond twice of it.
    """
    limit, size = needs.limit_bytes, needs.batch
    if limit is None or not size or needs.slices > 1 or not needs.alike:
        return None, False
    rows = {one.name: one.bytes for one in parts_of_estimate(estimate, size)}
    each = rows["activations"] / size
    fixed = estimate.weights + rows["gradients"] + estimate.model.data_bytes

    def need(batch: int) -> int:
        return int(fixed + estimate.drawn(batch) + each * batch)

    found = largest_fitting(need, limit_bytes=limit, start=size)
    reach = REACH * size
    # This one was seen to fit, if with less to spare than is left free otherwise.
    return max(min(found, reach), size), found > reach


def too_large(needs: StepNeeds) -> str:
    """That no batch fits, before the first step: by what no batch and no slices change;
    empty where one may.

    Gradients may be let go of one by one as variables are changed, so what is sure is only
    the largest of them. Where only all of them together are too much, that is said.
    """
    limit, state = needs.limit_bytes, needs.optimizer_bytes or 0
    if limit is None or needs.peak_bytes is not None:
        return ""
    lasting = needs.parameter_bytes + state
    together = lasting + needs.trained_bytes
    if together <= limit:
        return ""
    least = "at least " if needs.optimizer_bytes is None else ""
    owner = f"{needs.optimizer}'s state" if needs.optimizer else "the optimizer's state"
    said = (
        f"parameters, gradients and {owner} need {least}{format_size(together)},"
        f" and the limit is {format_size(limit)}"
    )
    if lasting + needs.largest_bytes > limit:
        return f"{said}: no batch fits; {HELPS}"
    return (
        f"{said}: a step fits only where gradients are let go of before all are there;"
        f" {HELPS}"
    )


def fixed_bytes(needs: StepNeeds) -> int | None:
    """What no smaller batch gives back: parameters, optimizer and gradients; None: not
    known."""
    if needs.optimizer_bytes is None:
        return None
    return needs.parameter_bytes + needs.optimizer_bytes + needs.trained_bytes


def sentence(budget: StepBudget) -> str:
    """One line of what a step needs."""
    rows = [f"{one.name} {format_size(one.bytes)}" for one in budget.parts if one.bytes]
    said = f"a step of the first fit needs {', '.join(rows)}"
    if budget.peak_bytes is None:
        return f"{said}; activations are not known" + _of(budget.limit_bytes)
    said += f": {format_size(budget.peak_bytes)}{_of(budget.limit_bytes)}"
    if budget.largest_batch is None or budget.batch is None:
        return said
    if budget.largest_batch == budget.batch:
        return f"{said}; roughly no larger batch than {budget.batch} fits"
    more = " or more" if budget.or_more else ""
    return f"{said}; roughly {budget.largest_batch} samples{more} fit"


def _of(limit: int | None) -> str:
    return "" if limit is None else f" of {format_size(limit)}"
