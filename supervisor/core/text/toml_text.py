"""TOML, written: the standard library only reads it."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

BARE = re.compile(r"[A-Za-z0-9_-]+")
"""Keys that need no quotes."""


def toml(value: Mapping[str, Any]) -> str:
    """``value`` as a TOML document. None is left out: TOML has no word for it.

    Strings, numbers, booleans and arrays of JSON are those of TOML 1.0, once nothing is
    escaped that need not be; DEL alone must be in TOML and is not in JSON.
    """
    return "".join(f"{_key(k)} = {_value(v)}\n" for k, v in _known(value))


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        table = cast("Mapping[str, Any]", value)
        pairs = (f"{_key(k)} = {_value(v)}" for k, v in _known(table))
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, (list, tuple)):
        items = cast("Sequence[Any]", value)
        return "[" + ", ".join(_value(item) for item in items) + "]"
    return _text(value if isinstance(value, str | int | float) else str(value))


def _known(value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, one) for key, one in value.items() if one is not None]


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_tables(value: Mapping[str, Any]) -> str:
    """The same, with each table under a heading of its own, as people write it."""
    plain = {k: v for k, v in value.items() if not isinstance(v, Mapping)}
    parts = [toml(plain) if plain else ""]
    for name, one in value.items():
        if isinstance(one, Mapping):
            table = cast("Mapping[str, Any]", one)
            parts.append(f"[{_key(name)}]\n{toml(table)}")
    return "\n".join(part for part in parts if part)
