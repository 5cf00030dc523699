"""Fields of an event file's records, read by what they should be: the file may hold anything."""

from dataclasses import asdict, replace
from typing import Any, cast

from supervisor.wire.event_file import MOST_NS, Record
from supervisor.wire.records.near_limit import NearLimit
from supervisor.wire.records.step_needs import StepNeeds

MOST = 1e15
"""A figure of steps above is none of ours."""


def integer(record: Record, name: str) -> int | None:
    """None: it is none, or none of ours."""
    value = record.fields.get(name)
    return value if type(value) is int and abs(value) < MOST_NS else None


def text(record: Record, name: str) -> str:
    """Of 2,000 characters at most; empty: it is not there."""
    return str(record.fields.get(name, ""))[:2000]


def seconds(record: Record, name: str) -> float | None:
    """As it is, or as a whole number; None: it is neither."""
    value = record.fields.get(name)
    whole = integer(record, name)
    return value if type(value) is float else None if whole is None else float(whole)


def sentences(value: Any) -> tuple[str, ...]:
    """Those of a list, 20 of 500 characters at most."""
    found = cast("list[object]", value) if isinstance(value, list) else []
    return tuple(str(item)[:500] for item in found[:20])


def step_needs_of(record: Record) -> StepNeeds | None:
    """None, where it is not what training writes."""
    found = StepNeeds.from_json(record.fields)
    if found is None:
        return None
    figures = [one for one in asdict(found).values() if isinstance(one, int)]
    if found.slices < 1 or not all(0 <= one <= MOST for one in figures):
        return None
    return replace(found, optimizer=found.optimizer[:100], backend=found.backend[:100])


def near_limit_of(value: object) -> NearLimit | None:
    """None: there is none, or not as training writes it: the file may hold anything."""
    if not isinstance(value, dict):
        return None
    found = NearLimit.from_json(cast("dict[str, Any]", value))
    if found is None or not 1 <= found.size <= found.first_size <= found.batch:
        return None
    figures = (found.batch, found.peak_bytes, found.limit_bytes)
    return found if all(0 < one <= MOST for one in figures) else None
