"""Totals of an attempt's snapshots in a small file, written when it has ended.

The event file tells them too, but of a long attempt it has a record a second: to read it
again each time that the run is taken over would hold up all runs.
"""

import contextlib
from dataclasses import dataclass
from typing import Any, cast

from supervisor.core.jobs.snapshot_stats import SnapshotStats, Taken
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.wire.files import read_json, write_json
from supervisor.wire.json_record import JsonRecord
from supervisor.wire.manifest import DURABLE, MEMORY
from supervisor.wire.paths import AttemptPaths

MOST = 10**18
"""A figure above is none of ours: of nanoseconds that are 31 years."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTotals(JsonRecord):
    """One tier."""

    snapshots: int
    failures: int
    ns: int | None = None
    """When the newest whole one was taken; None: there was none."""
    size_bytes: int | None = None
    seconds: float | None = None
    stall_seconds: float | None = None

    def newest(self, tier: str) -> Taken | None:
        """The newest whole one."""
        if self.ns is None:
            return None
        return Taken(
            tier=tier,
            ns=self.ns,
            size_bytes=self.size_bytes,
            seconds=self.seconds,
            stall_seconds=self.stall_seconds,
        )


def keep_totals(paths: AttemptPaths, stats: SnapshotStats) -> None:
    """Write them down; where that cannot be, the event file is read instead."""
    names = stats.snapshots.keys() | stats.failures.keys()
    tiers = {name: _totals(stats, name).to_json() for name in sorted(names)}
    with contextlib.suppress(OSError):
        write_json(paths.snapshot_totals, tiers)


def _totals(stats: SnapshotStats, name: str) -> TierTotals:
    newest = stats.newest.get(name)
    known: dict[str, Any] = {}
    if newest is not None:
        names = ("ns", "size_bytes", "seconds", "stall_seconds")
        known = {one: getattr(newest, one) for one in names}
    return TierTotals(
        snapshots=stats.snapshots.get(name, 0),
        failures=stats.failures.get(name, 0),
        **known,
    )


def snapshot_totals(paths: AttemptPaths, *, keep: bool = False) -> SnapshotStats:
    """Those of an attempt that has ended. Without the file, of a supervisor that died
    with it, or an older version: as its event file tells them. ``keep``: once and for
    all, to be asked for by who looks after the run, whose file it is."""
    written = read_json(paths.snapshot_totals)
    if written is None:
        telemetry = Telemetry(paths)
        telemetry.read_rest()
        telemetry.close()
        if keep:
            keep_totals(paths, telemetry.view.tiers)
        return telemetry.view.tiers
    tiers = {name: _read(written.get(name)) for name in (MEMORY, DURABLE)}
    known = {name: tier for name, tier in tiers.items() if tier is not None}
    newest = {name: tier.newest(name) for name, tier in known.items()}
    return SnapshotStats(
        snapshots={n: t.snapshots for n, t in known.items() if t.snapshots},
        failures={n: t.failures for n, t in known.items() if t.failures},
        newest={name: taken for name, taken in newest.items() if taken is not None},
    )


def _read(value: object) -> TierTotals | None:
    if not isinstance(value, dict):
        return None
    found = TierTotals.from_json(cast("dict[str, Any]", value))
    if found is None:
        return None
    figures = [one for one in found.to_json().values() if one is not None]
    return found if all(0 <= one <= MOST for one in figures) else None
