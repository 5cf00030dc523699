"""Incidents and the two verdicts about them, with reasons: diagnosis and remedy."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor.core.causes import Cause
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.memory.oom_analysis import OomAnalysis
from supervisor.core.text.plain import plain

FIGURES = "memory"
"""Signature of the reason that tells what was asked for and what was there."""
OWN_EXIT = "sys_exit"
"""Signature of the reason that tells that the script ended itself."""
STACK = "stack"
"""Signature of a frame of a stack."""
ASKED = "stop"
"""Signature of the reason that tells that we had asked for the end."""


class ReasonSource(enum.StrEnum):
    """Where a quoted line stands, if that is not what the attempt printed."""

    FAULT = "fault.log"
    """What faulthandler wrote, beside the output of the attempt."""
    KERNEL = "kernel log"


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, quotable: a line of the log, or a fact from elsewhere."""

    text: str
    """The line itself, or a sentence; without control characters, whoever wrote it."""
    signature: str
    """Id of the row that recognised it; ``exit``, ``crash``, … for facts."""
    line: int | None = None
    """Line number in the log, from 1; None: not from the log."""
    code: str | None = None
    """The enum that ``text`` puts into words (``wire.reasons``); None: there is none."""
    source: ReasonSource | None = None
    """Where it is quoted from; None: from what the attempt printed, or from nowhere."""

    def __post_init__(self) -> None:
        """Keep it quotable: it is shown on pages, in messages and on terminals."""
        object.__setattr__(self, "text", plain(self.text))


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why an attempt ended."""

    cause: Cause
    because: tuple[Reason, ...]
    memory: MemoryFigures | None = None
    """Figures of the allocator at the failure, where they are known."""
    autopsy: OomAnalysis | None = None
    """Which kind of shortage, and who held what; None: it was no shortage of memory."""
    advice: str = ""
    """One or two sentences for a person: what it means and what would help."""


class AskedEnd(enum.StrEnum):
    """How an attempt ended that we had asked to."""

    SAVED = "saved"
    """It saved its state, or had none to save, and ended."""
    AT_ONCE = "at_once"
    """By force, without a further snapshot, as somebody wanted."""
    UNSAVED = "unsaved"
    """Before its state was saved, by itself or as its time for that was over."""
    PLANNED = "planned"
    """For a planned restart, its state saved."""

    @property
    def words(self) -> str:
        """For people."""
        return _ASKED_WORDS[self]


_ASKED_WORDS = {
    AskedEnd.SAVED: "asked to end (drained)",
    AskedEnd.AT_ONCE: "asked to end at once",
    AskedEnd.UNSAVED: "asked to end; its state was not saved",
    AskedEnd.PLANNED: "a planned restart",
}


class IncidentKind(enum.StrEnum):
    """What an incident is about; an attempt has at most one of each, but for those that it
    recovers from: they are counted."""

    ENDED = "ended"
    """The attempt ended, and nobody wanted that."""
    RECOVERED = "recovered"
    """A step failed, and the attempt went on from a snapshot in the same process."""
    UNSAVED_IN_MEMORY = "unsaved_in_memory"
    """A snapshot could not be kept in memory; training went on."""
    UNSAVED_ON_DISK = "unsaved_on_disk"
    """A snapshot could not be written to disk; training went on."""
    PLANNED = "planned"
    """The attempt was ended at a snapshot, before memory ran out; nothing was lost."""
    DEVICE_MEMORY_HIGH = "device_memory_high"
    """Device memory is used beyond the threshold of the spec; training goes on."""
    HOST_MEMORY_HIGH = "host_memory_high"
    """Main memory is used beyond the threshold of the spec; training goes on."""
    DRIVER_STUCK = "driver_stuck"
    """The GPU driver hangs beyond help; training goes on as long as it can."""


class RemedyKind(enum.StrEnum):
    """What is done about it."""

    NONE = "none"
    """Nothing to do: the run is over, as it should be."""
    GO_ON = "go_on"
    """Training went on all the same; nothing was restarted."""
    RESTART = "restart"
    """A fresh process, the same computation, from the newest whole snapshot."""
    MICROBATCH = "microbatch"
    """A restart in smaller slices; the same effective batch."""
    SETTINGS = "settings"
    """A restart with other settings of the framework; the same computation."""
    ANOTHER_GPU = "another_gpu"
    """A restart that stays away from the GPU that failed."""
    ROLLBACK = "rollback"
    """A restart from a snapshot of before the place where it went wrong."""
    ALTER = "alter"
    """A restart that changes the computation, as the spec allows."""
    WAIT = "wait"
    """A restart once something outside has changed: room on a disk, a free GPU."""
    STOP = "stop"
    """Give up, and say what would help."""

    @property
    def restarts(self) -> bool:
        """Whether another attempt follows."""
        return self not in {RemedyKind.NONE, RemedyKind.GO_ON, RemedyKind.STOP}

    @property
    def words(self) -> str:
        """It where people read; JSON and the ledger have the value."""
        return REMEDY_WORDS[self]


REMEDY_WORDS: Mapping[RemedyKind, str] = {
    RemedyKind.NONE: "nothing",
    RemedyKind.GO_ON: "training went on",
    RemedyKind.RESTART: "restart",
    RemedyKind.MICROBATCH: "smaller slices",
    RemedyKind.SETTINGS: "other settings",
    RemedyKind.ANOTHER_GPU: "another GPU",
    RemedyKind.ROLLBACK: "back to an earlier snapshot",
    RemedyKind.ALTER: "a changed computation",
    RemedyKind.WAIT: "wait",
    RemedyKind.STOP: "stop",
}
"""Short enough for the end of a line."""


def remedy_words(kind: str) -> str:
    """``kind`` as JSON has it, in words; of a newer version: as it is written."""
    try:
        return RemedyKind(kind).words
    except ValueError:
        return kind.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What is done about a diagnosis."""

    kind: RemedyKind
    because: str
    changes: dict[str, object] = field(default_factory=dict[str, object])
    """What differs in the next attempt: {name: [before, after]}."""
    wait_seconds: float = 0.0
    """Back-off before the next attempt."""


