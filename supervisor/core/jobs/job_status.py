"""What a person, a script or Prometheus is told about a job: one value for all three."""

import enum
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, cast

from supervisor.core.causes import Cause
from supervisor.core.memory.step_budget import StepBudget, budget_from_json


def state_words(state: str) -> str:
    """A state for people: ``gave up``; of a newer version's, too."""
    return state.replace("_", " ")


class JobState(enum.StrEnum):
    """Where a job is, as people and metrics are told, and as the ledger keeps it; what the
    transition table moves between is finer (``core.lifecycle.run_state.RunPhase``)."""

    LAUNCHING = "launching"
    """An attempt is being started."""
    RUNNING = "running"
    DRAINING = "draining"
    """Asked to save its state and end, or to save it and start again."""
    KILLING = "killing"
    """It hangs or did not end when asked: ended by SIGKILL, after a look at its stacks."""
    WAITING = "waiting"
    """Between two attempts: back-off, or the gate."""
    FINISHED = "finished"
    DRAINED = "drained"
    """Ended on request with its state saved: run again to resume."""
    GAVE_UP = "gave_up"
    INTERRUPTED = "interrupted"
    """Told, never entered: the files say that nobody supervises the run any more."""
    QUEUED = "queued"
    """Told, never entered: a daemon has the job, and it waits for its turn."""

    @property
    def words(self) -> str:
        """For people: ``gave up``."""
        return state_words(self.value)

    @property
    def ended(self) -> bool:
        """No attempt will follow."""
        return self in {JobState.FINISHED, JobState.DRAINED, JobState.GAVE_UP}


