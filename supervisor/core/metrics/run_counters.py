"""The time between attempts, which whoever looks after a run has to count.

No page of an attempt tells of it. It is kept with the run, so that it neither falls nor
climbs anew when another supervisor takes the run up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.core.jobs.job_status import JobState

BETWEEN = {JobState.WAITING: "waiting", JobState.LAUNCHING: "down"}
"""States in which no training process is there, by the name of their time."""
KEPT_SECONDS = 30.0
"""How often what is counted is written down while it goes on."""
UNKEPT_SECONDS = 2 * KEPT_SECONDS
"""What a supervisor that died may have counted since, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSeconds:
    """What was counted of a run, as it is written down."""

    seconds: Mapping[str, float]
    goes_on: str | None
    """What was being counted; None: nothing."""
    at: float
    """Seconds since 1970."""

    def taken_up(self, *, wall: float) -> Mapping[str, float]:
        """The least that nobody was told more than: what was counted after it was
        written down is not known, but how long that can have been. What passes while
        nobody looks after the run is not counted."""
        if self.goes_on is None:
            return self.seconds
        unkept = min(max(wall - self.at, 0.0), UNKEPT_SECONDS)
        return added(self.seconds, self.goes_on, unkept)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounters:
    """One run, seen again and again."""

    seen: float | None = None
    """When it was seen last (monotonic seconds)."""
    state: JobState | None = None
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Between attempts, by the names of ``BETWEEN``."""

    @property
    def goes_on(self) -> str | None:
        """What is being counted; None: nothing."""
        return None if self.state is None else BETWEEN.get(self.state)

    def seen_in(self, state: JobState, *, now: float) -> "RunCounters":
        """It is in ``state``: the time since it was seen last counts as where it was."""
        seconds, name = self.seconds, self.goes_on
        if name is not None and self.seen is not None:
            seconds = added(seconds, name, max(now - self.seen, 0.0))
        return RunCounters(seen=now, state=state, seconds=seconds)

    def is_news(self, before: "RunCounters") -> bool:
        """Whether to write it down, which was ``before`` what was written: another time
        begins or ends, or it was taken up."""
        if self.state is before.state:
            return False
        taken_up = before.state is None and bool(before.seconds)
        return taken_up or self.goes_on != before.goes_on


def added(
    seconds: Mapping[str, float], name: str, passed: float
) -> Mapping[str, float]:
    """``seconds`` with more of ``name``."""
    return {**seconds, name: seconds.get(name, 0.0) + passed}
