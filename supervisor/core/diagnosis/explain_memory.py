"""The autopsy of an attempt that ran out of memory, as a paragraph for a tired person."""

from collections.abc import Mapping
from typing import Any

from supervisor.core.memory.figures import OomVerdict
from supervisor.core.text.units import format_duration, format_size
from supervisor.wire.records.oom_subject import OomSubject

VERDICTS: Mapping[str, str] = {
    OomVerdict.CAPACITY: (
        "The verdict is capacity: more memory is simply needed than there is."
    ),
    OomVerdict.FRAGMENTATION: (
        "The verdict is fragmentation: enough was free, but in pieces, and none of them "
        "was large enough."
    ),
    OomVerdict.OVERSIZE: (
        "The verdict is oversize: one single tensor is larger than the whole limit, so "
        "nothing that is freed could make room for it."
    ),
    OomVerdict.FOREIGN_TENANT: (
        "The verdict is a foreign tenant: other processes hold the memory that training "
        "might have had."
    ),
    OomVerdict.LEAK: (
        "The verdict is a leak: something keeps more and more memory from step to step."
    ),
    OomVerdict.HOST: (
        "The verdict is host: main memory ran out, not that of the device."
    ),
}

SUBJECTS: Mapping[str, str] = {
    OomSubject.WEIGHTS: "It ran out while the weights of the model were made.",
    OomSubject.OPTIMIZER: "It ran out while the state of the optimizer was made.",
    OomSubject.DATA: (
        "It ran out while arrays were made tensors as a whole: a data set, no batch."
    ),
    OomSubject.BATCH: (
        "It ran out while slices of a batch were tried, before any step was done: weights,"
        " the state of the optimizer and data left no room for that."
    ),
    OomSubject.EVALUATION: "It ran out in a step of the validation.",
    OomSubject.OWN_STEP: "It ran out in a step of a loop of the script's own.",
    OomSubject.OUTSIDE: "It ran out outside of training steps.",
}

MUCH = 0.5
"""From this part of a limit on it is told what of it no batch changes."""

TOLD = 4
"""Holders that are told of; the rest is in ``incidents --json``."""


def autopsy_paragraph(
    autopsy: Mapping[str, Any] | None, memory: Mapping[str, Any] | None
) -> str:
    """Verdict, figures, who asked, who held what; empty without an autopsy."""
    if not autopsy:
        return ""
    sentences = [
        VERDICTS.get(autopsy["verdict"] or "", ""),
        SUBJECTS.get(autopsy.get("subject") or "", ""),
        _pieces(autopsy["verdict"], memory or {}),
        _asked(autopsy),
        _growth(autopsy["growth"]),
        _fixed(autopsy.get("fixed_bytes"), autopsy.get("fixed_limit_bytes")),
        _holders(_held(autopsy["verdict"], memory or {}), autopsy["holders"]),
        _holders("Others on the device", autopsy["tenants"]),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _pieces(verdict: str | None, memory: Mapping[str, Any]) -> str:
    """The figures behind fragmentation; the others stand in the first sentence."""
    free, largest = memory.get("free_bytes"), memory.get("largest_free_bytes")
    if verdict != OomVerdict.FRAGMENTATION or free is None or largest is None:
        return ""
    return f"{format_size(free)} were free, the largest block {format_size(largest)}."


def _asked(autopsy: Mapping[str, Any]) -> str:
    op, shape, jit = autopsy["asked_by"], autopsy["shape"], autopsy["jit"]
    tensor = ""
    if shape is not None:
        extents = " x ".join(str(extent) for extent in shape) or "a single value"
        tensor = f"a tensor of {extents}" + (
            f" ({autopsy['dtype']})" if autopsy["dtype"] else ""
        )
    said = ""
    if op or tensor:
        said = f"{op or 'An op that is not named'} asked for {tensor or 'it'}."
    compiled = {True: "XLA compiled the step.", False: "XLA was off."}.get(jit, "")
    return " ".join(part for part in (said, compiled) if part)


def _growth(growth: Mapping[str, Any] | None) -> str:
    if growth is None:
        return ""
    rate = growth["bytes_per_second"]
    seconds = growth["grown_bytes"] / rate if rate else 0.0
    return (
        f"Between steps, memory in use had grown by {format_size(growth['grown_bytes'])}"
        f" in {format_duration(seconds)}."
    )


def _fixed(fixed: int | None, limit: int | None) -> str:
    """Of what no smaller batch gives back, where that is much of the limit."""
    if fixed is None or not limit or fixed < MUCH * limit:
        return ""
    return (
        f"Whatever the batch, parameters, the optimizer's state and gradients together"
        f" take {format_size(fixed)} of {format_size(limit)}."
    )


def _held(verdict: str | None, memory: Mapping[str, Any]) -> str:
    """How the list of holders begins: what their shares add up to, where that is known."""
    used = memory.get("in_use_bytes")
    if used is None or verdict == OomVerdict.HOST:
        return "Who held it"
    return f"Who held the {format_size(used)} in use"


def _holders(title: str, holders: list[Mapping[str, Any]]) -> str:
    if not holders:
        return ""
    listed = "; ".join(_holder(one) for one in holders[:TOLD])
    more = len(holders) - TOLD
    return f"{title}: {listed}{f'; and {more} more' if more > 0 else ''}."


def _holder(holder: Mapping[str, Any]) -> str:
    count = holder.get("count")
    times = "" if count is None else f" ({count})"
    return f"{format_size(holder['bytes'])} {holder['what']}{times}"