class LoopKind(enum.StrEnum):
    """What a script does that is in no ``fit``."""

    OWN = "own"
    """It trains in a loop of its own, and its steps are seen."""
    UNSEEN = "unseen"
    """It has run for a while, and no step of it was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotStatus:
    """The newest whole snapshot."""

    step: int
    age_seconds: float | None
    """None: it is older than this boot of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPlan:
    """How often snapshots are taken. None: no such tier, or counted in steps."""

    memory_seconds: float | None
    durable_seconds: float | None
    because: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceTrial:
    """The search, in the first steps, for how many samples fit at once."""

    size: int
    """Samples a slice that are tried now."""
    batch: int
    """Samples in a whole batch, of one device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TierStatus:
    """The snapshots of one tier. None: there is none yet."""

    snapshots: int | None = 0
    """Completed by the attempts of the run; None: not all records are read yet."""
    failures: int | None = 0
    age_seconds: float | None = None
    """Of the newest whole one, as the others below; None: there is none, or it is older
    than this boot of the machine."""
    size_bytes: int | None = None
    seconds: float | None = None
    stall_seconds: float | None = None
    failing: str | None = None
    """Why the last one was not saved; None: it was, or none is known of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteStatus:
    """The snapshots that were sent beyond the machine. None: none yet, or not known."""

    address: str
    step: int | None = None
    """Of the newest whole one there."""
    age_seconds: float | None = None
    """Since it was complete there; None: before this boot of the machine, too."""
    snapshots: int = 0
    failures: int = 0
    sent_bytes: int = 0
    kept_bytes: int = 0
    """Of parts that were there already, and not sent again."""
    sending: str | None = None
    problem: str | None = None
    """Why the last upload failed; None: it did not."""
    taken_by: str | None = None
    """The machine that took the run over; None: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorStatus:
    """The framework's allocator, looked into. None: not known."""

    pool_bytes: int | None = None
    largest_free_bytes: int | None = None
    largest_allocatable_bytes: int | None = None
    largest_request_bytes: int | None = None
    """The largest tensor that was asked for since slices have their size."""
    fragmentation: float | None = None
    """(free in pool - largest free block) / free in pool, 0 to 1; of PyTorch, free in
    segments that are in use otherwise / free in pool."""
    source: str | None = None
    """``wire.page.MemorySource`` in lower case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisoryStatus:
    """What makes the run slower or larger than it need be."""

    kind: str
    """``core.advisories.AdvisoryKind``."""
    active: bool
    """Whether it holds for the attempt that runs now."""
    attempt: int
    """The newest that it held for."""
    sentence: str
    advice: str
    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    """The evidence, in base units."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorStatus:
    """The newest end of an attempt that was a failure."""

    attempt: int
    cause: str
    """``core.causes.Cause``."""
    text: str
    """What it said itself, in one line without control characters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """One job, now. None: not known (yet), which is not zero."""

    job: str
    state: JobState
    attempt: int
    """Number of the current or last attempt, from 1; 0 before the first."""
    phase: str | None = None
    """``wire.page.Phase`` in lower case."""
    loop: LoopKind | None = None
    """What is known of a script that is in no ``fit``; None: it is in one, or nothing."""
    after_error: str | None = None
    """``wire.page.ErrorStage`` in lower case: an error ended the script, and its process is
    there yet; None: none did."""
    pid: int | None = None
    """The training process; None while there is none."""
    epoch: int | None = None
    """From 0, as Keras counts."""
    epochs: int | None = None
    step: int | None = None
    step_in_epoch: int | None = None
    steps_per_epoch: int | None = None
    samples: int | None = None
    loss: float | None = None
    loss_step: int | None = None
    """The step that ``loss`` is of, which is looked at now and then; where it is known and
    the loss is not, the loss was NaN or infinite."""
    step_seconds: float | None = None
    effective_batch: int | None = None
    slices: int | None = None
    slice_size: int | None = None
    slice_trial: SliceTrial | None = None
    """None: no size is being tried; the slices are those to stay with."""
    snapshot: SnapshotStatus | None = None
    tiers: Mapping[str, TierStatus] = field(default_factory=dict[str, TierStatus])
    """By the names of ``wire.snapshots.manifest``."""
    snapshot_plan: SnapshotPlan | None = None
    """None: nothing has trained yet."""
    snapshot_wait_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """How long training has had no new snapshot, by tiers that go by the clock."""
    remote: RemoteStatus | None = None
    """None: snapshots stay on this machine."""
    memory_limit_bytes: int | None = None
    memory_in_use_bytes: int | None = None
    memory_peak_bytes: int | None = None
    """The step peak: the most in use at once since slices have this size, in the newest
    attempt."""
    run_peak_bytes: int | None = None
    """The most of all attempts, whatever slices they had: as ``history`` tells it."""
    allocator: AllocatorStatus | None = None
    step_needs: StepBudget | None = None
    """What a step of the newest attempt's first ``fit`` needs, in parts; None: not told,
    as without a limit or a GPU."""
    forecast_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """Until memory runs out, by ``forecast.Resource``: of those that grow."""
    host_rss_bytes: int | None = None
    heartbeat_age_seconds: float | None = None
    progress_age_seconds: float | None = None
    """Since a step was done, a batch was validated, or this phase began."""
    hang_seconds: float | None = None
    """How long that may last before it is judged a hang, at the earliest; None: for ever,
    or as long as it works, or not known."""
    memory_refused_age_seconds: float | None = None
    """Since an allocation of TensorFlow last found no memory, where there was no progress
    after that: it may wait ten seconds for some, and then it fails."""
    step_counts: tuple[int, ...] = ()
    """Steps a bucket of ``wire.page.STEP_BUCKETS_SECONDS``, all attempts together."""
    step_seconds_sum: float = 0.0
    phase_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    restarts: Mapping[Cause, int] = field(default_factory=dict[Cause, int])
    """Restarts by the cause that made them necessary."""
    incidents: Mapping[Cause, int] = field(default_factory=dict[Cause, int])
    overrides: Mapping[str, object] = field(default_factory=dict[str, object])
    """What remedies put in force (``core.remediation.overrides.described``), confirmed
    by the attempt; empty: nothing."""
    asked: Mapping[str, object] = field(default_factory=dict[str, object])
    """What they asked for that the attempt has not confirmed (yet)."""
    unmet: Mapping[str, object] = field(default_factory=dict[str, object])
    """What they asked for that did not come into force."""
    exact: bool | None = None
    """Whether a resume to the bit is promised; None: nothing was told of it so far."""
    promise: str | None = None
    """Why bits are not promised for this run, if they are not."""
    promise_fit: int | None = None
    """For which call of ``fit``, from 0: the first of them; None: not known."""
    proof: str | None = None
    """Whether the newest resume that was put to the proof continued to the bit."""
    proofs: Mapping[str, int] = field(default_factory=dict[str, int])
    """What came of all such proofs, by ``wire.snapshots.proof.Proof``."""
    proof_seconds: float = 0.0
    """What they took: steps done again that are no lost work."""
    advisories: tuple[AdvisoryStatus, ...] = ()
    """The newest of each kind, of all attempts."""
    standby: str | None = None
    """How the process stands that waits to be the next attempt; None: none is wanted."""
    standby_bytes: int | None = None
    """What it takes of main memory, once it waits; None: none does."""
    last_error: ErrorStatus | None = None
    """None: no attempt failed, or what it said is not known."""
    message: str = ""
    """What is going on, in a sentence."""


def _finite(value: object) -> Any:
    """JSON has no infinite numbers: what a page or a loss says that is none is null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        known = cast("dict[str, object]", value)
        return {key: _finite(one) for key, one in known.items()}
    return value


