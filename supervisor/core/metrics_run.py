"""The metrics of a run: its state, its progress, its memory as the framework sees it."""

from collections.abc import Callable

from supervisor.core.causes import Cause
from supervisor.core.metrics_row import (
    Distribution,
    Kind,
    Lifetime,
    Metric,
    Point,
    Value,
    one,
)
from supervisor.core.status import AllocatorStatus, JobState, JobStatus, TierStatus

TIERS = ("memory", "durable")
"""Where snapshots are kept (``wire.manifest``)."""
SOURCES = ("map", "counts", "estimate")
"""``wire.page.MemorySource`` in lower case."""
RESOURCES = ("device", "contiguous", "host")
"""What may run out (``core.forecast``)."""
PHASES = (
    "starting", "restoring", "compiling", "training", "validating", "snapshot",
    "replaying", "between", "finished",
)  # fmt: skip
"""``wire.page.Phase`` in lower case; stands here because the core maps no files."""
BETWEEN = ("waiting", "down")
"""Without a training process: back-off and gate, and while one is started."""


def _states(status: JobStatus) -> list[Point]:
    return [((state.value,), float(state is status.state)) for state in JobState]


def _current_phase(status: JobStatus) -> list[Point]:
    if status.phase is None:
        return []
    return [((phase,), float(phase == status.phase)) for phase in PHASES]


def _phase_seconds(status: JobStatus) -> list[Point]:
    seconds = status.phase_seconds
    return [((phase,), seconds.get(phase, 0.0)) for phase in (*PHASES, *BETWEEN)]


def _restarts(status: JobStatus) -> list[Point]:
    return [((cause.value,), status.restarts.get(cause, 0)) for cause in Cause]


def _incidents(status: JobStatus) -> list[Point]:
    return [((cause.value,), status.incidents.get(cause, 0)) for cause in Cause]


def _step_durations(status: JobStatus) -> Value:
    return Distribution(status.step_counts, status.step_seconds_sum)


def _snapshot_step(status: JobStatus) -> Value:
    return status.snapshot.step if status.snapshot else None


def _tier(get: Callable[[TierStatus], Value]) -> Callable[[JobStatus], list[Point]]:
    def read(status: JobStatus) -> list[Point]:
        known = {tier: status.tiers.get(tier, TierStatus()) for tier in TIERS}
        return [((tier,), get(one)) for tier, one in known.items()]

    return read


def _allocator(
    get: Callable[[AllocatorStatus], Value],
) -> Callable[[JobStatus], list[Point]]:
    return one(lambda status: get(status.allocator) if status.allocator else None)


def _source(status: JobStatus) -> list[Point]:
    if status.allocator is None or status.allocator.source is None:
        return []
    now = status.allocator.source
    return [((source,), float(source == now)) for source in SOURCES]


def _forecast(status: JobStatus) -> list[Point]:
    seconds = status.forecast_seconds
    return [((resource,), seconds.get(resource)) for resource in RESOURCES]


