"""Effects: what the core wants done. Only the loop does it."""

from dataclasses import dataclass

from supervisor.core.diagnosis.result import Diagnosis, IncidentKind, Remedy
from supervisor.core.remediation.overrides import Awaited, Overrides
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.core.text.log_level import LogLevel
from supervisor.wire.reasons import KillReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Start attempt ``number``."""

    number: int
    overrides: Overrides
    """What differs from what the script and its spec ask for."""
    prove: bool = False
    """Let it prove its resume."""


@dataclass(frozen=True, slots=True)
class AskDrain:
    """Ask training (through the shim) to save its state and end: SIGTERM."""


@dataclass(frozen=True, slots=True)
class Kill:
    """End the attempt at once: SIGKILL to all its processes."""

    reason: KillReason


@dataclass(frozen=True, slots=True)
class TakeStacks:
    """Have the stacks of all threads written down; ``StacksTaken`` follows."""


@dataclass(frozen=True, slots=True)
class CheckGate:
    """Look whether anything is left of earlier attempts, or awaited before the next."""

    awaited: Awaited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantine:
    """Keep these GPUs out of use on this box, until a person puts them back."""

    gpus: tuple[str, ...]
    attempt: int
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIncident:
    """Attempt ``attempt`` failed: write down why and what will be done."""

    happened: IncidentKind = IncidentKind.ENDED

    attempt: int
    recovery: int = 0
    """Which failure of it that it recovers from in its process, from 1; 0: its end."""
    diagnosis: Diagnosis
    remedy: Remedy
    failed_step: int | None
    stacks: str = ""
    """Of all threads, where it was killed for a hang."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateIncident:
    """What became of the incident of attempt ``attempt``; None: not known yet."""

    attempt: int
    recovery: int = 0
    """As in ``RecordIncident``."""
    restored_step: int | None = None
    lost_steps: int | None = None
    downtime_seconds: float | None = None
    slices: int | None = None
    """What measuring settled on, where the remedy could not know it."""
    slices_measured: bool = True
    """False: nothing could be measured, and so many are in use."""
    deviations: tuple[str, ...] = ()
    note: str | None = None
    """Another deviation, beside those that are known."""
    proof: ResumeProof | None = None
    """Of the resume after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviseAdvice:
    """What was advised with an incident of the run is true no more."""

    happened: IncidentKind
    """All of this kind."""
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerFailure:
    """Tell the attempt, which stands still at a step that failed, what to do."""

    number: int
    """Of the failure."""
    overrides: Overrides | None
    """Go on in the same process, with these in force; None: end, as without asking."""
    because: str
    prove: bool = False
    """Let it prove its resume."""


@dataclass(frozen=True, slots=True)
class Say:
    """Tell the person who watches."""

    text: str
    level: LogLevel = LogLevel.INFO


@dataclass(frozen=True, slots=True)
class End:
    """The run is over: leave the loop with this exit code."""

    exit_code: int


Effect = (
    Launch | AskDrain | Kill | TakeStacks | CheckGate | Quarantine | RecordIncident
    | UpdateIncident | ReviseAdvice | AnswerFailure | Say | End
)  # fmt: skip
"""Any of them."""