def status_json(status: JobStatus) -> dict[str, Any]:
    """The documented shape of one job in ``status --json``."""
    value: dict[str, Any] = _finite(asdict(status))
    sliced = {"slices": value.pop("slices"), "size": value.pop("slice_size")}
    return {**value, "microbatch": sliced}


def status_from_json(value: Mapping[str, Any]) -> JobStatus:
    """What ``status_json`` made, for showing it as text; keys it does not know are left
    out. Raises ValueError, TypeError, KeyError for anything else."""
    sliced: Mapping[str, Any] = value.get("microbatch", {})
    names = {item.name for item in fields(JobStatus)}
    known: dict[str, Any] = {n: given for n, given in value.items() if n in names}
    known |= {"slices": sliced.get("slices"), "slice_size": sliced.get("size")}
    nested = {
        "snapshot": SnapshotStatus,
        "snapshot_plan": SnapshotPlan,
        "slice_trial": SliceTrial,
        "remote": RemoteStatus,
        "allocator": AllocatorStatus,
        "last_error": ErrorStatus,
    }
    for name, kind in nested.items():
        if known.get(name) is not None:
            known[name] = kind(**known[name])
    if known.get("step_needs") is not None:
        known["step_needs"] = budget_from_json(known["step_needs"])
    tiers: Mapping[str, Any] = known.get("tiers", {})
    known["tiers"] = {name: _tier_from_json(one) for name, one in tiers.items()}
    known["advisories"] = tuple(map(_advisory_from_json, value.get("advisories", ())))
    known["state"] = JobState(value["state"])
    known["loop"] = _loop_from_json(value.get("loop"))
    return JobStatus(**known)


def _loop_from_json(value: object) -> LoopKind | None:
    """None for what a newer version tells, too."""
    return next((kind for kind in LoopKind if kind.value == value), None)


def _advisory_from_json(value: Mapping[str, Any]) -> AdvisoryStatus:
    names = {item.name for item in fields(AdvisoryStatus)}
    return AdvisoryStatus(**{n: given for n, given in value.items() if n in names})


def _tier_from_json(value: Mapping[str, Any]) -> TierStatus:
    names = {item.name for item in fields(TierStatus)}
    return TierStatus(**{n: given for n, given in value.items() if n in names})