RUN_METRICS: tuple[Metric, ...] = (
    Metric(
        name="build",
        kind=Kind.INFO,
        labels=("version", "python"),
        help="Version of trainwarden and of the Python that runs it.",
        source="exporter",
    ),
    Metric(
        name="run_state",
        kind=Kind.GAUGE,
        labels=("run", "state"),
        help="1 for the state the run is in, 0 for every other.",
        source="supervisor",
        read=_states,
    ),
    Metric(
        name="attempts",
        kind=Kind.COUNTER,
        help="Training processes started for this run.",
        source="supervisor",
        read=one(lambda status: status.attempt),
    ),
    Metric(
        name="restarts",
        kind=Kind.COUNTER,
        labels=("run", "cause"),
        help="Restarts by the cause that made them necessary.",
        source="history",
        read=_restarts,
    ),
    Metric(
        name="incidents",
        kind=Kind.COUNTER,
        labels=("run", "cause"),
        help="Attempts that ended badly, by diagnosed cause.",
        source="history",
        read=_incidents,
    ),
    Metric(
        name="phase",
        kind=Kind.GAUGE,
        labels=("run", "phase"),
        lifetime=Lifetime.ATTEMPT,
        help="1 for what the training process is doing, 0 for everything else.",
        source="telemetry page",
        read=_current_phase,
    ),
    Metric(
        name="phase",
        kind=Kind.COUNTER,
        unit="seconds",
        labels=("run", "phase"),
        help="Time spent in each phase, complete phases of all attempts, and without one.",
        source="telemetry page",
        read=_phase_seconds,
    ),
    Metric(
        name="heartbeat_age",
        kind=Kind.GAUGE,
        unit="seconds",
        lifetime=Lifetime.ATTEMPT,
        help="Time since the training process last gave a sign of life.",
        source="telemetry page",
        read=one(lambda status: status.heartbeat_age_seconds),
    ),
    Metric(
        name="epoch",
        kind=Kind.GAUGE,
        help="The epoch in progress, counted from 0 as Keras does.",
        source="telemetry page",
        read=one(lambda status: status.epoch),
    ),
    Metric(
        name="epochs_planned",
        kind=Kind.GAUGE,
        help="Epochs that the current fit asks for.",
        source="telemetry page",
        read=one(lambda status: status.epochs),
    ),
    Metric(
        name="step",
        kind=Kind.GAUGE,
        help="Steps done since the run began; goes back when a snapshot is restored.",
        source="telemetry page",
        read=one(lambda status: status.step),
    ),
    Metric(
        name="steps_per_epoch",
        kind=Kind.GAUGE,
        help="Steps in one epoch of the current fit.",
        source="telemetry page",
        read=one(lambda status: status.steps_per_epoch),
    ),
    Metric(
        name="samples",
        kind=Kind.GAUGE,
        help="Samples seen since the run began; goes back as the step does.",
        source="telemetry page",
        read=one(lambda status: status.samples),
    ),
    Metric(
        name="loss",
        kind=Kind.GAUGE,
        lifetime=Lifetime.ATTEMPT,
        help="The training loss as Keras shows it: the mean over the epoch so far.",
        source="telemetry page",
        read=one(lambda status: status.loss),
    ),
    Metric(
        name="step_duration",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time of each step, steps done again after a restore included.",
        source="telemetry page",
        read=one(_step_durations),
    ),
    Metric(
        name="effective_batch",
        kind=Kind.GAUGE,
        unit="samples",
        help="Samples in one update of the weights.",
        source="telemetry page",
        read=one(lambda status: status.effective_batch),
    ),
    Metric(
        name="microbatch_slices",
        kind=Kind.GAUGE,
        help="Slices in which a batch is worked through; 1: whole.",
        source="telemetry page",
        read=one(lambda status: status.slices),
    ),
    Metric(
        name="microbatch",
        kind=Kind.GAUGE,
        unit="samples",
        help="Samples in one slice.",
        source="telemetry page",
        read=one(lambda status: status.slice_size),
    ),
    Metric(
        name="allocator_limit",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The most that the framework's allocator may take.",
        source="allocator",
        read=one(lambda status: status.memory_limit_bytes),
    ),
    Metric(
        name="allocator_in_use",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Handed out by the framework's allocator.",
        source="allocator",
        read=one(lambda status: status.memory_in_use_bytes),
    ),
    Metric(
        name="allocator_peak",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The most that was handed out at once in this attempt.",
        source="allocator",
        read=one(lambda status: status.memory_peak_bytes),
    ),
    Metric(
        name="allocator_pool",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Taken from the device by the framework's allocator so far.",
        source="allocator map",
        read=_allocator(lambda known: known.pool_bytes),
    ),
    Metric(
        name="allocator_largest_free",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The largest free block inside the allocator's pool.",
        source="allocator map",
        read=_allocator(lambda known: known.largest_free_bytes),
    ),
    Metric(
        name="allocator_largest_allocatable",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The largest tensor that would fit now: a free block, or room to grow.",
        source="allocator map, or an estimate",
        read=_allocator(lambda known: known.largest_allocatable_bytes),
    ),
    Metric(
        name="allocator_fragmentation",
        kind=Kind.GAUGE,
        unit="ratio",
        lifetime=Lifetime.ATTEMPT,
        help="Part of the pool's free memory that is not in its largest free block.",
        source="allocator map",
        read=_allocator(lambda known: known.fragmentation),
    ),
    Metric(
        name="allocator_source",
        kind=Kind.GAUGE,
        labels=("run", "source"),
        lifetime=Lifetime.ATTEMPT,
        help="1 for where the allocator's figures come from, 0 for the other ways.",
        source="telemetry page",
        read=_source,
    ),
    Metric(
        name="memory_forecast",
        kind=Kind.GAUGE,
        unit="seconds",
        labels=("run", "resource"),
        lifetime=Lifetime.ATTEMPT,
        help="Time until memory runs out if it grows on; absent where it does not grow.",
        source="forecast",
        read=_forecast,
    ),
    Metric(
        name="training_resident_memory",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Main memory that the training process has resident.",
        source="telemetry page",
        read=one(lambda status: status.host_rss_bytes),
    ),
    Metric(
        name="snapshot_step",
        kind=Kind.GAUGE,
        help="Step of the newest whole snapshot.",
        source="snapshots",
        read=one(_snapshot_step),
    ),
    Metric(
        name="snapshots",
        kind=Kind.COUNTER,
        labels=("run", "tier"),
        help="Snapshots that were completed.",
        source="event file",
        read=_tier(lambda tier: tier.snapshots),
    ),
    Metric(
        name="snapshot_failures",
        kind=Kind.COUNTER,
        labels=("run", "tier"),
        help="Snapshots that could not be written; training went on.",
        source="event file",
        read=_tier(lambda tier: tier.failures),
    ),
    Metric(
        name="snapshot_age",
        kind=Kind.GAUGE,
        unit="seconds",
        labels=("run", "tier"),
        help="Age of the newest whole snapshot: what a crash now would cost.",
        source="event file",
        read=_tier(lambda tier: tier.age_seconds),
    ),
    Metric(
        name="snapshot_size",
        kind=Kind.GAUGE,
        unit="bytes",
        labels=("run", "tier"),
        help="Size of the newest whole snapshot.",
        source="event file",
        read=_tier(lambda tier: tier.size_bytes),
    ),
    Metric(
        name="snapshot_duration",
        kind=Kind.GAUGE,
        unit="seconds",
        labels=("run", "tier"),
        help="How long the newest snapshot took until it was whole.",
        source="event file",
        read=_tier(lambda tier: tier.seconds),
    ),
    Metric(
        name="snapshot_stall",
        kind=Kind.GAUGE,
        unit="seconds",
        labels=("run", "tier"),
        help="How long the newest snapshot held up the training thread.",
        source="event file",
        read=_tier(lambda tier: tier.stall_seconds),
    ),
)
