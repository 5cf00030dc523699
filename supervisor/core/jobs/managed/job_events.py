"""What can happen to a managed job, and what the daemon then has to do."""

from dataclasses import dataclass

from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.text.log_level import LogLevel

# --- asked for by people --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitRequested:
    """It should run, with a new spec."""


@dataclass(frozen=True, slots=True)
class StartRequested:
    """It should run, or go on."""

    fresh: bool = False
    """From the beginning."""


@dataclass(frozen=True, slots=True)
class StopRequested:
    """It should end."""

    by: str
    at_once: bool = False
    """Without another snapshot."""


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """It should end, and go on in a new process."""

    by: str


@dataclass(frozen=True, slots=True)
class ForgetRequested:
    """It should be a job no longer."""


# --- told by the scheduler ------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnAwaited:
    """It is not its turn: ``because`` names what is in the way."""

    because: str


@dataclass(frozen=True, slots=True)
class RunStarted:
    """Its run has begun, or goes on, on these GPUs."""

    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunAdopted:
    """The run of an earlier daemon is looked after again."""

    trains: bool
    """Whether an attempt of it still runs."""


@dataclass(frozen=True, slots=True)
class StartPostponed:
    """Its run could not be started, or adopted: that passes by, as a full disk does."""

    because: str


@dataclass(frozen=True, slots=True)
class StartDenied:
    """Its run could not be started, or adopted: a person has to do something first."""

    because: str


@dataclass(frozen=True, slots=True)
class RunTroubled:
    """Its run could not be looked after this time; training goes on."""

    because: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Its run is over, and all of it is written down."""

    status: JobStatus
    another_turn: bool = False
    """It gave up for one of its GPUs, and others would do."""


JobEvent = (
    SubmitRequested | StartRequested | StopRequested | RestartRequested | ForgetRequested
    | TurnAwaited | RunStarted | RunAdopted | StartPostponed | StartDenied | RunTroubled
    | RunEnded
)  # fmt: skip
"""Any of them."""


# --- to be done -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndRun:
    """Have its run end."""

    by: str
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class NoteStarted:
    """Write down that the start that was asked for has happened."""


@dataclass(frozen=True, slots=True)
class Announce:
    """Tell the journal."""

    text: str
    level: LogLevel = LogLevel.INFO


@dataclass(frozen=True, slots=True)
class Decline:
    """What was asked for cannot be done; nothing has changed."""

    because: str


JobEffect = EndRun | NoteStarted | Announce | Decline
"""Any of them."""
