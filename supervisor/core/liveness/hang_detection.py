"""Hang detection: whether an attempt lives and moves, judged from looks at it.

1. Two clocks run: *silent* since the last heartbeat, *stalled* since the last progress.
   Either beyond its deadline is a hang; which of them tells native code (or a lock of
   the interpreter) from a Python thread that waits for ever.
2. Deadlines belong to phases. They follow the times that this run usually takes, by a
   factor, and never fall below a floor.
3. Time that nobody could use does not count: while the process is stopped (SIGSTOP, a
   debugger), while the machine sleeps, while we ourselves were not running. No look
   adds more than a few seconds, so a jump of any clock is no hang.
4. Outside of steps nobody can say what progress is: there, using a processor or
   writing output counts as well. No healthy script is killed for taking its time.
5. Each attempt begins with fresh clocks; what was learned stays. After hangs in a row that
   brought nothing the limits of progress are doubled: it may have been slow. Those that a
   person chose are kept.
6. An allocator that finds no memory waits ten seconds before it says so. XLA, choosing
   among algorithms in the first step, goes on to the next: dozens of them, on a GPU that
   is too small for the step. Refused so often, one right after the other, while nothing
   but a first step is under way, an attempt is out of memory, and the rest of the waiting
   is spared. A script that tries what fits, outside of ``fit``, is left alone.

Quantiles by phase take the place of NVIDIA's resiliency extension's "five times the
longest interval", which one slow step widens for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.liveness.progress_intervals import ProgressIntervals, together
from supervisor.core.text.units import format_duration
from supervisor.wire.reasons import KillReason

LONGEST_LOOK = 5.0
"""Seconds that one look may add; looks come every two seconds or sooner, so a longer pause means
that we were not running either."""

BUSY_PART = 0.5
BUSY_FACTOR = 3.0
"""A process that used half of the time on a processor is more likely in a long native
call that holds the interpreter's lock, or in a callback that evaluates something: it
gets so much longer."""

TWICE_FACTOR = 2.0
"""What took so long twice is no accident, however seldom: a deadline is at least this
times the second longest."""

WORK_PART = 0.01
"""Who uses a processor for so much of the time is at work: a polling loop uses less."""

MOST_REFUSALS = 8
"""Allocations that failed, one after the other, since there last was progress. Slices that
are tried for their size meet fewer."""

REFUSAL_SECONDS = 15.0
"""From one to the next, on average: the allocator waits for ten."""

REFUSING = "compiling"
"""The phase in which that is looked for: the first step of a ``fit``."""

STOPPED = frozenset("Tt")
"""States of proc(5): stopped by a signal, or by a debugger."""


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

OF_PROGRESS = ("startup", "compile", "step", "validation", "snapshot")
"""Limits of progress, as the fields of ``Deadlines``; ``silent`` is one of heartbeats."""

FREE = frozenset({"startup", "compile"})
"""What is waited for there is the script's own code, or a compiler, or the data being
skipped to where they were: work is all that can be seen of it."""


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
        found: float | None = getattr(self, what)
        return found

    def doubles(self, what: str) -> bool:
        """Whether that limit is doubled after hangs in vain: one of progress that is as it
        is by default. Any other was chosen by a person, and is kept. (A stored spec does not
        tell a default from the same value written out.)"""
        return what in OF_PROGRESS and self.floor(what) == Deadlines().floor(what)


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
    """Processor time of the training process."""
    work_seconds: float | None = None
    """Processor time of all its processes together, looked at every few seconds."""
    output_bytes: int | None = None
    """What it has written to its log."""
    refusals: int = 0
    """Allocations that failed so far, each after a wait (``host.telemetry.allocator_dump``)."""
    slept_seconds: float = 0.0
    """How long the machine has been asleep since it started (CLOCK_BOOTTIME less
    CLOCK_MONOTONIC)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hang:
    """It neither ends nor moves."""

    kind: KillReason
    """``SILENT``, ``STALLED`` or ``REFUSED``."""
    phase: str
    seconds: float
    deadline: float
    usual: float | None
    """As ``Liveness.usual``."""

    @property
    def sentence(self) -> str:
        """Why it was killed."""
        waited = format_duration(self.seconds)
        if self.kind is KillReason.REFUSED:
            return (
                f"memory ran out {MOST_REFUSALS} times within {waited} ({self.phase}),"
                " and no step was done"
            )
        if self.kind is KillReason.SILENT:
            return (
                f"no heartbeat for {waited} ({self.phase}): the interpreter does not "
                "run, native code may hang"
            )
        usual = (
            "nothing to compare with yet"
            if self.usual is None
            else seen_every(self.usual)
        )
        return f"heartbeats, but no progress for {waited} ({self.phase}; {usual})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Liveness:
    """What is known of an attempt's pulse. Times in seconds."""

    deadlines: Deadlines = field(default_factory=Deadlines)
    learned: Mapping[str, ProgressIntervals] = field(
        default_factory=dict[str, ProgressIntervals]
    )
    """From earlier attempts, by phase."""
    seen: Mapping[str, ProgressIntervals] = field(
        default_factory=dict[str, ProgressIntervals]
    )
    """In this attempt."""
    looked_at: float | None = None
    last: Look = Look()
    silent_for: float = 0.0
    stalled_for: float = 0.0
    unmoved_for: float = 0.0
    """As ``stalled_for``, work not counted: what is learned."""
    refusals_at: int = 0
    """``refusals`` when there last was progress."""
    unrefused_for: float = 0.0
    """``unmoved_for`` when the first of them came since."""
    work_at: float = 0.0
    """``work_seconds`` when there last was progress."""
    cpu_at_beat: float | None = None
    cpu_at_progress: float | None = None
    patience: float = 1.0
    """Deadlines of progress that nobody chose (``Deadlines.doubles``) are longer by this:
    twice as long after each attempt that was killed for a hang and whose successor got no
    further. Perhaps none was."""

    def fresh(
        self, learned: Mapping[str, ProgressIntervals], *, hangs: int = 0
    ) -> "Liveness":
        """For a new attempt: the clocks at zero. ``hangs``: in a row, in vain."""
        return Liveness(deadlines=self.deadlines, learned=learned, patience=2.0**hangs)

    def usual(self, phase: str) -> float | None:
        """What is usual from one look that saw progress to the next that did, all attempts
        together: no less than the time between two looks, however short the steps."""
        known = self._known(phase)
        return None if known is None else known.usual

    def _known(self, phase: str) -> ProgressIntervals | None:
        """Before the first plain step the one that was compiled is all there is."""
        learned, seen = self.learned.get(phase), self.seen.get(phase)
        if learned is None and seen is None and PHASES.get(phase) == "step":
            return self._known("compiling")
        if learned is None or seen is None:  # asked for at each look, and seldom both
            return learned or seen
        return together((learned, seen))[seen.phase]

    def deadline(self, phase: str) -> float | None:
        """How long progress may take in ``phase``; None: for ever."""
        what = PHASES.get(phase, "startup")
        floor, known = self.deadlines.floor(what), self._known(phase)
        if floor is None:
            return None
        usual = 0.0 if known is None else known.usual or 0.0
        twice = 0.0 if known is None else known.twice or 0.0
        learned = max(self.deadlines.factor * usual, TWICE_FACTOR * twice)
        patience = self.patience if self.deadlines.doubles(what) else 1.0
        return patience * max(floor, learned)

    def longer_wait(self, phase: str) -> float | None:
        """How long progress may take in ``phase`` where that is longer for hangs in vain;
        None: it is not."""
        what = PHASES.get(phase, "startup")
        doubled = self.patience > 1.0 and self.deadlines.doubles(what)
        return self.deadline(phase) if doubled else None

    def earliest(self, phase: str, *, silent: bool) -> float | None:
        """After how long without progress in ``phase`` it is judged a hang at the
        earliest; None: never, or what is looked at is work. ``silent``: without a
        heartbeat, too."""
        free = PHASES.get(phase, "startup") in FREE
        limits = (
            None if free else self.deadline(phase),
            self.deadlines.silent if silent else None,
        )
        return min((one for one in limits if one is not None), default=None)


