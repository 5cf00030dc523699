"""Whether a resume continues to the bit: shown by two snapshots of one attempt.

A new process restores the older one, trains to the step of the newer one, and has then
what that one has, or not. Both must be of the same attempt: where a snapshot was itself
restored from, hidden state began anew with it, and a second resume there would only show
that it does so every time.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supervisor.wire.directive import Directive
from supervisor.wire.manifest import Manifest
from supervisor.wire.seal import KEY
from trainers.snapshots import durable_store, model_description
from trainers.snapshots.durable_store import DamagedError, Snapshot, SnapshotEntry
from trainers.snapshots.tensor_image import Tensor

COMPUTATION = "computation"
"""Key in ``Manifest.state``: what was in force."""
MOST_STEPS = 2000
MOST_SECONDS = 60.0
"""A proof that would take more is left out."""
CHEAP_SECONDS = 2.0
"""The longest that costs no more than this is taken: more steps show more."""
NAMED = 4
"""Of what differs, so many are named."""

ONE_ALONE = "there is no older snapshot of the same attempt and the same call of fit"
TOO_FAR = (
    f"the snapshots are more than {MOST_STEPS} steps or {MOST_SECONDS:.0f} s apart"
)
OTHER_COMPUTATION = "what is in force is not what it was when the snapshots were taken"

_NOT_STATE = frozenset({"script", "tries", KEY, COMPUTATION})


def computation_of(directive: Directive) -> str:
    """A digest of what a directive changes in what is computed, slices aside: the
    manifest has these."""
    asked = (
        directive.precision,
        directive.skip,
        directive.rate_factor,
        directive.deterministic,
        sorted(directive.variables.items()),
        directive.visible_gpus,
        directive.reduce,
        directive.script_hash,
    )
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()


def beginning(
    newer: Snapshot, entries: Sequence[SnapshotEntry], *, job: str
) -> Snapshot | str:
    """The snapshot to begin the proof of a resume at ``newer`` with; or why there is none."""
    alike = [
        (entry, manifest)
        for entry, manifest in _described(entries, job=job)
        if _comes_before(manifest, newer.manifest)
    ]
    if not alike:
        return ONE_ALONE
    near = [pair for pair in alike if _is_near(pair[1], newer.manifest)]
    for entry, _ in sorted(near, key=lambda pair: _worth(pair[1], newer.manifest)):
        try:
            return durable_store.load(entry, job=job)
        except DamagedError:
            continue  # it is judged where it is needed to go on from
    return TOO_FAR


def _described(
    entries: Sequence[SnapshotEntry], *, job: str
) -> Iterator[tuple[SnapshotEntry, Manifest]]:
    for entry in entries:
        try:
            yield entry, durable_store.describe(entry, job=job)
        except DamagedError:
            continue


def _comes_before(older: Manifest, newer: Manifest) -> bool:
    same = all(
        getattr(older, name) == getattr(newer, name)
        for name in ("attempt", "fit", "slices", "batch")
    )
    kept = all(
        older.state.get(name) == newer.state.get(name)
        for name in ("script", "tries", COMPUTATION)
    )
    before = older.step < newer.step and older.serial < newer.serial
    return same and kept and before and not older.fit_done


def _is_near(older: Manifest, newer: Manifest) -> bool:
    seconds = newer.wall_time - older.wall_time
    return newer.step - older.step <= MOST_STEPS and 0 <= seconds <= MOST_SECONDS


def _worth(older: Manifest, newer: Manifest) -> tuple[bool, int]:
    """Sorted by it, the best comes first: the farthest cheap one, else the nearest."""
    steps = newer.step - older.step
    dear = newer.wall_time - older.wall_time > CHEAP_SECONDS
    return dear, steps if dear else -steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What came of a proof."""

    tensors: int
    """So many were compared."""
    variables: tuple[str, ...] = ()
    """Names of the variables that differ."""
    others: tuple[str, ...] = ()
    """Where else the state differs, by path."""
    of: int = field(default=0)
    """Variables that were compared."""

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.variables and not self.others

    @property
    def sentence(self) -> str:
        """What differs, in half a sentence; nothing does: empty."""
        parts = []
        if self.variables:
            many = f"{len(self.variables)} of {self.of} variables"
            parts.append(f"{many} ({_listed(self.variables)})")
        if self.others:
            parts.append(_listed(self.others))
        return " and ".join(parts)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def compare(
    newer: Snapshot, state: Mapping[str, Any], tensors: Sequence[Tensor]
) -> Comparison:
    """``state`` and ``tensors``, as they would be saved now, beside those of ``newer``."""
    kept = {name: one for name, one in newer.tensors.items() if _is_state(name)}
    now = {one.name: one for one in tensors if _is_state(one.name)}
    names: list[str] = newer.manifest.state["variables"]
    differing = [
        name
        for name in sorted({*kept, *now})
        if name not in kept or name not in now or not _same(kept[name], now[name])
    ]
    before = _plain(newer.manifest.state)
    paths = [path for path, _, _ in differences(before, _plain(state))]
    return Comparison(
        tensors=len(now),
        variables=tuple(_variable(names, one) for one in differing if _is_of(one)),
        others=(*(one for one in differing if not _is_of(one)), *paths),
        of=len(names),
    )


def _is_state(tensor: str) -> bool:
    """Not the model's description, which is written once for many snapshots."""
    return tensor != model_description.NAME


def _is_of(tensor: str) -> bool:
    """Whether ``tensor`` is that of a variable."""
    return tensor.startswith("variable/")


def _variable(names: Sequence[str], tensor: str) -> str:
    index = int(tensor.removeprefix("variable/"))
    return names[index] if index < len(names) else tensor


def _same(kept: np.ndarray, tensor: Tensor) -> bool:
    now = np.asarray(tensor.read())
    same_kind = now.dtype == kept.dtype and now.shape == kept.shape
    return same_kind and now.tobytes() == kept.tobytes()


def _plain(state: Mapping[str, Any]) -> Any:
    """As JSON gives it back."""
    left = {key: value for key, value in state.items() if key not in _NOT_STATE}
    return json.loads(json.dumps(left))


def differences(
    before: Any, now: Any, path: str = "state"
) -> Iterator[tuple[str, Any, Any]]:
    """Where two values of JSON differ: path, and both."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted({*before, *now}):
            inner = f"{path}.{key}"
            yield from differences(before.get(key), now.get(key), inner)
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif json.dumps(before) != json.dumps(now):  # NaN is itself
        yield path, before, now
