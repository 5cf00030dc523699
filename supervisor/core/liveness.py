"""Whether an attempt still lives and moves, judged from looks at it.

1. Two clocks run: *silent* since the last heartbeat, *stalled* since the last progress.
   Either beyond its deadline is a hang; which of them tells native code (or a lock of
   the interpreter) from a Python thread that waits for ever.
2. Deadlines belong to phases. They follow the times that this run usually takes, by a
   factor, and never fall below a floor.
3. Time that nobody could use does not count: while the process is stopped (SIGSTOP, a
   debugger), while the machine sleeps, while we ourselves were not running. No look
   adds more than a few seconds, so a jump of any clock is no hang.
4. Each attempt begins with fresh clocks; what was learned stays.

Quantiles by phase take the place of NVIDIA's resiliency extension's "five times the
longest interval", which one slow step widens for ever.
"""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.rhythm import Rhythm, together
from supervisor.core.units import format_duration

LONGEST_LOOK = 5.0
"""Seconds that one look may add; looks come twice a second, so a longer pause means
that we were not running either."""

BUSY_PART = 0.5
BUSY_FACTOR = 3.0
"""A process that is silent but used half of the time on a processor is more likely in
a long native call that holds the interpreter's lock: it gets so much longer."""

STOPPED = frozenset("Tt")
"""States of proc(5): stopped by a signal, or by a debugger."""


class Silence(enum.StrEnum):
    """What a hang looks like from outside."""

    SILENT = "silent"
    """No heartbeat: the interpreter does not run."""
    STALLED = "stalled"
    """Heartbeats, and no progress."""


PHASES: Mapping[str, str] = {
    "starting": "startup",
    "between": "startup",
    "finished": "startup",
    "restoring": "compile",
    "compiling": "compile",
    "training": "step",
    "replaying": "step",
    "validating": "validation",
    "snapshot": "snapshot",
}
"""Phases of the telemetry page, and which deadline is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Floors in seconds, by what is waited for; None: never a hang."""

    silent: float | None = 300.0
    startup: float | None = 3600.0
    compile: float | None = 1800.0
    step: float | None = 300.0
    validation: float | None = 1800.0
    snapshot: float | None = 600.0
    factor: float = 5.0
    """A deadline is at least this times what is usual."""

    def floor(self, what: str) -> float | None:
        """The floor of one of them."""
        floors: dict[str, float | None] = {
            "startup": self.startup,
            "compile": self.compile,
            "step": self.step,
            "validation": self.validation,
            "snapshot": self.snapshot,
        }
        return floors[what]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at an attempt. None: not known."""

    heartbeat_ns: int | None = None
    phase: str | None = None
    progress: tuple[int | None, ...] = ()
    """Changes whenever there is progress: counters, and when the phase began."""
    state: str | None = None
    """Of the training process, as in proc(5)."""
    cpu_seconds: float | None = None
    slept_seconds: float = 0.0
    """How long the machine has been asleep since it started (CLOCK_BOOTTIME less
    CLOCK_MONOTONIC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """It neither ends nor moves."""

    kind: Silence
    phase: str
    seconds: float
    deadline: float
    usual: float | None

    @property
    def sentence(self) -> str:
        """Why it was killed."""
        waited = format_duration(self.seconds)
        if self.kind is Silence.SILENT:
            return (
                f"no heartbeat for {waited} ({self.phase}): the interpreter does not "
                "run, native code may hang"
            )
        usual = (
            "nothing to compare with yet"
            if self.usual is None
            else f"{format_duration(self.usual)} are usual"
        )
        return f"heartbeats, but no progress for {waited} ({self.phase}; {usual})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """What is known of an attempt's pulse. Times in seconds."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    learned: Mapping[str, Rhythm] = field(default_factory=dict[str, Rhythm])
    """From earlier attempts, by phase."""
    seen: Mapping[str, Rhythm] = field(default_factory=dict[str, Rhythm])
    """In this attempt."""
    looked_at: float | None = None
    last: Look = Look()
    silent_for: float = 0.0
    stalled_for: float = 0.0
    cpu_at_beat: float | None = None

    def fresh(self, learned: Mapping[str, Rhythm]) -> "Liveness":
        """For a new attempt: the clocks at zero."""
        return Liveness(deadlines=self.deadlines, learned=learned)

    def usual(self, phase: str) -> float | None:
        """What is usual from one progress to the next, all attempts together.

        Before the first step of a kind the one that was compiled is all there is.
        """
        both = [r for r in (self.learned.get(phase), self.seen.get(phase)) if r]
        known = together(both).get(phase)
        if known is None and PHASES.get(phase) == "step":
            return self.usual("compiling")
        return None if known is None else known.usual

    def deadline(self, phase: str) -> float | None:
        """How long progress may take in ``phase``; None: for ever."""
        floor = self.deadlines.floor(PHASES.get(phase, "startup"))
        if floor is None:
            return None
        return max(floor, self.deadlines.factor * (self.usual(phase) or 0.0))


def look(liveness: Liveness, seen: Look, *, now: float) -> tuple[Liveness, Hang | None]:
    """What is known after one more look at ``now`` (monotonic seconds)."""
    before = liveness.last
    passed = _counted(liveness, seen, now)
    beat = seen.heartbeat_ns != before.heartbeat_ns
    moved = seen.progress != before.progress
    rhythms = _learn(liveness, passed) if moved else liveness.seen
    after = replace(
        liveness,
        looked_at=now,
        last=seen,
        silent_for=0.0 if beat else liveness.silent_for + passed,
        stalled_for=0.0 if moved else liveness.stalled_for + passed,
        seen=rhythms,
        cpu_at_beat=seen.cpu_seconds if beat else liveness.cpu_at_beat,
    )
    return after, _hang(after)


def _counted(liveness: Liveness, seen: Look, now: float) -> float:
    """Seconds since the last look that the process could use."""
    if liveness.looked_at is None or seen.state in STOPPED:
        return 0.0
    if seen.slept_seconds - liveness.last.slept_seconds > 1.0:
        return 0.0
    return min(max(now - liveness.looked_at, 0.0), LONGEST_LOOK)


def _learn(liveness: Liveness, passed: float) -> Mapping[str, Rhythm]:
    phase = liveness.last.phase
    if phase is None:
        return liveness.seen
    old = liveness.seen.get(phase, Rhythm(phase=phase))
    return {**liveness.seen, phase: old.with_time(liveness.stalled_for + passed)}


def _hang(liveness: Liveness) -> Hang | None:
    phase = liveness.last.phase or "starting"
    deadline = liveness.deadline(phase)
    if deadline is not None and liveness.stalled_for > deadline:
        # Progress is what counts; without heartbeats it is the native kind.
        silent = liveness.silent_for >= 0.5 * liveness.stalled_for
        return Hang(
            kind=Silence.SILENT if silent else Silence.STALLED,
            phase=phase,
            seconds=liveness.stalled_for,
            deadline=deadline,
            usual=liveness.usual(phase),
        )
    quiet = _silent_deadline(liveness)
    if quiet is None or liveness.silent_for <= quiet:
        return None
    return Hang(
        kind=Silence.SILENT,
        phase=phase,
        seconds=liveness.silent_for,
        deadline=quiet,
        usual=None,
    )


def _silent_deadline(liveness: Liveness) -> float | None:
    floor = liveness.deadlines.silent
    now, then = liveness.last.cpu_seconds, liveness.cpu_at_beat
    if floor is None or now is None or then is None:
        return floor
    busy = now - then >= BUSY_PART * liveness.silent_for
    return floor * BUSY_FACTOR if busy else floor