def seen_every(usual: float) -> str:
    """What ``Liveness.usual`` is, in words that nobody takes for the time of a step."""
    return f"as a rule progress was seen every {format_duration(usual)} or sooner"


def look(liveness: Liveness, seen: Look, *, now: float) -> tuple[Liveness, Hang | None]:
    """What is known after one more look at ``now`` (monotonic seconds)."""
    before = liveness.last
    passed = _counted(liveness, seen, now)
    beat = seen.heartbeat_ns != before.heartbeat_ns
    moved = seen.progress != before.progress
    intervals = _learn(liveness, passed) if moved else liveness.seen
    alive = moved or _works(liveness, seen, passed)
    after = replace(
        liveness,
        looked_at=now,
        last=seen,
        silent_for=0.0 if beat else liveness.silent_for + passed,
        stalled_for=0.0 if alive else liveness.stalled_for + passed,
        unmoved_for=0.0 if moved else liveness.unmoved_for + passed,
        refusals_at=seen.refusals if moved else liveness.refusals_at,
        unrefused_for=_unrefused(liveness, passed, moved=moved),
        work_at=(seen.work_seconds or 0.0) if alive else liveness.work_at,
        seen=intervals,
        cpu_at_beat=seen.cpu_seconds if beat else liveness.cpu_at_beat,
        cpu_at_progress=seen.cpu_seconds if moved else liveness.cpu_at_progress,
    )
    return after, _hang(after)


