"""The ladders that would apply, as a value for JSON and as text for a person."""

import textwrap
from collections.abc import Mapping
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.liveness.hang_detection import Deadlines
from supervisor.core.remediation.escalation import (
    EscalationPlan,
    RemedyPermissions,
    RemedyStep,
)
from supervisor.core.remediation.policy import AT_ONCE, FEW_RETRIES
from supervisor.core.remediation.remedy_table import LADDERS, TENANT
from supervisor.core.text.units import format_duration

TENANT_WHEN = "device_oom or a library's failure, beside somebody else's process"


def ladders_json(
    terms: RemedyPermissions, *, without_progress: int, deadlines: Deadlines
) -> dict[str, Any]:
    """The documented shape of ``policy --json``."""
    grouped: dict[int, tuple[list[str], EscalationPlan]] = {}
    for cause in Cause:
        if cause is not Cause.NONE:
            ladder = LADDERS[cause]
            grouped.setdefault(id(ladder), ([], ladder))[0].append(cause.value)
    situations = [
        _ladder(ladder, causes, terms, without_progress)
        for causes, ladder in grouped.values()
    ]
    situations.append(_ladder(TENANT, [], terms, without_progress))
    return {
        "without_progress": without_progress,
        "situations": situations,
        "deadlines": _deadlines(deadlines),
    }


def _ladder(
    ladder: EscalationPlan,
    causes: list[str],
    terms: RemedyPermissions,
    without_progress: int,
) -> dict[str, Any]:
    few = [FEW_RETRIES[Cause(cause)] for cause in causes if Cause(cause) in FEW_RETRIES]
    return {
        "causes": causes,
        "title": ladder.title,
        "restarts": min([without_progress, *few]),
        "at_once_before_the_first_step": any(Cause(c) in AT_ONCE for c in causes),
        "quarantines": ladder.quarantines,
        "rungs": [_rung(rung, terms) for rung in ladder.rungs],
        "stop": ladder.stop,
    }


def _rung(rung: RemedyStep, terms: RemedyPermissions) -> dict[str, Any]:
    return {
        "name": rung.name,
        "kind": rung.kind.value,
        "does": rung.does,
        "because": rung.because,
        "when": rung.when,
        "tries": rung.uses,
        "needs": sorted(need.value for need in rung.needs),
        "allowed": not rung.needs or bool(rung.needs & terms.allowed),
    }


def _deadlines(deadlines: Deadlines) -> dict[str, float | None]:
    names = ("silent", "startup", "compile", "step", "validation", "snapshot", "factor")
    return {name: getattr(deadlines, name) for name in names}


def ladders_text(value: Mapping[str, Any]) -> str:
    """``value``, as ``ladders_json`` made it, for a person."""
    blocks = [_block(one) for one in value["situations"]]
    blocks.append(_hangs(value["deadlines"]))
    return "\n\n".join(blocks)


def _block(one: Mapping[str, Any]) -> str:
    causes = ", ".join(one["causes"]) or TENANT_WHEN
    lines = [f"{causes}: {one['title']}"]
    if one["at_once_before_the_first_step"]:
        lines.append("     before the first step: stops at once")
    if one["quarantines"]:
        lines.append("     the GPU is kept out of use until a person puts it back")
    lines += [
        line
        for number, rung in enumerate(one["rungs"], start=1)
        for line in _lines(rung, number)
    ]
    restarts = one["restarts"]
    many = "one restart" if restarts == 1 else f"{restarts} restarts"
    lines.append(f"  at the end, or after {many} without progress: stop")
    return "\n".join(lines)


def _lines(rung: Mapping[str, Any], number: int) -> list[str]:
    tries = rung["tries"]
    often = "" if tries in {None, 1} else f", up to {tries} times"
    when = f" [if {rung['when']}]" if rung["when"] else ""
    forbidden = ""
    if not rung["allowed"]:
        needs = " or ".join(f"remedies.{need}" for need in rung["needs"])
        forbidden = f" [not allowed: {needs} = true allows it]"
    text = f"{number:3}. {rung['does']}{often}{when}{forbidden}: {rung['because']}"
    return textwrap.wrap(text, width=88, subsequent_indent="     ")


def _hangs(deadlines: Mapping[str, float | None]) -> str:
    floors = [
        f"{name} {'never' if seconds is None else format_duration(seconds)}"
        for name, seconds in deadlines.items()
        if name != "factor"
    ]
    factor = deadlines["factor"]
    text = (
        f"A hang is {factor:g} times what is usual for the run without progress, and "
        f"at least: {', '.join(floors)}. The stacks of all threads are written down, "
        "then it is killed."
    )
    return textwrap.fill(text, width=88)
