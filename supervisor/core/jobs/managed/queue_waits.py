"""How long jobs have waited for their turn: since they were asked for last, or ended."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class QueueWaits:
    """When each job that waits began to, in monotonic seconds."""

    since: Mapping[str, float] = field(default_factory=dict[str, float])

    def seen(
        self, queued: Iterable[str], *, now: float, earlier: Mapping[str, float]
    ) -> "QueueWaits":
        """After a look at who waits now. ``earlier``: how many seconds ago an earlier
        daemon had put jobs into the queue; of others it is now."""
        known = self.since
        return QueueWaits(
            {
                job: known[job] if job in known else now - earlier.get(job, 0.0)
                for job in queued
            }
        )

    def longest(self, owners: Mapping[str, str], *, now: float) -> dict[str, float]:
        """The longest wait of each owner, in seconds; ``owners``: by job."""
        waits: dict[str, float] = {}
        for job, since in self.since.items():
            owner = owners[job]
            waits[owner] = max(waits.get(owner, 0.0), now - since)
        return waits
