"""What is left at the end of an attempt: the crash report and the exit record."""

from dataclasses import MISSING, Field, dataclass, fields
from types import UnionType
from typing import Any, Self, cast, get_args, get_origin


class _Record:
    """Reading and writing for the frozen dataclasses below."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields by name."""
        return {item.name: getattr(self, item.name) for item in _fields(type(self))}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self | None:
        """The record in ``value``; None where a field is missing or of another kind. One
        that has a default may be missing: an older version has written the record."""
        known: dict[str, Any] = {}
        for item in _fields(cls):
            if item.name not in value and item.default is not MISSING:
                continue
            given = _plain(value.get(item.name))
            if item.name not in value or not isinstance(given, _kinds(item.type)):
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
    return tuple(get_origin(kind) or kind for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashReport(_Record):
    """An uncaught Python exception, written by the training process itself.

    It outranks what follows: TensorFlow may still abort while the interpreter ends.
    """

    exception: str
    """Qualified name, such as ``tensorflow...errors_impl.ResourceExhaustedError``."""
    message: str
    traceback: str
    """As Python prints it, our own frames left out."""
    steps_done: int | None
    """Steps of this attempt that were completed before; None: not known."""
    in_fit: bool
    """Whether a supervised ``fit`` was running."""
    memory: str | None = None
    """What memory was asked for when it ran out (``wire.oom_subject``); None: it did not, or
    nobody can tell."""
    allocation: str | None = None
    """The allocation that failed before, where this exception is only what came of it:
    Keras goes on after some failures, with a model of which a part was not made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitRecord(_Record):
    """How the training process ended, written by the shim after all others are gone."""

    pid: int
    exit_code: int | None
    """What it passed to ``exit``; None if a signal ended it."""
    signal: int | None
    core_dumped: bool
    max_rss_bytes: int
    user_seconds: float
    system_seconds: float
    started_ns: int
    ended_ns: int
    """Monotonic nanoseconds."""
    asked_to_stop: bool
    """Whether the shim passed on a SIGTERM before."""
    swept: int
    """Processes of this attempt that outlived training and were ended."""
    unkillable: tuple[int, ...]
    """Those that did not react to SIGKILL (D state)."""
    oom_kills: int | None = None
    """OOM kills in the memory cgroup while it ran; None: they could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shimmed(_Record):
    """Who the shim is and whom it watches, written before training starts."""

    shim_pid: int
    shim_started_ticks: int
    pid: int
    boot_id: str
    started_ticks: int
    """Start time of ``pid`` in clock ticks since boot: field 22 of /proc/PID/stat."""
