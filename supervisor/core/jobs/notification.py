"""A notification: what somebody who does not watch is told of a run."""

import enum
from dataclasses import dataclass


class NotificationKind(enum.StrEnum):
    """What there are notifications of."""

    FINISHED = "finished"
    GAVE_UP = "gave_up"
    FIRST_OOM = "first_oom"
    """Memory ran out for the first time in this run; where it gives up for it, its end says so, if that is wanted."""
    FORECAST = "forecast"
    """Memory is about to run out: a warning, or a restart in time."""
    DISK = "disk"
    """A disk cannot be written for snapshots or the ledger, and once that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One message: a title of a line, and a text of some."""

    kind: str
    """Of ``NotificationKind``; ``test`` where a person tries the addresses."""
    job: str
    title: str
    text: str