def _counted(liveness: Liveness, seen: Look, now: float) -> float:
    """Seconds since the last look that the process could use."""
    if liveness.looked_at is None or seen.state in STOPPED:
        return 0.0
    if seen.slept_seconds - liveness.last.slept_seconds > 1.0:
        return 0.0
    return min(max(now - liveness.looked_at, 0.0), LONGEST_LOOK)


def _works(liveness: Liveness, seen: Look, passed: float) -> bool:
    """Whether it is at work where nothing else can be asked of it."""
    if PHASES.get(seen.phase or "starting") not in FREE:
        return False
    if seen.output_bytes != liveness.last.output_bytes:
        return True
    waited = max(liveness.stalled_for + passed, 1.0)
    return (seen.work_seconds or 0.0) - liveness.work_at >= WORK_PART * waited


def _learn(liveness: Liveness, passed: float) -> Mapping[str, ProgressIntervals]:
    phase = liveness.last.phase
    if phase is None:
        return liveness.seen
    old = liveness.seen.get(phase, ProgressIntervals(phase=phase))
    return {**liveness.seen, phase: old.with_time(liveness.unmoved_for + passed)}


def _hang(seen: Liveness) -> Hang | None:
    """Progress is what counts; without heartbeats it is the native kind."""
    phase = seen.last.phase or "starting"
    if phase == REFUSING and _is_refused(seen):
        return Hang(
            kind=KillReason.REFUSED,
            phase=phase,
            seconds=seen.unmoved_for,
            deadline=0.0,
            usual=None,
        )
    silent = seen.silent_for >= 0.5 * seen.stalled_for
    kind = KillReason.SILENT if silent else KillReason.STALLED
    progress = (kind, seen.stalled_for, seen.cpu_at_progress, seen.deadline(phase))
    silence = seen.silent_for, seen.cpu_at_beat, seen.deadlines.silent
    for kind, waited, then, floor in (progress, (KillReason.SILENT, *silence)):
        deadline = _longer_if_busy(floor, seen, waited, then)
        if deadline is not None and waited > deadline:
            usual = seen.usual(phase)
            return Hang(
                kind=kind, phase=phase, seconds=waited, deadline=deadline, usual=usual
            )
    return None


def _unrefused(liveness: Liveness, passed: float, *, moved: bool) -> float:
    """Follows ``unmoved_for`` until memory is refused for the first time."""
    if moved:
        return 0.0
    before = liveness.last.refusals == liveness.refusals_at
    return liveness.unmoved_for + passed if before else liveness.unrefused_for


def _is_refused(seen: Liveness) -> bool:
    """Often enough, and one right after the other."""
    refused = seen.last.refusals - seen.refusals_at
    took = seen.unmoved_for - seen.unrefused_for
    return refused >= MOST_REFUSALS and took <= REFUSAL_SECONDS * refused


def _longer_if_busy(
    deadline: float | None, liveness: Liveness, waited: float, then: float | None
) -> float | None:
    """``deadline``, longer if half of ``waited`` was spent on a processor."""
    now = liveness.last.cpu_seconds
    if deadline is None or now is None or then is None:
        return deadline
    busy = now - then >= BUSY_PART * waited
    return deadline * BUSY_FACTOR if busy else deadline
