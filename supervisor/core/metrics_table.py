"""Every metric, one row a fact: what is exported is read from this table.

Rules: base units; a counter is there at 0 from the start; labels are ``run`` and at
most one more with a fixed set of values, never a pid, never ``job`` (Prometheus' own
label of that name would rename it). A gauge of the living process ends with the
attempt; what the run has reached, its state and its counters stay.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from supervisor.core.causes import Cause
from supervisor.core.status import JobState, JobStatus

PREFIX = "trainwarden_"

PHASES = (
    "starting", "restoring", "compiling", "training", "validating", "snapshot",
    "replaying", "between", "finished",
)  # fmt: skip
"""``wire.page.Phase`` in lower case; stands here because the core maps no files."""


class Kind(enum.StrEnum):
    """Types of OpenMetrics."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    INFO = "info"


class Lifetime(enum.StrEnum):
    """How long a series of a run is exported."""

    ATTEMPT = "attempt"
    """While a training process is there."""
    RUN = "run"
    """As long as the run is shown at all."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Observations a bucket, not cumulated, and their sum; no counts: none yet."""

    counts: tuple[int, ...]
    total: float


Value = float | Distribution | None
"""None: not known, so not exported."""
Point = tuple[tuple[str, ...], Value]
"""Values of the labels after ``run``, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row. ``name`` is without prefix, unit and suffix."""

    name: str
    kind: Kind
    help: str
    source: str
    """Where the value comes from."""
    unit: str = ""
    labels: tuple[str, ...] = ("run",)
    lifetime: Lifetime = Lifetime.RUN
    read: Callable[[JobStatus], Iterable[Point]] | None = None
    """None: about the exporter itself, filled in by it."""

    @property
    def family(self) -> str:
        """The name in OpenMetrics: with prefix and unit."""
        return PREFIX + self.name + (f"_{self.unit}" if self.unit else "")

    @property
    def samples(self) -> tuple[str, ...]:
        """The names that a query can use."""
        return tuple(self.family + suffix for suffix in _SUFFIXES[self.kind])

    def points(self, status: JobStatus) -> list[Point]:
        """What to export of ``status``: nothing unknown, nothing that has ended."""
        if self.read is None:
            return []
        if self.lifetime is Lifetime.ATTEMPT and status.pid is None:
            return []
        return [point for point in self.read(status) if point[1] is not None]


_SUFFIXES = {
    Kind.GAUGE: ("",),
    Kind.COUNTER: ("_total",),
    Kind.HISTOGRAM: ("_bucket", "_count", "_sum"),
    Kind.INFO: ("_info",),
}


def _one(get: Callable[[JobStatus], Value]) -> Callable[[JobStatus], list[Point]]:
    return lambda status: [((), get(status))]


def _states(status: JobStatus) -> list[Point]:
    return [((state.value,), float(state is status.state)) for state in JobState]


def _current_phase(status: JobStatus) -> list[Point]:
    if status.phase is None:
        return []
    return [((phase,), float(phase == status.phase)) for phase in PHASES]


def _phase_seconds(status: JobStatus) -> list[Point]:
    return [((phase,), status.phase_seconds.get(phase, 0.0)) for phase in PHASES]


def _restarts(status: JobStatus) -> list[Point]:
    return [((cause.value,), status.restarts.get(cause, 0)) for cause in Cause]


def _incidents(status: JobStatus) -> list[Point]:
    return [((cause.value,), status.incidents.get(cause, 0)) for cause in Cause]


def _step_durations(status: JobStatus) -> Value:
    return Distribution(status.step_counts, status.step_seconds_sum)


def _snapshot_step(status: JobStatus) -> Value:
    return status.snapshot.step if status.snapshot else None


def _snapshot_age(status: JobStatus) -> Value:
    return status.snapshot.age_seconds if status.snapshot else None


