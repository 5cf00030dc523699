"""JSON objects with the fields of a frozen dataclass, by name."""

from dataclasses import MISSING, Field, fields
from types import UnionType
from typing import Any, Self, cast, get_args, get_origin

MOST = 2**64
"""Larger whole numbers are none of ours: the file may be another user's, and of some no
float can be made."""


class JsonRecord:
    """The base of dataclasses that are written to files as JSON.

    What has a default may be missing: an older version has written it.
    """

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields by name."""
        return {item.name: getattr(self, item.name) for item in _fields(type(self))}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self | None:
        """The record in ``value``; None where a field is missing or of another kind, or a
        number that nobody can reckon with."""
        known: dict[str, Any] = {}
        for item in _fields(cls):
            if item.name not in value and item.default is not MISSING:
                continue
            given = _plain(value.get(item.name))
            if item.name not in value or not isinstance(given, _kinds(item.type)):
                return None
            if isinstance(given, int) and abs(given) >= MOST:
                return None
            known[item.name] = given
        return cls(**known)


def _fields(cls: Any) -> tuple[Field[Any], ...]:
    return fields(cls)


def _plain(value: Any) -> Any:
    """JSON knows lists where the records have tuples."""
    return tuple(cast("list[object]", value)) if isinstance(value, list) else value


def _kinds(annotation: Any) -> tuple[type, ...]:
    """The classes that a value of this annotation may have."""
    union = isinstance(annotation, UnionType)
    kinds: tuple[Any, ...] = get_args(annotation) if union else (annotation,)
    found = tuple(get_origin(kind) or kind for kind in kinds)
    return (*found, int) if float in found else found  # of 2.0 JSON makes 2 elsewhere
