"""Advisories in a terminal: in a line of a status, and in whole paragraphs."""

import textwrap
from collections.abc import Sequence

from supervisor.core.jobs.job_status import AdvisoryStatus
from supervisor.core.text.visible import visible


def advisory_line(one: AdvisoryStatus) -> str:
    """What was measured, in a line."""
    earlier = "" if one.active else f", seen in attempt {one.attempt}"
    return visible(f"advice ({one.kind.replace('_', ' ')}{earlier}): {one.sentence}")


def advisory_text(job: str, advisories: Sequence[AdvisoryStatus]) -> str:
    """What was measured and what to do about it; empty where there is nothing."""
    if not advisories:
        return ""
    parts = [f"Beside that, {job} could do better:"]
    parts += [f"{_over(one)}{one.sentence}. {one.advice}" for one in advisories]
    return "\n\n".join(textwrap.fill(visible(part), width=88) for part in parts)


def _over(one: AdvisoryStatus) -> str:
    return "" if one.active else f"(Seen in attempt {one.attempt}.) "
