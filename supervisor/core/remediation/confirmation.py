"""Confirmation of remedies: in force are those that the attempt has confirmed.

The training process says of each thing in its directive whether it holds there
(``RecordKind.APPLIED``). A script may have settings of its own, and what should
have set ours may not have been asked: so what is not confirmed when the first step is
made is told, and taken out of what is in force. It is not asked for again, for it would
not come into force the next time either.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.overrides import Overrides, changes, described


class _SetPart(NamedTuple):
    """Something that a remedy sets."""

    confirmed_by: tuple[str, ...]
    """The names of all that the attempt has to confirm."""
    off: Mapping[str, Any] = MappingProxyType({})
    """Fields of the overrides, where it is not in force."""
    off_detour: Mapping[str, Any] = MappingProxyType({})
    """Fields of their detour, then."""


_PARTS: Mapping[str, _SetPart] = {
    # What it does without is planned anew from what was measured.
    "slices": _SetPart(("slice_size",)),
    "allocator": _SetPart(("TF_GPU_ALLOCATOR",), {"async_allocator": False}),
    "memory growth": _SetPart(("TF_FORCE_GPU_ALLOW_GROWTH",), {"growth": False}),
    "headroom": _SetPart(("gpu_memory_limit_bytes",), {"headroom": None}),
    "cuDNN workspace MiB": _SetPart(
        ("TF_CUDNN_WORKSPACE_LIMIT_IN_MB",), {"workspace_mib": None}
    ),
    "autotune": _SetPart(
        ("TF_CUDNN_USE_AUTOTUNE", "XLA_FLAGS"), {"autotune_off": False}
    ),
    "deterministic": _SetPart(
        ("TF_DETERMINISTIC_OPS", "deterministic"), {"deterministic": False}
    ),
    "precision": _SetPart(("precision",), {"precision": None}),
    # The GPU stays one to stay away from.
    "avoided GPUs": _SetPart(("visible_gpus",)),
    # It ends by itself.
    "snapshots before step": _SetPart(("restore_before_step",)),
    "skipped steps": _SetPart(("skip",), off_detour={"skip": None}),
    "learning rate": _SetPart(("rate_factor",), off_detour={"rate_factor": 1.0}),
}
"""By the names of ``overrides.described``; what the supervisor does itself is none."""

NAMES = frozenset(name for part in _PARTS.values() for name in part.confirmed_by)
"""Of all that may be confirmed: fields of the directive, environment variables."""


def in_force(overrides: Overrides, last: AttemptHistory | None) -> dict[str, object]:
    """What the newest attempt has confirmed of ``overrides``, as people read it."""
    waiting = pending(overrides, last)
    told = described(overrides).items()
    return {name: value for name, value in told if name not in waiting}


def pending(overrides: Overrides, last: AttemptHistory | None) -> dict[str, object]:
    """What was asked for and is not confirmed (yet). Attempts of before there were such
    words are believed."""
    told = described(overrides).items()
    asked = {name: value for name, value in told if name in _PARTS}
    if last is None:
        return asked
    had = {} if last.overrides is None else described(last.overrides)
    return {
        name: value
        for name, value in asked.items()
        if not _confirmed(name, last)
        or name not in had
        or (name != "slices" and had[name] != value)  # those may be settled on later
    }


def _confirmed(name: str, attempt: AttemptHistory) -> bool:
    said = attempt.applied
    return said is None or all(said.get(one) for one in _PARTS[name].confirmed_by)


def unmet(
    overrides: Overrides, attempt: AttemptHistory, *, stepped: bool
) -> dict[str, object]:
    """What of ``overrides`` is known not to be in force in ``attempt``.

    Before its first step (``stepped`` False) only what it has denied.
    """
    said = attempt.applied
    if said is None:
        return {}
    return {
        name: value
        for name, value in pending(overrides, attempt).items()
        if stepped or any(said.get(one) is False for one in _PARTS[name].confirmed_by)
    }


def without(overrides: Overrides, names: Mapping[str, object]) -> Overrides:
    """What is left of ``overrides`` where these are not in force."""
    for name in names:
        overrides = replace(overrides, **_PARTS[name].off)
        if overrides.detour is not None:
            detour = replace(overrides.detour, **_PARTS[name].off_detour)
            overrides = replace(overrides, detour=detour)
    return overrides


def in_vain(
    before: Overrides, after: Overrides, *, known: Mapping[str, object]
) -> bool:
    """Whether a remedy would only ask again for what did not come into force: ``known``,
    of earlier attempts."""
    asked = described(after)
    new = changes(before, after)
    return bool(new) and all(
        name in known and known[name] == asked.get(name) for name in new
    )


def sentence(names: Mapping[str, object]) -> str:
    """What was asked for in vain, for a person."""
    listed = ", ".join(f"{name} {value}" for name, value in names.items())
    return f"{listed}: asked for, and not in force"
