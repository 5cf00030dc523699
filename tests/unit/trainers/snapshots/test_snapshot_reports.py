"""What is told of snapshots in memory, of which there may be many."""

from typing import Any

from supervisor.host.telemetry.attempt_view import MOST_AT_ONCE, AttemptView, fold
from supervisor.wire.event_file import Record, RecordKind
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY
from tests.support.snapshot_tiers import manifest
from trainers.snapshots.snapshot_reports import SnapshotNews
from trainers.snapshots.writer import Saved


class Told:
    """What was told, as the supervisor reads it."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.news = SnapshotNews(self._say)
        self.step = 0

    def _say(self, **fields: Any) -> None:
        self.records.append(Record(RecordKind.SNAPSHOT, 0, fields))

    def taken(self, now: float, tier: str = MEMORY) -> None:
        """The next snapshot is whole."""
        self.step += tier == MEMORY
        saved = Saved(manifest(self.step, 1), None, None, 0.0, 0.0, 8, tier)
        self.news.taken(saved, now=now)

    @property
    def steps(self) -> list[tuple[str, int]]:
        """Tier and step of each record."""
        return [(r.fields["tier"], r.fields["step"]) for r in self.records]

    def counted(self) -> dict[str, int]:
        """Snapshots by tier, by all records together."""
        return dict(fold(AttemptView(), self.records).tiers.snapshots)


def test_snapshots_in_memory_are_told_together() -> None:
    """One record a second, of the newest of them, counts all since the last."""
    told = Told()
    for now in (10.0, 10.3, 10.6, 10.9, 11.2, 11.5):
        told.taken(now)
    assert told.steps == [(MEMORY, 1), (MEMORY, 5)]
    assert told.counted() == {MEMORY: 5}
    told.taken(60.0)
    assert told.steps[2:] == [(MEMORY, 7)]
    assert told.counted() == {MEMORY: 7}


def test_what_is_on_disk_is_told_at_once_and_of_memory_first() -> None:
    """A fit that is over, or drained, has told of all its snapshots."""
    told = Told()
    for now in (10.0, 10.3):
        told.taken(now)
    told.taken(10.4, DURABLE)
    told.taken(10.5, DURABLE)
    assert told.steps == [(MEMORY, 1), (MEMORY, 2), (DURABLE, 2), (DURABLE, 2)]
    assert told.counted() == {MEMORY: 2, DURABLE: 2}


def test_nobody_can_count_for_more_than_there_may_be() -> None:
    """A number that is none, or beyond all reason, does no harm."""
    counts = ((-3, 1), ("9", 1), (10**400, 1), (10**9, MOST_AT_ONCE))
    for number, count in counts:
        record = Record(RecordKind.SNAPSHOT, 0, {"tier": MEMORY, "snapshots": number})
        view = fold(AttemptView(), [record])
        assert view.tiers.snapshots == {MEMORY: count}


def test_snapshots_are_due_from_the_first_plan_on() -> None:
    """Later plans change the intervals, not since when there are any."""
    plans = [
        Record(RecordKind.SNAPSHOT_PLAN, ns, {"durable_seconds": ns / 1e9})
        for ns in (10**9, 3 * 10**9)
    ]
    whole = fold(AttemptView(), plans)
    assert whole == fold(fold(AttemptView(), plans[:1]), plans[1:])
    assert whole.planned_ns == 10**9
    assert whole.snapshot_plan is not None
    assert whole.snapshot_plan.durable_seconds == 3.0
    assert fold(AttemptView(), ()).planned_ns is None
