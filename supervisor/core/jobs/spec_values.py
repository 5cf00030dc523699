"""The values of a spec as people write them: sizes, durations, names, shares.

Each is read by a function that says what it expected, and described by a JSON Schema of
what it takes, for whoever builds specs by machine.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, cast

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from supervisor.core.jobs.remote.remote_address import (
    ADDRESS,
    ADDRESS_EXPECTED,
    checked_address,
)
from supervisor.core.text.address import Address, parse_address
from supervisor.core.text.units import (
    DURATION_EXPECTED,
    SIZE_EXPECTED,
    parse_duration,
    parse_size,
)

OFF: dict[str, Any] = {"const": "off"}


def _text(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _takes(first: dict[str, Any], *others: dict[str, Any]) -> Any:
    """The type, for JSON Schema alone, of what is one of these."""
    either = {"anyOf": [first, *others]} if others else first
    return Annotated[object, WithJsonSchema(either)]


def _plain(value: str) -> str:
    """No path, argument or variable has a NUL or half of a surrogate pair in it."""
    if "\0" in value or any("\ud800" <= letter <= "\udfff" for letter in value):
        message = f"expected text in UTF-8 that can be a file's name, got {value!r}"
        raise ValueError(message)
    return value


def _path(value: str) -> str:
    if value:
        return value
    message = "must not be empty"
    raise ValueError(message)


def _variable(value: str) -> str:
    if value and "=" not in value:
        return value
    message = f"expected the name of an environment variable, got {value!r}"
    raise ValueError(message)


Text = Annotated[str, AfterValidator(_plain), WithJsonSchema(_text(r"^[^\u0000]*$"))]
Path = Annotated[Text, AfterValidator(_path), WithJsonSchema(_text(r"^[^\u0000]+$"))]
VariableName = Annotated[
    Text, AfterValidator(_variable), WithJsonSchema(_text(r"^[^=\u0000]+$"))
]


MODULE = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"


def _module(value: str) -> str:
    if re.fullmatch(MODULE, value):
        return value
    message = f"expected the name of a module such as pkg.train, got {value!r}"
    raise ValueError(message)


ModuleName = Annotated[
    Text,
    AfterValidator(_module),
    WithJsonSchema(_text(rf"^{MODULE}$")),
]


def _directories(value: object) -> object:
    if isinstance(value, bool):
        return WORKING_DIRECTORY if value else ()
    if isinstance(value, (list, tuple)):
        return tuple(cast("list[object]", value))
    message = f"expected true, false or a list of paths, got {value!r}"
    raise ValueError(message)


DIRECTORIES = (
    {"type": "boolean"},
    {"type": "array", "items": _text(r"^[^\u0000]+$")},
)
Directories = Annotated[
    tuple[Path, ...],
    BeforeValidator(_directories, json_schema_input_type=_takes(*DIRECTORIES)),
]

WORKING_DIRECTORY = (".",)


def _size(value: object) -> int:
    if isinstance(value, str):
        return parse_size(value)
    if type(value) is int and value > 0:
        return value
    message = f"expected {SIZE_EXPECTED}, got {value!r}"
    raise ValueError(message)


def _duration(value: object) -> float:
    if isinstance(value, str):
        return parse_duration(value)
    message = f"expected {DURATION_EXPECTED}, got {value!r}"
    raise ValueError(message)


SIZE = (
    _text(r"^[1-9][0-9]{0,14} ?([kKmMgGtT][iI]?)?[bB]$"),
    {"type": "integer", "minimum": 1},
)
DURATION = _text(
    r"^[1-9][0-9]{0,14} ?(ms|s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)$"
)
Size = Annotated[int, BeforeValidator(_size, json_schema_input_type=_takes(*SIZE))]
Duration = Annotated[
    float, BeforeValidator(_duration, json_schema_input_type=_takes(DURATION))
]
NAME_EXPECTED = (
    "a name of letters (a to z), digits, '.', '_' and '-', at most 64, not beginning with "
    "'.' or '-'"
)
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")


def checked_name(value: object) -> str:
    """A job's name. Raises ValueError: it cannot be one."""
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    message = f"expected {NAME_EXPECTED}, got {value!r}"
    raise ValueError(message)


JobName = Annotated[
    str,
    BeforeValidator(
        checked_name, json_schema_input_type=_takes(_text(f"^{_NAME.pattern}$"))
    ),
]


def _gpu(value: object) -> int | str:
    if (type(value) is int and 0 <= value < 1024) or (
        isinstance(value, str) and re.fullmatch(r"(GPU|MIG)-[0-9A-Za-z/-]+", value)
    ):
        return value
    message = f"expected a GPU's index, such as 0, or its UUID, got {value!r}"
    raise ValueError(message)


GPU = (
    {"type": "integer", "minimum": 0, "maximum": 1023},
    _text("^(GPU|MIG)-[0-9A-Za-z/-]+$"),
)
Gpu = Annotated[int | str, BeforeValidator(_gpu, json_schema_input_type=_takes(*GPU))]


def _listen(value: object) -> Address | None:
    if value == "off":
        return None
    if isinstance(value, str):
        return parse_address(value)
    message = f"expected HOST:PORT or off, got {value!r}"
    raise ValueError(message)


PORT = (
    "([0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
)
LISTEN = _text(rf"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]*):{PORT}$")
Listen = Annotated[
    Address | None,
    BeforeValidator(_listen, json_schema_input_type=_takes(LISTEN, OFF)),
]


def _deadline(value: object) -> float | None:
    return None if value == "off" else _duration(value)


