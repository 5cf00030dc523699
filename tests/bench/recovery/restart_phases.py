"""Where the seconds of a restart of ours went, from the events of its attempts."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from supervisor.wire.event_file import Record, RecordKind, parse_line
from supervisor.wire.paths import AttemptPaths


class PhaseEnd(NamedTuple):
    """The end of a phase, which has its name."""

    phase: str
    at: float | None
    """Monotonic seconds; None: it was not told."""


def split(moments: Sequence[PhaseEnd], *, since: float) -> dict[str, float]:
    """Seconds of each phase. One that was not told counts to the next; one that was over
    before (a process that waited has imported) takes none."""
    found: dict[str, float] = {}
    for phase, at in moments:
        if at is not None:
            found[phase] = max(at - since, 0.0)
            since = max(at, since)
    return found


def first_at(records: Sequence[Record], kind: str, *, since: float) -> float | None:
    """When the first record of that kind after ``since`` was written."""
    times = (one.ns / 1e9 for one in records if one.kind == kind)
    return next((at for at in times if at > since), None)


def imported_at(records: Sequence[Record]) -> float | None:
    """When its framework was there: what is launched is told before, with Python alone."""
    launched = (one for one in records if one.kind == RecordKind.LAUNCHED)
    times = (
        one.ns / 1e9 for one in launched if len(one.fields.get("versions", ())) > 1
    )
    return next(times, None)


def of_next_attempt(
    records: Sequence[Record],
    *,
    ended: float,
    decided: float | None,
    started: float | None,
    new_step: float,
) -> list[PhaseEnd]:
    """Those of a restart: ``records`` are of the attempt that began with it."""
    proofs = [one.ns / 1e9 for one in records if one.kind == RecordKind.PROOF]
    return [
        PhaseEnd("dead", ended),
        PhaseEnd("decided", decided),
        PhaseEnd("started", started),
        PhaseEnd("imported", imported_at(records)),
        PhaseEnd("restored", first_at(records, RecordKind.RESTORED, since=ended)),
        PhaseEnd(
            "traced, compiled", first_at(records, RecordKind.FIRST_STEP, since=ended)
        ),
        PhaseEnd("proved", max((at for at in proofs if at <= new_step), default=None)),
        PhaseEnd("to the new step", new_step),
    ]


def in_place(
    records: Sequence[Record], *, since: float, new_step: float
) -> list[PhaseEnd]:
    """Those of a recovery in the process; ``records``: of its attempt."""
    return [
        PhaseEnd("noticed", first_at(records, RecordKind.STEP_FAILED, since=since)),
        PhaseEnd("decided", first_at(records, RecordKind.GOES_ON, since=since)),
        PhaseEnd("restored", first_at(records, RecordKind.RESTORED, since=since)),
        PhaseEnd(
            "traced, compiled", first_at(records, RecordKind.FIRST_STEP, since=since)
        ),
        PhaseEnd("to the new step", new_step),
    ]


def recovered(
    state: Path, *, since: float, new_step: float, clocks: float
) -> dict[str, float]:
    """Of what went on at ``since``, in the state directory ``state``. ``clocks``: the
    time of day less the monotonic clock."""
    for root in sorted(state.glob("jobs/*/run-*/attempts/*")):
        paths = AttemptPaths(root)
        end = _exit(paths)
        if end is None or end["ended_ns"] / 1e9 > since:
            return split(_moments(paths, since, new_step, clocks), since=since)
    return {}


def _moments(
    paths: AttemptPaths, since: float, new_step: float, clocks: float
) -> list[PhaseEnd]:
    """``paths``: of the attempt that trained at ``since``."""
    end = _exit(paths)
    if end is None or end["ended_ns"] / 1e9 > new_step:
        return in_place(_records(paths), since=since, new_step=new_step)
    following = AttemptPaths(paths.root.with_name(f"{int(paths.root.name) + 1:04d}"))
    begun = _exit(following)
    return of_next_attempt(
        _records(following),
        ended=end["ended_ns"] / 1e9,
        decided=_written(following.directive, clocks),
        started=None if begun is None else begun["started_ns"] / 1e9,
        new_step=new_step,
    )


def _exit(paths: AttemptPaths) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(paths.exit.read_bytes())
    except FileNotFoundError:
        return None
    return found


def _records(paths: AttemptPaths) -> list[Record]:
    try:
        lines = paths.events.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    return [one for line in lines if (one := parse_line(line)) is not None]


def _written(path: Path, clocks: float) -> float | None:
    try:
        return path.stat().st_mtime - clocks
    except FileNotFoundError:
        return None
