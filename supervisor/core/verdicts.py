"""The two verdicts about a crash, each with its reasons: diagnosis and remedy."""

import enum
from dataclasses import dataclass, field

from supervisor.core.allocator import MemoryFigures
from supervisor.core.causes import Cause


@dataclass(frozen=True, slots=True)
class Reason:
    """One reason, quotable: a line of the log, or a fact from elsewhere."""

    text: str
    """The line itself, or a sentence."""
    signature: str
    """Id of the row that recognised it; ``exit``, ``crash``, … for facts."""
    line: int | None = None
    """Line number in the log, from 1; None: not from the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """Why an attempt ended."""

    cause: Cause
    because: tuple[Reason, ...]
    memory: MemoryFigures | None = None
    """Figures of the allocator at the failure, where they are known."""
    advice: str = ""
    """One or two sentences for a person: what it means and what would help."""


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
    STOP = "stop"
    """Give up, and say what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """What is done about a diagnosis."""

    kind: RemedyKind
    because: str
    changes: dict[str, object] = field(default_factory=dict[str, object])
    """What differs in the next attempt: {name: [before, after]}."""
    wait_seconds: float = 0.0
    """Back-off before the next attempt."""
