"""Whether a resume continues to the bit: shown by two snapshots of one attempt.

A new process restores the older one, trains to the step of the newer one, and has then
what that one has, or not. Both must be of the same attempt: where a snapshot was itself
restored from, hidden state began anew with it, and a second resume there would only show
that it does so every time.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from supervisor.wire.messages.directive import Directive
from supervisor.wire.snapshots.manifest import Manifest
from trainers.snapshots import durable_store
from trainers.snapshots.durable_store import DamagedError, Snapshot, SnapshotEntry

COMPUTATION = "computation"
"""Key in ``Manifest.state``: what was in force."""
COMPUTE = "compute"
"""Key in ``Manifest.state``: what of the table ``[compute]`` was."""
MOST_STEPS = 2000
MOST_SECONDS = 60.0
"""A proof that would take more is left out."""
CHEAP_SECONDS = 2.0
"""The longest that costs no more than this is taken: more steps show more."""
ONE_ALONE = "a comparison takes two snapshots of one call of fit, or of one loop, in one attempt"
TOO_FAR = (
    f"the snapshots are more than {MOST_STEPS} steps or {MOST_SECONDS:.0f} s apart"
)
WRITTEN_TWICE = (
    "the script appends to files that a restart does not put back ({}): the steps of a"
    " proof would be in there twice"
)
LOGGED_TWICE = "{}: the steps of a proof would be logged in there twice"
OTHER_COMPUTATION = (
    "what is in force, or how state is written, is not what it was when the snapshots were"
    " taken"
)
WRITTEN = 3
"""How state is written, by number: what is the same under two names is told since 2, and
where arrays lie in each other since 3."""


def computation_of(directive: Directive) -> str:
    """A digest of what a directive changes in what is computed, slices aside: the
    manifest has these."""
    asked: tuple[Any, ...] = (
        directive.precision,
        directive.skip,
        directive.rate_factor,
        directive.deterministic,
        sorted(directive.variables.items()),
        directive.visible_gpus,
        directive.reduce,
        directive.script_hash,
        WRITTEN,
    )
    # Snapshots of before there was such a choice stay comparable.
    if directive.jit is not None:
        asked += (("jit", directive.jit),)
    if directive.recompute:
        asked += (("recompute", True),)
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).hexdigest()


def compute_of(directive: Directive) -> dict[str, Any]:
    """What it asks for of the table ``[compute]``, slices aside, by its names there."""
    return {
        "precision": directive.precision,
        "jit": directive.jit,
        "recompute": directive.recompute,
    }


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
