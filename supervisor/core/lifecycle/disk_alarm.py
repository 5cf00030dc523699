"""The alarm of a disk that cannot be written: when people are told, and of what.

1. Trouble that is over within ``RISE_SECONDS`` is no news; what several runs meet on one
   disk is one alarm.
2. It is over once nothing has failed for ``CALM_SECONDS``: a disk at its edge, where some
   writes find room, is told of once.
3. At the end of the only run nobody waits: what is known then is told.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from supervisor.core.jobs.notification import Notification, NotificationKind
from supervisor.core.lifecycle.notifications import plain_lines

RISE_SECONDS = 5.0
CALM_SECONDS = 30.0
MOST_NAMED = 5
"""Jobs and troubles that a notification names."""


class DiskUse(enum.StrEnum):
    """What a disk is written for."""

    LEDGER = "ledger"
    SNAPSHOTS = "snapshots"
    TRAINING = "training"
    """A run waits for room before its next attempt."""


MEANS = {
    DiskUse.LEDGER: "the ledger is kept in memory, and forgotten if the supervisor dies",
    DiskUse.SNAPSHOTS: "snapshots are not saved, the last good one stays",
    DiskUse.TRAINING: "training has ended for it, and goes on once there is room",
}
ADVICE = (
    "Make room there, or raise the quota; nothing has to be started again."
    " du -xh --max-depth=3 DIRECTORY | sort -h | tail says who took it."
)
NO_LACK_OF_ROOM = (
    "Operation not permitted",
    "Permission denied",
    "Read-only file system",
    "Input/output error",
    "readonly database",
)
"""What a system, or SQLite, says that no room would mend."""
DENIED = (
    "It is not for lack of room: look who owns that directory and what its mode is, whether"
    " it is immutable (lsattr -d DIRECTORY), and whether its file system went read-only or"
    " its disk fails (the kernel log); nothing has to be started again."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskTrouble:
    """What a disk did not take."""

    job: str
    """Empty: it is the daemon's own."""
    use: DiskUse
    because: str
    needs_bytes: int | None = None
    """It is over once so many bytes are free; None: whoever met it says so."""


class AlarmPhase(enum.Enum):
    """Where an alarm is."""

    QUIET = enum.auto()
    RISING = enum.auto()
    """There is trouble, and nobody was told yet."""
    TOLD = enum.auto()
    SETTLING = enum.auto()
    """The trouble that was told of seems to be over."""


class AlarmNews(enum.Enum):
    """What is to be told."""

    FAILING = enum.auto()
    WELL = enum.auto()


@dataclass(frozen=True, slots=True)
class DiskAlarm:
    """The alarm of one disk."""

    phase: AlarmPhase = AlarmPhase.QUIET
    since: float = 0.0
    """When it came there (monotonic seconds)."""


_TROUBLED = {
    AlarmPhase.QUIET: AlarmPhase.RISING,
    AlarmPhase.SETTLING: AlarmPhase.TOLD,
}
_WELL = {
    AlarmPhase.RISING: AlarmPhase.QUIET,
    AlarmPhase.TOLD: AlarmPhase.SETTLING,
}
"""Where trouble, and its absence, lead at once."""
_DUE = {
    AlarmPhase.RISING: (RISE_SECONDS, AlarmPhase.TOLD, AlarmNews.FAILING),
    AlarmPhase.SETTLING: (CALM_SECONDS, AlarmPhase.QUIET, AlarmNews.WELL),
}
"""After how long in a phase what is told."""


def next_alarm(
    alarm: DiskAlarm, *, troubled: bool, now: float, at_once: bool = False
) -> tuple[DiskAlarm, AlarmNews | None]:
    """The alarm after a look at its disk. ``at_once``: there is no later look."""
    moved = (_TROUBLED if troubled else _WELL).get(alarm.phase)
    if moved is not None:
        alarm = DiskAlarm(moved, now)
    if alarm.phase not in _DUE:
        return alarm, None
    seconds, phase, news = _DUE[alarm.phase]
    if now - alarm.since < seconds and not at_once:
        return alarm, None
    return DiskAlarm(phase, now), news


def disk_failing(
    place: str, troubles: Sequence[DiskTrouble], *, room: str
) -> Notification:
    """What people are told of a disk that cannot be written; ``room``: how much is free."""
    told = [
        f"{one.job or 'the daemon'}: {MEANS[one.use]} ({one.because})"
        for one in troubles[:MOST_NAMED]
    ]
    more = len(troubles) - MOST_NAMED
    return Notification(
        kind=NotificationKind.DISK,
        job=_jobs(troubles),
        title=f"{_jobs(troubles)}: the disk of {place} cannot be written",
        text=plain_lines(
            *told, f"and {more} more" if more > 0 else "", room, *_advice(troubles)
        ),
    )


def _advice(troubles: Sequence[DiskTrouble]) -> list[str]:
    """Of each kind that there is, once."""
    denied = {any(no in one.because for no in NO_LACK_OF_ROOM) for one in troubles}
    return [text for kind, text in ((False, ADVICE), (True, DENIED)) if kind in denied]


def disk_well(
    place: str, troubles: Sequence[DiskTrouble], *, room: str
) -> Notification:
    """What people are told once it is over; ``troubles``: what they were told of."""
    return Notification(
        kind=NotificationKind.DISK,
        job=_jobs(troubles),
        title=f"{_jobs(troubles)}: the disk of {place} can be written again",
        text=plain_lines("Nothing fails any more, and nothing has to be done.", room),
    )


def _jobs(troubles: Iterable[DiskTrouble]) -> str:
    names = list(dict.fromkeys(one.job or "the daemon" for one in troubles))
    more = len(names) - MOST_NAMED
    named = ", ".join(names[:MOST_NAMED])
    return f"{named} and {more} more" if more > 0 else named
