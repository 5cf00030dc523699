"""The answer of a child of the doctor: one JSON object, in time."""

import json
from collections.abc import Sequence
from typing import Any, cast

from supervisor.host.process.child_process import Piped, wait_for

PROBE_SECONDS = 15.0
"""A child that has not answered by then is given up."""


def answer_of(
    command: Sequence[str], *, seconds: float = PROBE_SECONDS
) -> dict[str, Any] | None:
    """The JSON object that a child prints; None: it prints none in time."""
    try:
        child = Piped(command)
    except OSError:
        return None
    try:
        whole, parts = False, [b""]
        while not whole and wait_for([child.output], seconds=seconds):
            part, whole = child.read()
            parts.append(part)
    finally:
        child.close(wait_seconds=1.0)
    try:
        value: object = json.loads(b"".join(parts))
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
