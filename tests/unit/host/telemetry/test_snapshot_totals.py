"""How many snapshots an attempt took, as its files tell it when it has ended."""

import json
import math
from pathlib import Path

import pytest

from supervisor.core.jobs.snapshot_stats import NO_SNAPSHOTS, SnapshotStats, Taken, fold
from supervisor.host.telemetry.snapshot_totals import keep_totals, snapshot_totals
from supervisor.wire.event_file import EventWriter, RecordKind
from supervisor.wire.paths import AttemptPaths
from tests.support.long_stories import long_story

STATS = fold(
    NO_SNAPSHOTS,
    [
        Taken(tier="durable", ns=5, size_bytes=7, seconds=0.5, stall_seconds=0.25),
        Taken(tier="memory", ns=6, failed=True),
    ],
)


def test_they_are_read_as_they_were_written(tmp_path: Path) -> None:
    """Counts, and the newest whole one of each tier."""
    paths = AttemptPaths(tmp_path)
    keep_totals(paths, STATS)
    assert snapshot_totals(paths) == SnapshotStats(
        snapshots=STATS.snapshots, failures=STATS.failures, newest=STATS.newest
    )
    keep_totals(paths, NO_SNAPSHOTS)
    assert snapshot_totals(paths) == NO_SNAPSHOTS


def test_without_the_file(tmp_path: Path) -> None:
    """Nobody saw the attempt end: its own records tell."""
    paths = AttemptPaths(tmp_path)
    assert snapshot_totals(paths) == NO_SNAPSHOTS
    events = EventWriter(paths.events)
    events.append(RecordKind.SNAPSHOT, tier="durable", step=1, bytes=7)
    events.append(RecordKind.SNAPSHOT_FAILED, tier="durable", because="full")
    found = snapshot_totals(paths)
    assert (found.snapshots, found.failures) == ({"durable": 1}, {"durable": 1})


def test_without_the_file_they_are_kept_if_asked_for(tmp_path: Path) -> None:
    """Once is enough: the records of a long attempt take seconds to read."""
    paths = AttemptPaths(tmp_path)
    events = EventWriter(paths.events)
    events.append(RecordKind.SNAPSHOT, tier="durable", step=1, bytes=7)
    for keep in (False, True):
        assert snapshot_totals(paths, keep=keep).snapshots == {"durable": 1}
        assert paths.snapshot_totals.exists() is keep
    paths.events.unlink()
    assert snapshot_totals(paths).snapshots == {"durable": 1}


def test_without_the_file_all_of_a_long_attempt_counts(tmp_path: Path) -> None:
    """More than one look reads."""
    paths = AttemptPaths(tmp_path)
    count = long_story(paths.events)
    assert snapshot_totals(paths).snapshots == {"memory": count}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"durable": 5},
        {"durable": {"snapshots": "1"}},
        {"other": {}},
        {"durable": {"snapshots": -1, "failures": 0}},
        {"durable": {"snapshots": 10**400, "failures": 0}},
        {"durable": {"snapshots": 1, "failures": 0, "seconds": math.nan}},
    ],
)
def test_a_file_of_somebody_else(tmp_path: Path, value: object) -> None:
    """What is no count counts nothing."""
    paths = AttemptPaths(tmp_path)
    paths.snapshot_totals.write_text(json.dumps(value))
    assert snapshot_totals(paths) == NO_SNAPSHOTS


def test_a_directory_that_takes_nothing(tmp_path: Path) -> None:
    """No attempt ends otherwise for it."""
    keep_totals(AttemptPaths(tmp_path / "gone"), STATS)