METRICS: tuple[Metric, ...] = (
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
        read=_one(lambda status: status.attempt),
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
        help="Time spent in each phase, all attempts together; complete phases only.",
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
        read=_one(lambda status: status.heartbeat_age_seconds),
    ),
    Metric(
        name="epoch",
        kind=Kind.GAUGE,
        help="The epoch in progress, counted from 0 as Keras does.",
        source="telemetry page",
        read=_one(lambda status: status.epoch),
    ),
    Metric(
        name="epochs_planned",
        kind=Kind.GAUGE,
        help="Epochs that the current fit asks for.",
        source="telemetry page",
        read=_one(lambda status: status.epochs),
    ),
    Metric(
        name="step",
        kind=Kind.GAUGE,
        help="Steps done since the run began; goes back when a snapshot is restored.",
        source="telemetry page",
        read=_one(lambda status: status.step),
    ),
    Metric(
        name="steps_per_epoch",
        kind=Kind.GAUGE,
        help="Steps in one epoch of the current fit.",
        source="telemetry page",
        read=_one(lambda status: status.steps_per_epoch),
    ),
    Metric(
        name="samples",
        kind=Kind.GAUGE,
        help="Samples seen since the run began; goes back as the step does.",
        source="telemetry page",
        read=_one(lambda status: status.samples),
    ),
    Metric(
        name="loss",
        kind=Kind.GAUGE,
        lifetime=Lifetime.ATTEMPT,
        help="The training loss as Keras shows it: the mean over the epoch so far.",
        source="telemetry page",
        read=_one(lambda status: status.loss),
    ),
    Metric(
        name="step_duration",
        kind=Kind.HISTOGRAM,
        unit="seconds",
        help="Time of each step, steps done again after a restore included.",
        source="telemetry page",
        read=_one(_step_durations),
    ),
    Metric(
        name="effective_batch",
        kind=Kind.GAUGE,
        unit="samples",
        help="Samples in one update of the weights.",
        source="telemetry page",
        read=_one(lambda status: status.effective_batch),
    ),
    Metric(
        name="microbatch_slices",
        kind=Kind.GAUGE,
        help="Slices in which a batch is worked through; 1: whole.",
        source="telemetry page",
        read=_one(lambda status: status.slices),
    ),
    Metric(
        name="microbatch",
        kind=Kind.GAUGE,
        unit="samples",
        help="Samples in one slice.",
        source="telemetry page",
        read=_one(lambda status: status.slice_size),
    ),
    Metric(
        name="allocator_limit",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The most that the framework's allocator may take.",
        source="allocator",
        read=_one(lambda status: status.memory_limit_bytes),
    ),
    Metric(
        name="allocator_in_use",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Handed out by the framework's allocator.",
        source="allocator",
        read=_one(lambda status: status.memory_in_use_bytes),
    ),
    Metric(
        name="allocator_peak",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The most that was handed out at once in this attempt.",
        source="allocator",
        read=_one(lambda status: status.memory_peak_bytes),
    ),
    Metric(
        name="training_resident_memory",
        kind=Kind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Main memory that the training process has resident.",
        source="telemetry page",
        read=_one(lambda status: status.host_rss_bytes),
    ),
    Metric(
        name="snapshot_step",
        kind=Kind.GAUGE,
        help="Step of the newest whole snapshot.",
        source="snapshots",
        read=_one(_snapshot_step),
    ),
    Metric(
        name="snapshot_age",
        kind=Kind.GAUGE,
        unit="seconds",
        help="Age of the newest whole snapshot: what a crash now would cost.",
        source="snapshots",
        read=_one(_snapshot_age),
    ),
)


def as_markdown() -> str:
    """The table for people; ``deploy/prometheus/metrics.md`` holds what this says."""
    rows = [
        f"| `{'`, `'.join(metric.samples)}` | {metric.kind} "
        f"| {', '.join(metric.labels)} | {metric.lifetime} "
        f"| {metric.help} | {metric.source} |"
        for metric in METRICS
    ]
    return "\n".join(
        (
            "| name | type | labels | until the end of | meaning | source |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        )
    )
