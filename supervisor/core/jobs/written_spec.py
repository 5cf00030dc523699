"""A stored spec, written as a person writes one: what ``build_spec`` reads.

A spec is stored as values: an interval is two numbers, a rate is a number, and what is off
is null. None of that can stand in a file.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args, get_type_hints

from supervisor.core.jobs.spec import Spec, Table
from supervisor.core.jobs.spec_values import (
    Deadline,
    Duration,
    Interval,
    Listen,
    Rate,
)
from supervisor.core.text.address import Address
from supervisor.core.text.units import parse_duration

UNITS = ("s", "min", "h", "d", "ms")
"""Of a duration, as they are tried."""
OFF = "off"


def written(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What ``stored``, a spec's ``model_dump(mode="json")``, says that is not so anyway, as
    the tables of a file."""
    usual = Spec(script="x").model_dump(mode="json", exclude={"script"})
    return dict(_differing(Spec, stored, usual))


def _differing(
    model: type[Table], stored: Mapping[str, Any], usual: Mapping[str, Any]
) -> Iterator[tuple[str, Any]]:
    hints = get_type_hints(model, include_extras=True)
    for key, value in stored.items():
        kind = hints.get(key)
        if isinstance(kind, type) and issubclass(kind, Table):
            if inner := dict(_differing(kind, value, usual[key])):
                yield key, inner
        elif key not in usual or value != usual[key]:
            yield key, _as_written(kind, value)


def _as_written(kind: Any, value: Any) -> Any:
    if value is None:
        return OFF  # it differs from the default: the kind knows the word
    for one, write in _WRITERS:
        if kind is one or one in get_args(kind):
            return write(value)
    return value


def duration_text(seconds: float) -> str:
    """That which ``parse_duration`` reads as ``seconds``; of what nobody can have written,
    the nearest."""
    texts = (text for unit in UNITS for text in _counts(seconds, unit))
    return min(texts, key=lambda text: abs(_read(text) - seconds))


def _counts(seconds: float, unit: str) -> Iterator[str]:
    """The number and its neighbours: a product and its quotient differ by rounding."""
    count = seconds / parse_duration(f"1{unit}")
    for one in (count, math.nextafter(count, 0), math.nextafter(count, math.inf)):
        yield f"{one:.9f}".rstrip("0").rstrip(".") + unit


def _read(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError:
        return math.inf  # too many digits, or none that counts


def _interval_text(value: Mapping[str, Any]) -> str:
    steps = value["steps"]
    return duration_text(value["seconds"]) if steps is None else f"{steps}steps"


def _address_text(value: Mapping[str, Any]) -> str:
    return str(Address(host=value["host"], port=value["port"]))


_WRITERS: tuple[tuple[Any, Callable[[Any], str]], ...] = (
    (Duration, duration_text),
    (Deadline, duration_text),
    (Interval, _interval_text),
    (Listen, _address_text),
    (Rate, "{}B/s".format),
)
"""Of the kinds of value that are not stored as they are written."""
