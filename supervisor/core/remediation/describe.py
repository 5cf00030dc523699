"""A description of the escalations: a value for JSON, and text for a person."""

import textwrap
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.liveness.hang_detection import OF_PROGRESS, Deadlines
from supervisor.core.remediation.escalation import (
    EscalationPlan,
    RemedyPermissions,
    RemedyStep,
)
from supervisor.core.remediation.history import KILLS_BEFORE_A_STEP
from supervisor.core.remediation.policy import AT_ONCE, FEW_RETRIES
from supervisor.core.remediation.remedy_table import ESCALATIONS, FULL, TENANT
from supervisor.core.text.units import format_duration

WHEN = {
    TENANT.title: "device_oom or a library's failure, beside somebody else's process",
    FULL.title: "device_oom before the process had anything on the device, or in batches "
    "that are not sliced beside others that the driver does not name",
}
"""When it is used, of what is no cause's own; by title."""

PROGRESS = (
    "A restart is one without progress if no newer snapshot came of it, or if it ended for "
    "the same cause after the same step as the attempt before: from a newer snapshot it "
    "only got there sooner."
)
"""What ``History.fruitless`` counts."""


def escalations_json(
    terms: RemedyPermissions, *, without_progress: int, deadlines: Deadlines
) -> dict[str, Any]:
    """The documented shape of ``policy --json``."""
    grouped: dict[int, tuple[list[str], EscalationPlan]] = {}
    for cause in Cause:
        if cause is not Cause.NONE:
            escalation = ESCALATIONS[cause]
            grouped.setdefault(id(escalation), ([], escalation))[0].append(cause.value)
    situations = [
        _escalation(escalation, causes, terms, without_progress)
        for causes, escalation in grouped.values()
    ]
    situations += [
        _escalation(plan, [], terms, without_progress) for plan in (TENANT, FULL)
    ]
    return {
        "without_progress": without_progress,
        "situations": situations,
        "deadlines": asdict(deadlines),
    }


def _escalation(
    escalation: EscalationPlan,
    causes: list[str],
    terms: RemedyPermissions,
    without_progress: int,
) -> dict[str, Any]:
    from_outside = Cause.PREEMPTED in causes
    few = [FEW_RETRIES[Cause(cause)] for cause in causes if Cause(cause) in FEW_RETRIES]
    return {
        "causes": causes,
        "title": escalation.title,
        "restarts": min([without_progress, *few]),
        "kills_before_a_step": KILLS_BEFORE_A_STEP if from_outside else None,
        "at_once_before_the_first_step": any(Cause(c) in AT_ONCE for c in causes),
        "quarantines": escalation.quarantines,
        "steps": [_remedy_step(step, terms) for step in escalation.remedy_steps],
        "stop": escalation.stop,
    }


def _remedy_step(remedy_step: RemedyStep, terms: RemedyPermissions) -> dict[str, Any]:
    return {
        "name": remedy_step.name,
        "kind": remedy_step.kind.value,
        "does": remedy_step.does,
        "because": remedy_step.because,
        "when": remedy_step.when,
        "tries": remedy_step.uses,
        "needs": sorted(need.value for need in remedy_step.needs),
        "allowed": not remedy_step.needs or bool(remedy_step.needs & terms.allowed),
    }


def escalations_text(value: Mapping[str, Any]) -> str:
    """``value``, as ``escalations_json`` made it, for a person."""
    blocks = [_block(one) for one in value["situations"]]
    blocks += [textwrap.fill(PROGRESS, width=88), _hangs(value["deadlines"])]
    return "\n\n".join(blocks)


def _block(one: Mapping[str, Any]) -> str:
    causes = ", ".join(one["causes"]) or WHEN[one["title"]]
    lines = [f"{causes}: {one['title']}"]
    if one["at_once_before_the_first_step"]:
        lines.append("     before the first step: stops at once")
    if one["quarantines"]:
        lines.append("     the GPU is kept out of use until a person puts it back")
    for number, remedy_step in enumerate(one["steps"], start=1):
        lines += _lines(remedy_step, number)
    restarts = one["restarts"]
    many = "one restart" if restarts == 1 else f"{restarts} restarts"
    lines.append(f"  at the end, or after {many} without progress: stop")
    if one["kills_before_a_step"] is not None:
        lines += _what_counts(one["kills_before_a_step"])
    return "\n".join(lines)


def _what_counts(kills_before_a_step: int) -> list[str]:
    text = (
        "     A kill from outside is no fault of training, and counts as a restart without "
        "progress only where two came after the same step, or "
        f"{kills_before_a_step} in a row before an attempt made a step of its own; the "
        "waits between them grow all the same."
    )
    return textwrap.wrap(text, width=88, subsequent_indent="     ")


def _lines(remedy_step: Mapping[str, Any], number: int) -> list[str]:
    tries = remedy_step["tries"]
    often = "" if tries in {None, 1} else f", up to {tries} times"
    when = f" [if {remedy_step['when']}]" if remedy_step["when"] else ""
    forbidden = ""
    if not remedy_step["allowed"]:
        needs = " or ".join(f"remedies.{need}" for need in remedy_step["needs"])
        forbidden = f" [not allowed: {needs} = true allows it]"
    text = f"{number:3}. {remedy_step['does']}{often}{when}{forbidden}: {remedy_step['because']}"
    return textwrap.wrap(text, width=88, subsequent_indent="     ")


def _hangs(deadlines: Mapping[str, Any]) -> str:
    floors = [
        f"{name} {'never' if seconds is None else format_duration(seconds)}"
        for name, seconds in deadlines.items()
        if name != "factor"
    ]
    factor = deadlines["factor"]
    text = (
        f"A hang is no progress for {factor:g} times the usual time from one look that saw "
        "some to the next (not the time of a step: looks come every two seconds or sooner), and "
        f"at least: {', '.join(floors)}. The stacks of all threads are written down, "
        f"then it is killed.{_doubling(deadlines)}"
    )
    return textwrap.fill(text, width=88)


def _doubling(deadlines: Mapping[str, Any]) -> str:
    """Which limits grow after hangs in vain, and which stay as somebody chose them."""
    known = Deadlines(**deadlines)
    limits = [name for name in OF_PROGRESS if deadlines[name] is not None]
    doubled = [name for name in limits if known.doubles(name)]
    kept = [name for name in limits if name not in doubled]
    told = ""
    if doubled:
        told = (
            " After the second hang in a row without progress, and after each that follows, "
            f"twice as long as before is waited in {', '.join(doubled)}: it may have been "
            "slowness, and no hang."
        )
    if kept:
        told += f" Not in {', '.join(kept)}: the spec says how long."
    return told