Deadline = Annotated[
    float | None,
    BeforeValidator(_deadline, json_schema_input_type=_takes(DURATION, OFF)),
]


@dataclass(frozen=True, slots=True)
class SnapshotInterval:
    """Every so many seconds or steps, never both."""

    seconds: float | None = None
    steps: int | None = None


_STEPS = re.compile(r"\s*([0-9]{1,9})\s*steps?\s*")
INTERVAL_EXPECTED = "an interval such as 30s, 5min or 200steps"


def parse_interval(text: str) -> SnapshotInterval:
    """``30s`` or ``200steps``. Raises ValueError, saying what was expected."""
    steps = _STEPS.fullmatch(text)
    if steps and int(steps[1]):
        return SnapshotInterval(steps=int(steps[1]))
    try:
        return SnapshotInterval(seconds=parse_duration(text))
    except ValueError:
        message = f"expected {INTERVAL_EXPECTED}, got {text!r}"
        raise ValueError(message) from None


def _interval(value: object) -> SnapshotInterval:
    if isinstance(value, str):
        return parse_interval(value)
    message = f"expected {INTERVAL_EXPECTED}, got {value!r}"
    raise ValueError(message)


INTERVAL = (DURATION, _text("^[1-9][0-9]{0,8} ?steps?$"))
Interval = Annotated[
    SnapshotInterval,
    BeforeValidator(_interval, json_schema_input_type=_takes(*INTERVAL)),
]


def _path_of(what: str) -> Callable[[object], str | None]:
    def path(value: object) -> str | None:
        if value == "off":
            return None
        if isinstance(value, str) and value.startswith("/") and "\0" not in value:
            return value
        message = f"expected the absolute path of {what}, or off"
        if "://" not in str(value):  # else it may hold a secret
            message += f", got {value!r}"
        raise ValueError(message)

    return path


ABSOLUTE = _text(r"^/[^\u0000]*$")
Tmpfs = Annotated[
    str | None,
    BeforeValidator(_path_of("a tmpfs"), json_schema_input_type=_takes(ABSOLUTE, OFF)),
]

BUDGET_EXPECTED = "a share such as 1% or 0.01, above 0 and at most 50%"


def _share(value: object) -> object:
    """A percentage as a part of 1; what is none as it is."""
    percent = isinstance(value, str) and re.fullmatch(r"([0-9.]{1,9})\s*%", value)
    try:
        return float(percent[1]) / 100 if percent else value
    except ValueError:
        return None


def _budget(value: object) -> float:
    share = _share(value)
    if isinstance(share, float) and 0 < share <= 0.5:
        return share
    message = f"expected {BUDGET_EXPECTED}, got {value!r}"
    raise ValueError(message)


BUDGET = (
    {"type": "number", "exclusiveMinimum": 0, "maximum": 0.5},
    _text("^([1-9]|[1-4][0-9]|50)%$"),
)
Budget = Annotated[
    float, BeforeValidator(_budget, json_schema_input_type=_takes(*BUDGET))
]

THRESHOLD_EXPECTED = "a part such as 90% or 0.9, above 0 and at most 100%, or off"


def _threshold(value: object) -> float | None:
    part = _share(value)
    if part == "off":
        return None
    if isinstance(part, (int, float)) and part is not True and 0 < part <= 1:
        return float(part)
    message = f"expected {THRESHOLD_EXPECTED}, got {value!r}"
    raise ValueError(message)


THRESHOLD = (
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    _text("^([1-9]|[1-9][0-9]|100)%$"),
    OFF,
)
Threshold = Annotated[
    float | None,
    BeforeValidator(_threshold, json_schema_input_type=_takes(*THRESHOLD)),
]


PemFile = Annotated[
    str | None,
    BeforeValidator(
        _path_of("a PEM file"), json_schema_input_type=_takes(ABSOLUTE, OFF)
    ),
]


AddressFile = Annotated[
    str | None,
    BeforeValidator(
        _path_of("a file of addresses"), json_schema_input_type=_takes(ABSOLUTE, OFF)
    ),
]


def _remote(value: object) -> str | None:
    if value == "off":
        return None
    if isinstance(value, str):
        return checked_address(value)
    message = f"expected {ADDRESS_EXPECTED}"
    raise ValueError(message)


REMOTE = _text(ADDRESS)
RemoteAddress = Annotated[
    str | None, BeforeValidator(_remote, json_schema_input_type=_takes(REMOTE, OFF))
]
OnlyOff = Annotated[None, BeforeValidator(_remote, json_schema_input_type=_takes(OFF))]

RATE_EXPECTED = "a rate such as 50MB/s or 1GiB/s"


def _rate(value: object) -> int:
    if isinstance(value, str) and value.endswith("/s"):
        try:
            return parse_size(value.removesuffix("/s"))
        except ValueError:
            pass
    message = f"expected {RATE_EXPECTED}, got {value!r}"
    raise ValueError(message)


RATE = _text(r"^[1-9][0-9]{0,14} ?([kKmMgGtT][iI]?)?[bB]/s$")
Rate = Annotated[int, BeforeValidator(_rate, json_schema_input_type=_takes(RATE))]

WITH_TLS: dict[str, Any] = {
    "properties": {"certificate": ABSOLUTE, "key": ABSOLUTE},
    "required": ["certificate", "key"],
}
WITHOUT_TLS: dict[str, Any] = {
    "properties": dict.fromkeys(("certificate", "key", "client_ca"), OFF)
}
"""JSON Schema of the tables that give both, and of those that give none of them."""
