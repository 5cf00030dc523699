"""The whole state of a run, and what a row of the transition table is."""

from collections.abc import Callable
from dataclasses import dataclass, field

from supervisor.core.diagnosis.evidence import Killed
from supervisor.core.diagnosis.incident_kind import IncidentKind
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import Effect
from supervisor.core.lifecycle.events import Event
from supervisor.core.liveness.hang_detection import Liveness
from supervisor.core.remediation.history import History
from supervisor.core.remediation.overrides import NOTHING, Overrides
from supervisor.core.remediation.policy import Policy
from supervisor.wire.reasons import KillReason


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """The newest failure, until the next attempt has completed a step."""

    attempt: int
    failed_step: int | None
    at: float
    """Monotonic seconds of the exit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The whole state of a run."""

    policy: Policy
    grace_seconds: float
    state: JobState = JobState.WAITING
    attempt: int = 0
    history: History = field(default_factory=History)
    treatment: Overrides = NOTHING
    """What remedies have put in force."""
    deadline: float | None = 0.0
    """Monotonic seconds at which ``TimeIsUp`` is due; None: nothing is awaited."""
    drain_by: str | None = None
    """Who asked for the end, if anybody did."""
    forgone: bool = False
    """They want it at once: what is not saved yet is done again, if ever."""
    resuming: str | None = None
    """Why the attempt is drained only to start again; None: it is not."""
    averts: Diagnosis | None = None
    """... and what that averts, where it is worth an incident."""
    killed: Killed | None = None
    """Why the attempt is being killed, where that was our own judgement."""
    killing: KillReason | None = None
    """What SIGKILL was last sent for; None: it was not sent to this attempt."""
    stacks_awaited: bool = False
    waiting_since: float | None = None
    """Monotonic seconds since when the next attempt could have started."""
    gate_holds: int = 0
    """How often in a row the gate was found held."""
    liveness: Liveness = field(default_factory=Liveness)
    quarantined: frozenset[str] = frozenset()
    """GPUs kept out of use on this box."""
    open_incident: OpenIncident | None = None
    message: str = "starting"
    unsaved: frozenset[IncidentKind] = frozenset()
    """What this attempt has an incident for that did not end it."""


Step = tuple[RunState, tuple[Effect, ...]]
Act = Callable[[RunState, Event, float], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One row of the table."""

    source: JobState
    event: type
    targets: tuple[JobState, ...]
    """Where it may lead: for the diagram, and checked by ``step``'s tests."""
    act: Act
    label: str
