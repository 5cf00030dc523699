"""Events: what can happen to a run, as the loop tells it to the core."""

from dataclasses import dataclass

from supervisor.core.advisories.advisory import Advisory
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.result import Diagnosis
from supervisor.core.liveness.hang_detection import Look
from supervisor.core.memory.forecast import MemoryLevel, Resource
from supervisor.core.remediation.history import Unpromised
from supervisor.core.remediation.proofs import ResumeProof


@dataclass(frozen=True, slots=True)
class Spawned:
    """The shim has started training."""

    pid: int
    taken_over: bool = False
    """An earlier supervisor had it do so."""


@dataclass(frozen=True, slots=True)
class SpawnFailed:
    """No process could be started: ``because`` says why."""

    because: str
    lasting: bool = False
    """Trying again cannot help before a person has done something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressReported:
    """News from the attempt itself. None: no news of that."""

    fit: int | None = None
    """Number of the call of ``fit`` that begins, from 0."""
    model: str | None = None
    """What its model, optimizer and data look like, as a digest."""
    batch: int | None = None
    slices: int | None = None
    slice_size: int | None = None
    peak_bytes: int | None = None
    usual_bytes: int | None = None
    """The median of the steps whose highest peak ``peak_bytes`` is."""
    peak_steps: int | None = None
    """How many steps these are."""
    limit_bytes: int | None = None
    jit: bool | None = None
    snapshot_step: int | None = None
    restored_step: int | None = None
    first_step: int | None = None
    """Number of the first step that this attempt completed."""
    own_step: bool = False
    """Whether the script makes steps of its own, the first of which begins: they are counted."""
    at: float | None = None
    """Monotonic seconds of either, as the attempt told; None: when it is heard of."""
    measured: bool = False
    """Whether ``slice_size`` was found by measuring, and is settled now."""
    trial: bool = False
    """Whether it is being tried: another may follow."""
    deviations: tuple[str, ...] = ()
    """In what way slices change the computation by more than rounding."""


@dataclass(frozen=True, slots=True)
class Applied:
    """Whether something that the attempt was asked for is in force there."""

    name: str
    """A field of the directive, or an environment variable (``confirmation.NAMES``)."""
    in_force: bool


@dataclass(frozen=True, slots=True)
class NoticeReceived:
    """The attempt has a sentence for the person who runs it."""

    sentence: str
    unpromised: Unpromised | None = None
    """It withdraws the promise of bits, for this call of ``fit``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofReported:
    """How the proof of a resume stands."""

    proof: ResumeProof
    ends: bool
    """The attempt ends by itself, for the next to go on from the newer snapshot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRoom:
    """The room for the snapshots of a run on disk."""

    directory: str
    """Where they lie."""
    free_bytes: int | None
    """For the user who asks; None: not known."""
    held_bytes: int
    """By these snapshots themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFailed:
    """A snapshot could not be saved; training went on."""

    in_memory: bool
    """In the memory tier; False: on disk."""
    step: int | None
    because: str
    no_room: bool
    """There was no space, or no quota, left; False: something else is wrong."""
    room: DiskRoom | None = None
    """When it failed; None: of another tier, or another failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """The attempt is over, and none of its processes is left."""

    evidence: Evidence
    last_step: int | None
    """Steps of the run that were done."""
    snapshot_step: int | None
    """Newest whole snapshot; 0 where there is none; None: could not be read."""
    rss_bytes: int | None = None
    """Host memory of training at its last heartbeat."""
    idle_seconds: float = 0.0
    """How long it had made no step when it ended, where it is known to be training: from
    its last one, or from its start if it made none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed:
    """The attempt stands still at a step that failed, and asks whether to go on."""

    number: int
    """Of the failure in this attempt, from 1."""
    exited: Exited
    """What would be known if it had ended there."""


@dataclass(frozen=True, slots=True)
class WentOn:
    """It goes on in its process, as it was allowed to after failure ``number``."""

    number: int


@dataclass(frozen=True, slots=True)
class HealthSampled:
    """A look at the attempt, every two seconds or sooner."""

    look: Look
    rss_bytes: int | None = None
    host_seconds: float | None = None
    """Until main memory runs out, at the present trend; None: it does not, or unknown."""


@dataclass(frozen=True, slots=True)
class StacksTaken:
    """The stacks of the threads are written down, or cannot be had."""


@dataclass(frozen=True, slots=True)
class Unkillable:
    """SIGKILL does not end these processes: they hang in the kernel (D state)."""

    pids: tuple[int, ...]
    gpus: tuple[str, ...] = ()
    """On which they hold memory."""


@dataclass(frozen=True, slots=True)
class RestartDue:
    """A restart is planned: at a step boundary, after a snapshot, nothing lost."""

    because: str
    averts: Diagnosis | None = None
    """What it would have come to; None: nothing worth an incident."""


@dataclass(frozen=True, slots=True)
class MemoryHigh:
    """A resource is used beyond the threshold of the spec."""

    resource: Resource
    level: MemoryLevel
    step: int | None


@dataclass(frozen=True, slots=True)
class Advised:
    """What makes the attempt slower or larger than it need be, and what did before."""

    advisories: tuple[Advisory, ...]


@dataclass(frozen=True, slots=True)
class DriverStuck:
    """A process that asked the GPU driver cannot be killed: only a reboot helps."""

    because: str


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """Somebody wants the run to end with its state saved."""

    by: str
    """Such as ``SIGTERM`` or ``Ctrl-C``."""
    at_once: bool = False
    """What was saved is enough: nothing is waited for."""
    repeats: bool = False
    """Whoever sends it sends it several times for one request: again says nothing new.
    Slurm does at a requeue and at a time limit; a person who presses Ctrl-C again does
    not."""
    sooner: str = ""
    """What a person does who will not wait for the snapshot, such as ``Ctrl-C again``."""


@dataclass(frozen=True, slots=True)
class DeadlineExpired:
    """The deadline in the state has passed."""


@dataclass(frozen=True, slots=True)
class GateClear:
    """Nothing is left of the dead attempt: the next may start."""

    quarantined: frozenset[str] | None = None
    """GPUs that are out of use now: another run, or a person, may have changed that.
    None: not known, so as before."""


@dataclass(frozen=True, slots=True)
class GateHeld:
    """The next attempt cannot start yet; ``because`` names who or what holds it."""

    because: str


@dataclass(frozen=True, slots=True)
class GateUnknown:
    """Whether the next attempt may start is not known yet: to be asked again soon."""


Event = (
    Spawned | SpawnFailed | ProgressReported | Applied | NoticeReceived | ProofReported
    | SnapshotFailed | Advised | StepFailed | WentOn | HealthSampled | Exited
    | DrainRequested | RestartDue | MemoryHigh | StacksTaken | Unkillable | DeadlineExpired
    | GateClear | GateHeld | GateUnknown | DriverStuck
)  # fmt: skip
"""Any of them."""
