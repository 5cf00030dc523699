"""The metrics of a run: its state, its attempts and its progress."""

from functools import lru_cache

from supervisor.core.advisories.advisory import AdvisoryKind
from supervisor.core.causes import Cause
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.metrics.metric import (
    Distribution,
    Lifetime,
    Metric,
    MetricKind,
    Points,
    Value,
)
from supervisor.core.remediation.proofs import RESULTS

PHASES = (
    "starting", "restoring", "compiling", "training", "validating", "snapshot",
    "replaying", "between", "finished",
)  # fmt: skip
"""``wire.page.Phase`` in lower case; stands here because the core maps no files."""
BETWEEN = ("waiting", "down")
"""Without a training process: back-off and gate, and while one is started."""


_STATES = {
    now: tuple(((state.value,), float(state is now)) for state in JobState)
    for now in JobState
}
_CURRENT_PHASES = {
    now: tuple(((phase,), float(phase == now)) for phase in PHASES) for now in PHASES
}
# Made beforehand: they are asked for once a second, and seldom change.


def _states(status: JobStatus) -> Points:
    return _STATES[status.state]


def _current_phase(status: JobStatus) -> Points:
    return () if status.phase is None else _CURRENT_PHASES[status.phase]


def _advisories(status: JobStatus) -> Points:
    active = {one.kind for one in status.advisories if one.active}
    return tuple(((kind.value,), float(kind in active)) for kind in AdvisoryKind)


def _phase_seconds(status: JobStatus) -> Points:
    seconds = status.phase_seconds
    return tuple(((phase,), seconds.get(phase, 0.0)) for phase in (*PHASES, *BETWEEN))


def _restarts(status: JobStatus) -> Points:
    return _by_cause(tuple(status.restarts.items()))


def _incidents(status: JobStatus) -> Points:
    return _by_cause(tuple(status.incidents.items()))


@lru_cache(maxsize=256)
def _by_cause(counts: tuple[tuple[Cause, int], ...]) -> Points:
    known = dict(counts)
    return tuple(((cause.value,), known.get(cause, 0)) for cause in Cause)


def _step_durations(status: JobStatus) -> Value:
    return Distribution(status.step_counts, status.step_seconds_sum)


RUN_METRICS: tuple[Metric, ...] = (
    Metric(
        name="build",
        kind=MetricKind.INFO,
        labels=("version", "python"),
        help="Version of trainwarden and of the Python that runs it.",
        source="exporter",
    ),
    Metric(
        name="run_state",
        kind=MetricKind.GAUGE,
        labels=("run", "state"),
        help="1 for the state the run is in (queued before its turn), 0 for every other.",
        source="supervisor",
        read=_states,
    ),
    Metric(
        name="attempts",
        kind=MetricKind.COUNTER,
        help="Training processes started for this run.",
        source="supervisor",
        value=lambda status: status.attempt,
    ),
    Metric(
        name="restarts",
        kind=MetricKind.COUNTER,
        labels=("run", "cause"),
        help="Restarts by the cause that made them necessary.",
        source="history",
        read=_restarts,
    ),
    Metric(
        name="incidents",
        kind=MetricKind.COUNTER,
        labels=("run", "cause"),
        help="Attempts that ended badly, by diagnosed cause.",
        source="history",
        read=_incidents,
    ),
    Metric(
        name="resume_proofs",
        kind=MetricKind.COUNTER,
        labels=("run", "result"),
        help="Resumes that were put to the proof of continuing to the bit, by result.",
        source="history",
        read=lambda status: tuple(
            ((r.value,), status.proofs.get(r, 0)) for r in RESULTS
        ),
    ),
    Metric(
        name="resume_proof",
        kind=MetricKind.COUNTER,
        unit="seconds",
        help="Time that proofs of resumes took: steps done again that were not lost.",
        source="history",
        value=lambda status: status.proof_seconds,
    ),
    Metric(
        name="phase",
        kind=MetricKind.GAUGE,
        labels=("run", "phase"),
        lifetime=Lifetime.ATTEMPT,
        help="1 for what the training process is doing, 0 for everything else.",
        source="telemetry page",
        read=_current_phase,
    ),
    Metric(
        name="phase",
        kind=MetricKind.COUNTER,
        unit="seconds",
        labels=("run", "phase"),
        help="Time spent in each phase, of all attempts, and without one.",
        source="telemetry page",
        read=_phase_seconds,
    ),
    Metric(
        name="advisory",
        kind=MetricKind.GAUGE,
        labels=("run", "kind"),
        lifetime=Lifetime.ATTEMPT,
        help="1 for what makes the run slower than it need be, as measured; else 0.",
        source="history",
        read=_advisories,
    ),
    Metric(
        name="heartbeat_age",
        kind=MetricKind.GAUGE,
        unit="seconds",
        lifetime=Lifetime.ATTEMPT,
        help="Time since the training process last gave a sign of life.",
        source="telemetry page",
        value=lambda status: status.heartbeat_age_seconds,
    ),
    Metric(
        name="epoch",
        kind=MetricKind.GAUGE,
        help="The epoch in progress, counted from 0 as Keras does.",
        source="telemetry page",
        value=lambda status: status.epoch,
    ),
    Metric(
        name="epochs_planned",
        kind=MetricKind.GAUGE,
        help="Epochs that the current fit asks for.",
        source="telemetry page",
        value=lambda status: status.epochs,
    ),
    Metric(
        name="step",
        kind=MetricKind.GAUGE,
        help="Steps done since the run began; goes back when a snapshot is restored.",
        source="telemetry page",
        value=lambda status: status.step,
    ),
    Metric(
        name="steps_per_epoch",
        kind=MetricKind.GAUGE,
        help="Steps in one epoch of the current fit.",
        source="telemetry page",
        value=lambda status: status.steps_per_epoch,
    ),
    Metric(
        name="samples",
        kind=MetricKind.GAUGE,
        help="Samples seen since the run began; goes back as the step does.",
        source="telemetry page",
        value=lambda status: status.samples,
    ),
    Metric(
        name="loss",
        kind=MetricKind.GAUGE,
        lifetime=Lifetime.ATTEMPT,
        help="The training loss as Keras shows it: the mean over the epoch so far.",
        source="telemetry page",
        value=lambda status: status.loss,
    ),
    Metric(
        name="loss_step",
        kind=MetricKind.GAUGE,
        lifetime=Lifetime.ATTEMPT,
        help="The step that the loss is of: it is looked at now and then, not at each.",
        source="telemetry page",
        value=lambda status: status.loss_step,
    ),
    Metric(
        name="step_duration",
        kind=MetricKind.HISTOGRAM,
        unit="seconds",
        help="Time of each step, steps done again after a restore included.",
        source="telemetry page",
        value=_step_durations,
    ),
    Metric(
        name="effective_batch",
        kind=MetricKind.GAUGE,
        unit="samples",
        help="Samples in one update of the weights.",
        source="telemetry page",
        value=lambda status: status.effective_batch,
    ),
    Metric(
        name="microbatch_slices",
        kind=MetricKind.GAUGE,
        help="Slices in which a batch is worked through; 1: whole.",
        source="telemetry page",
        value=lambda status: status.slices,
    ),
    Metric(
        name="microbatch",
        kind=MetricKind.GAUGE,
        unit="samples",
        help="Samples in one slice.",
        source="telemetry page",
        value=lambda status: status.slice_size,
    ),
)
