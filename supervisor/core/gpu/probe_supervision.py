"""Supervision of a probe that may hang, die, or be beyond killing: one pure function.

The rules:

1. Each sample has a deadline. A probe that misses it is killed and replaced.
2. One that ends by itself is replaced too, later each time in a row; that is said once,
   until a sample comes.
3. One that does not end within ``kill_seconds`` of SIGKILL hangs inside the driver (D
   state): a second one would hang beside it. It is not replaced, and an event says that
   the machine needs a reboot. Should it end after all, it is replaced as any other.
   Where somebody else keeps the probe (``trainwarden-gpu.service``), that is told by
   them, and a line to them that breaks does not take it back: only a sample does.
4. Where there is no NVML, it is asked again only now and then: a driver may be loaded
   late.
5. Between two samples further apart than ``gap_seconds`` the kernel log is asked for
   what was missed.
"""

import enum
from dataclasses import dataclass, replace

from supervisor.core.backoff import doubled
from supervisor.core.gpu.gpu_readings import Absent, Hanging


class Mode(enum.StrEnum):
    """Where the probe is."""

    RESTING = "resting"
    """None runs; one is started at the deadline."""
    ASKED = "asked"
    """It runs; a sample is due before the deadline."""
    ENDING = "ending"
    """SIGKILL was sent; it should be gone before the deadline."""
    STUCK = "stuck"
    """SIGKILL did not end it."""
    ABSENT = "absent"
    """There is nothing to ask here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """In seconds."""

    first_seconds: float = 30.0
    """For the first sample: without persistence mode the driver wakes every GPU."""
    sample_seconds: float = 10.0
    """From one sample to the next, at most."""
    kill_seconds: float = 5.0
    wait_seconds: float = 1.0
    """Before the first replacement; doubled each time without a sample between."""
    wait_most_seconds: float = 60.0
    absent_seconds: float = 600.0
    """Until it is asked again whether there is NVML."""
    gap_seconds: float = 3.0


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A sample came."""


@dataclass(frozen=True, slots=True)
class Ended:
    """It is gone, or could not be started: ``because``.

    ``seen``: False: only the line to whoever keeps it has ended.
    """

    because: str
    seen: bool = True


Event = Tick | Heard | Absent | Ended | Hanging


@dataclass(frozen=True, slots=True)
class StartProbe:
    """Start a probe."""


@dataclass(frozen=True, slots=True)
class KillProbe:
    """SIGKILL."""


@dataclass(frozen=True, slots=True)
class ProbeMessage:
    """For a person."""

    text: str


@dataclass(frozen=True, slots=True)
class Backfill:
    """Nobody listened from ``since`` on (monotonic seconds)."""

    since: float


Effect = StartProbe | KillProbe | ProbeMessage | Backfill


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSupervision:
    """The state. Times in monotonic seconds."""

    limits: Limits = Limits()
    mode: Mode = Mode.RESTING
    deadline: float = 0.0
    failures: int = 0
    """In a row, without a sample between."""
    heard: float | None = None
    """When the last sample came."""
    problem: str = ""
    """Why there is no sample now; empty: there is."""
    hangs: bool = False
    """SIGKILL did not end it, and nothing was seen since that says otherwise."""


Step = tuple[ProbeSupervision, tuple[Effect, ...]]

REBOOT = (
    "The GPU driver hangs: a process that asked it does not end even by SIGKILL. "
    "Reboot this machine; until then its GPUs are not watched."
)
AGAIN = "The GPU driver answers again; its GPUs are watched as before."


def step(probe: ProbeSupervision, event: Event, *, now: float) -> Step:
    """What follows from ``event``."""
    if isinstance(event, Tick):
        return _tick(probe, now)
    if isinstance(event, Heard):
        return _heard(probe, now)
    if isinstance(event, Absent):
        return _absent(probe, event.because, now)
    if isinstance(event, Hanging):
        return _stuck(probe)
    return _ended(probe, event, now)


def _tick(probe: ProbeSupervision, now: float) -> Step:
    limits = probe.limits
    if now < probe.deadline:
        return probe, ()
    if probe.mode in {Mode.RESTING, Mode.ABSENT}:
        deadline = now + limits.first_seconds
        return replace(probe, mode=Mode.ASKED, deadline=deadline), (StartProbe(),)
    if probe.mode is Mode.ASKED:
        problem = "The GPU driver did not answer in time."
        deadline = now + limits.kill_seconds
        killed = replace(probe, mode=Mode.ENDING, deadline=deadline, problem=problem)
        return killed, (ProbeMessage(f"{problem} Its probe is replaced."), KillProbe())
    if probe.mode is Mode.ENDING:
        return _stuck(probe)
    return probe, ()


def _stuck(probe: ProbeSupervision) -> Step:
    """Said once, however often it is told."""
    stuck = replace(probe, mode=Mode.STUCK, problem=REBOOT, hangs=True)
    return stuck, () if probe.hangs else (ProbeMessage(REBOOT),)


def _heard(probe: ProbeSupervision, now: float) -> Step:
    """A sample may still be in the pipe of a probe that was killed: it counts too."""
    before, limits = probe.heard, probe.limits
    effects: tuple[Effect, ...] = ()
    if before is not None and now - before > limits.gap_seconds:
        effects = (Backfill(before),)
    heard = replace(probe, heard=now)
    if probe.mode is not Mode.ASKED:
        return heard, effects
    if probe.hangs:
        effects = (*effects, ProbeMessage(AGAIN))
    deadline = now + limits.sample_seconds
    calm = replace(heard, deadline=deadline, failures=0, problem="", hangs=False)
    return calm, effects


def _absent(probe: ProbeSupervision, because: str, now: float) -> Step:
    deadline = now + probe.limits.absent_seconds
    return replace(probe, mode=Mode.ABSENT, deadline=deadline, problem=because), ()


def _ended(probe: ProbeSupervision, event: Ended, now: float) -> Step:
    if probe.mode is Mode.ABSENT:
        return probe, ()
    limits = probe.limits
    most = limits.wait_most_seconds
    wait = doubled(limits.wait_seconds, times=probe.failures, most_seconds=most)
    asked = probe.mode is Mode.ASKED
    rested = replace(
        probe,
        mode=Mode.RESTING,
        deadline=now + wait,
        failures=probe.failures + 1,
        problem=event.because if asked else probe.problem,
    )
    if probe.mode is Mode.STUCK and event.seen:
        return replace(rested, problem=event.because, hangs=False), (
            ProbeMessage(AGAIN),
        )
    news = asked and not probe.failures and not probe.hangs
    said = (ProbeMessage(f"The GPU probe ended: {event.because}"),) if news else ()
    return rested, said
