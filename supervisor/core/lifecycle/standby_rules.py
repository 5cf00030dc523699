"""Rules of a standby: when the process of the next attempt is started early, and ended."""

import enum
from dataclasses import dataclass

from supervisor.core.text.units import format_size

QUIET_SECONDS = 5.0
"""After the first step of an attempt, until its standby may take processor time."""
USUAL_BYTES = 400 << 20
"""What a standby takes, before one was measured."""
MARGIN_BYTES = 512 << 20
"""What must be left of main memory beside it."""


ENOUGH_SECONDS = 300.0
"""Main memory that lasts longer than that is not short."""


class StandbyMove(enum.StrEnum):
    """What to do."""

    NOTHING = "nothing"
    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyFacts:
    """How a run stands, and the machine."""

    waits: bool
    """Whether there is a standby."""
    wanted: bool
    """Whether another attempt may follow: nobody has asked for the end of the run."""
    stepped_seconds: float | None
    """Since the first step of the attempt that runs; None: it has made none, or there is
    no attempt."""
    room_bytes: int | None
    """Main memory that is left; None: not known."""
    size_bytes: int = USUAL_BYTES
    """What a standby takes."""
    forecast_seconds: float | None = None
    """Until main memory runs out at the present trend; None: it does not."""
    ran_out: bool = False
    """Whether the newest attempt ended because it had."""


@dataclass(frozen=True, slots=True)
class StandbyDecision:
    """What to do, and why, where that is worth a sentence."""

    move: StandbyMove
    because: str = ""


def decide(facts: StandbyFacts) -> StandbyDecision:
    """What to do about the standby of a run."""
    short = _shortage(facts)
    if facts.waits:
        if not facts.wanted:
            return StandbyDecision(StandbyMove.END)
        move = StandbyMove.END if short else StandbyMove.NOTHING
        return StandbyDecision(move, short)
    stepped = facts.stepped_seconds
    if not facts.wanted or stepped is None or stepped < QUIET_SECONDS:
        return StandbyDecision(StandbyMove.NOTHING)
    move = StandbyMove.NOTHING if short else StandbyMove.START
    return StandbyDecision(move, short)


def _shortage(facts: StandbyFacts) -> str:
    """Why there is no main memory for it; empty: there is."""
    if facts.ran_out:
        return "main memory had run out"
    if facts.forecast_seconds is not None and facts.forecast_seconds < ENOUGH_SECONDS:
        return "main memory runs out soon, at the present trend"
    needed = MARGIN_BYTES if facts.waits else 2 * facts.size_bytes + MARGIN_BYTES
    if facts.room_bytes is not None and facts.room_bytes < needed:
        left, least = format_size(facts.room_bytes), format_size(needed)
        return f"{left} of main memory are left, and {least} should be"
    return ""