MOST_FOUND = 16
"""Numbers of slices that an incident tells of, the newest: each is a step back from the
limit, and seldom are there two."""


def slices_asked(changed: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of how many slices an incident is to tell, by the ``changes`` of its remedy: that
    were ``asked`` for (None: as many as are found) and ``found``, the newest last, and
    whether these were ``measured``. None: it is about none."""
    if "slices" not in changed:
        return None
    asked = changed["slices"][1]
    known = asked if isinstance(asked, int) else None
    return {"asked": known, "found": [], "measured": False}


def with_slices(
    remedy: Mapping[str, Any], slices: int, *, measured: bool
) -> dict[str, Any]:
    """``remedy`` as an incident has it, where an attempt has found that it works in so many
    ``slices``."""
    changed: Mapping[str, Any] = remedy["changes"]
    told = remedy.get("slices") or slices_asked(changed)
    if told is None:
        return dict(remedy)
    found = [one for one in told["found"] if one != slices]
    newer = {
        "asked": told["asked"],
        "found": [*found, slices][-MOST_FOUND:],
        "measured": measured,
    }
    before = changed["slices"][0]
    now = {**changed, "slices": [before, slices]}
    return {**remedy, "changes": now, "slices": newer}


def changed_to(remedy: Mapping[str, Any], name: str) -> str:
    """What ``name`` is changed to, in words; of slices also whether that was asked for,
    measured, or is used without either, as it may not be what was asked for, nor stay."""
    after = str(remedy["changes"][name][1])
    told: Mapping[str, Any] | None = remedy.get("slices")
    if name != "slices" or told is None:
        return after  # of an older version: how it was found is not known
    found, asked = told["found"], told["asked"]
    if not found:
        return after if asked is None else f"{after}, as asked for"
    how = ", as measured" if told["measured"] else ", in use without being measured"
    first = f", {found[0]} at first" if len(found) > 1 else ""
    other = f", {asked} asked for" if asked not in {None, found[-1]} else ""
    return f"{after}{how}{first}{other}"
