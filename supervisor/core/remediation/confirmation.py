"""Which remedies are in force: those that the attempt has confirmed, not all asked for.

The training process says of each thing in its directive whether it holds there
(``wire.events.Kind.APPLIED``). A script may have settings of its own, and what should
have set ours may not have been asked: so what is not confirmed when the first step is
made is told, and taken out of what is in force. It is not asked for again, for it would
not come into force the next time either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.overrides import (
    LossRecovery,
    Overrides,
    changes,
    described,
)


def _detour(**fields: object) -> Callable[[Overrides], Overrides]:
    def change(overrides: Overrides) -> Overrides:
        before: LossRecovery | None = overrides.detour
        after = None if before is None else replace(before, **fields)  # type: ignore[arg-type]  # by name
        return replace(overrides, detour=after)

    return change


def _off(**fields: object) -> Callable[[Overrides], Overrides]:
    return lambda overrides: replace(overrides, **fields)  # type: ignore[arg-type]  # by name


def _as_it_was(overrides: Overrides) -> Overrides:
    return overrides


@dataclass(frozen=True, slots=True)
class _Part:
    """Something that a remedy sets."""

    confirmed_by: tuple[str, ...]
    """The names of all that the attempt has to confirm."""
    without: Callable[[Overrides], Overrides] = _as_it_was
    """What is left where it is not in force."""


_PARTS: Mapping[str, _Part] = {
    # What it does without is planned anew from what was measured.
    "slices": _Part(("slice_size",)),
    "allocator": _Part(("TF_GPU_ALLOCATOR",), _off(async_allocator=False)),
    "memory growth": _Part(("TF_FORCE_GPU_ALLOW_GROWTH",), _off(growth=False)),
    "headroom": _Part(("gpu_memory_limit_bytes",), _off(headroom=None)),
    "cuDNN workspace MiB": _Part(
        ("TF_CUDNN_WORKSPACE_LIMIT_IN_MB",), _off(workspace_mib=None)
    ),
    "autotune": _Part(("TF_CUDNN_USE_AUTOTUNE", "XLA_FLAGS"), _off(autotune_off=False)),
    "deterministic": _Part(
        ("TF_DETERMINISTIC_OPS", "deterministic"), _off(deterministic=False)
    ),
    "precision": _Part(("precision",), _off(precision=None)),
    # The GPU stays one to stay away from.
    "avoided GPUs": _Part(("visible_gpus",)),
    # It ends by itself.
    "snapshots before step": _Part(("restore_before_step",)),
    "skipped steps": _Part(("skip",), _detour(skip=None)),
    "learning rate": _Part(("rate_factor",), _detour(rate_factor=1.0)),
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
        overrides = _PARTS[name].without(overrides)
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
