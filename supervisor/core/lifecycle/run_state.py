"""The state of a run, and the rows of its transition table."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from supervisor.core.diagnosis.evidence import Killed
from supervisor.core.diagnosis.result import Diagnosis, IncidentKind
from supervisor.core.jobs.job_status import JobState
from supervisor.core.lifecycle.effects import Effect
from supervisor.core.lifecycle.events import DrainRequested, RestartDue
from supervisor.core.liveness.hang_detection import Liveness
from supervisor.core.remediation.history import AttemptHistory, History
from supervisor.core.remediation.overrides import NOTHING, Overrides
from supervisor.core.remediation.policy import Decision, Policy
from supervisor.wire.reasons import KillReason


class RunPhase(enum.StrEnum):
    """Where a run is; the transition table moves between these. Each means one thing;
    ``JobState`` is what people are shown of it."""

    WAITING = "waiting"
    LAUNCHING = "launching"
    RUNNING = "running"
    DRAINING = "draining"
    """The attempt saves its state, and then the run ends: somebody asked for that."""
    RESTARTING = "restarting"
    """The attempt saves its state, and another follows: a restart was planned."""
    DUMPING_STACKS = "dumping_stacks"
    """The attempt hangs: the stacks of its threads are awaited, then it is killed."""
    KILLING = "killing"
    """SIGKILL was sent: the end of the attempt is awaited."""
    FINISHED = "finished"
    DRAINED = "drained"
    GAVE_UP = "gave_up"

    @property
    def shown(self) -> JobState:
        """What people, metrics and the ledger are told of it."""
        return SHOWN.get(self) or JobState(self.value)


SHOWN = {
    RunPhase.RESTARTING: JobState.DRAINING,
    RunPhase.DUMPING_STACKS: JobState.KILLING,
}
"""What is another matter to the table alone."""


class DiskSaves(enum.Enum):
    """Whether the snapshots of the run are written to disk, as was told last."""

    SAVED = enum.auto()
    FAILING = enum.auto()
    AGAIN = enum.auto()
    """They were not, and are: that was told."""
    FAILING_ANEW = enum.auto()
    """They are not once more: a disk at its edge is told of once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """The newest failure, until the next attempt has completed a step."""

    attempt: int
    failed_step: int | None
    at: float | None
    """Monotonic seconds of its last step, or of its start where it made none; of a hang
    those of its last progress, and of the exit where no step is counted. None: steps are
    done again, but the time is not known, or not lost by it: the run had ended by it, until
    a person let it go on; or its process ended as it went on, and nobody was there."""
    recovery: int = 0
    """Which failure of the attempt it is, where that goes on in its process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A failed step that the attempt was allowed to go on after; it has not done so yet.
    It is kept in the ledger before the attempt is told: a supervisor that begins anew
    knows why it goes on."""

    number: int
    ended: AttemptHistory
    """The attempt as if it had ended there."""
    diagnosis: Diagnosis
    decision: Decision
    at: float
    """Monotonic seconds, which are the same in every process of a boot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """The whole state of a run."""

    policy: Policy
    grace_seconds: float
    phase: RunPhase = RunPhase.WAITING
    attempt: int = 0
    history: History = field(default_factory=History)
    overrides: Overrides = NOTHING
    """What remedies have put in force."""
    deadline: float | None = 0.0
    """Monotonic seconds at which ``DeadlineExpired`` is due; None: nothing is awaited."""
    stop: DrainRequested | None = None
    """The end of the run that somebody asked for; ``at_once``: what is not saved yet is
    done again, if ever."""
    restart: RestartDue | None = None
    """Why the attempt was drained only to start again; set while it runs, too, where an
    earlier supervisor did that. Never beside ``stop``."""
    killed: Killed | None = None
    """Why the attempt is being killed, where that was our own judgement."""
    killing: KillReason | None = None
    """What SIGKILL was last sent for; None: it was not sent to this attempt."""
    waiting_since: float | None = None
    """Monotonic seconds since when the next attempt could have started."""
    gate_holds: int = 0
    """How often in a row the gate was found held."""
    liveness: Liveness = field(default_factory=Liveness)
    quarantined: frozenset[str] = frozenset()
    """GPUs kept out of use on this box."""
    open_incident: OpenIncident | None = None
    offer: Offer | None = None
    message: str = "starting"
    unsaved: frozenset[IncidentKind] = frozenset()
    """What this attempt has an incident for that did not end it."""
    on_disk: DiskSaves = DiskSaves.SAVED

    @property
    def state(self) -> JobState:
        """Where the run is, as it is shown."""
        return self.phase.shown


def taken_over(run: RunState) -> RunState:
    """``run``, whose newest attempt an earlier supervisor started, and still runs: a hang
    is judged by what was known at its launch, as it would have been."""
    earlier = run.history.earlier
    return replace(
        run,
        phase=RunPhase.LAUNCHING,
        deadline=None,
        liveness=run.liveness.fresh(earlier.intervals, hangs=earlier.hangs),
        message=f"attempt {run.attempt}",
    )


Step = tuple[RunState, tuple[Effect, ...]]
Act = Callable[[RunState, Any, float], Step]
"""The event is of the type that its row names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One row of the table."""

    source: RunPhase
    event: type
    targets: tuple[RunPhase, ...]
    """Where it may lead: for the diagram, and checked by ``step``'s tests."""
    act: Act
    label: str
