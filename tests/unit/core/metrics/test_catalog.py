"""The table of metrics: its rules hold for every row."""

import re
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.causes import Cause
from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.gpu.xids import XidLog
from supervisor.core.jobs.job_status import (
    AllocatorStatus,
    JobState,
    JobStatus,
    SnapshotPlan,
    TierStatus,
)
from supervisor.core.memory.forecast import Resource
from supervisor.core.metrics.catalog import METRICS, as_markdown
from supervisor.core.metrics.gpu_metrics import XID_KINDS
from supervisor.core.metrics.machine_state import (
    KEPT_OUT,
    Collector,
    Machine,
)
from supervisor.core.metrics.memory_metrics import RESOURCES, SOURCES, TIERS
from supervisor.core.metrics.metric import (
    Distribution,
    Lifetime,
    Metric,
    MetricKind,
    Point,
)
from supervisor.core.metrics.run_metrics import BETWEEN, PHASES
from supervisor.wire.page import MemorySource, Phase
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY
from tests.support.metrics import BOARD, DIGITS, MACHINE, PART

EMPTY = JobStatus(job="a", state=JobState.LAUNCHING, attempt=0)
BASE_UNITS = {
    *(
        "",
        "seconds",
        "bytes",
        "samples",
        "ratio",
        "celsius",
        "watts",
        "joules",
        "hertz",
    ),
}
NOT_BASE = re.compile(
    r"(?:_|^)(?:ms|millis\w*|us|minutes|hours|[kmg]i?b|percent)(?:_|$)"
)


def named(family: str) -> Metric:
    """The row of ``family``."""
    return next(metric for metric in METRICS if metric.family == family)


def points(family: str, status: JobStatus) -> list[Point]:
    """What the row of ``family`` exports of ``status``."""
    return named(family).points(status)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_names(metric: Metric) -> None:
    """Names are in base units, without the suffixes that the format adds."""
    assert re.fullmatch(r"trainwarden(_[a-z]+)+", metric.family)
    assert metric.unit in BASE_UNITS
    assert not NOT_BASE.search(metric.family)
    assert not metric.family.endswith(("_total", "_info", "_count", "_sum", "_bucket"))


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_labels(metric: Metric) -> None:
    """A row about a run has the label run first; none has job, pid or instance."""
    assert not metric.of_run or metric.labels[0] == "run"
    assert (metric.value is not None) == (metric.of_run and len(metric.labels) == 1)
    assert (metric.value, metric.read, metric.read_machine).count(None) >= 2
    assert not {"job", "pid", "instance"} & set(metric.labels)
    assert metric.help.endswith(".")


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_what_is_known_fills_every_row(metric: Metric) -> None:
    """Each row finds its value where everything is known, with all its labels."""
    of_run, of_machine = metric.points(DIGITS), metric.machine_points(MACHINE)
    assert bool(of_run) == metric.of_run
    assert bool(of_machine) == (metric.read_machine is not None)
    assert {len(labels) for labels, _ in of_run} <= {len(metric.labels) - 1}
    assert {len(labels) for labels, _ in of_machine} <= {len(metric.labels)}


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.family)
def test_series_are_told_apart(metric: Metric) -> None:
    """No row says two things about the same labels."""
    found = [labels for labels, _ in metric.points(DIGITS)]
    found += [labels for labels, _ in metric.machine_points(MACHINE)]
    assert len(found) == len(set(found))


def test_nothing_is_known_of_an_empty_machine() -> None:
    """Without GPUs, processes and collectors there is nothing to say."""
    assert not any(metric.machine_points(Machine()) for metric in METRICS)


def machine_points(
    family: str, machine: Machine = MACHINE
) -> dict[tuple[str, ...], object]:
    """What the row of ``family`` says of ``machine``."""
    return dict(named(family).machine_points(machine))


def test_memory_of_gpus_and_their_parts() -> None:
    """A MIG device has memory of its own; who owns a process decides whose it is."""
    gib = 2**30
    assert machine_points("trainwarden_gpu_memory_used_bytes") == {
        (BOARD,): 20 * gib,
        (PART,): gib,
    }
    held = machine_points("trainwarden_gpu_process_memory_bytes")
    assert held == {("digits", BOARD): 19 * gib}
    assert machine_points("trainwarden_gpu_foreign_memory_bytes") == {(BOARD,): 2 * gib}


def test_what_the_driver_does_not_tell() -> None:
    """Memory of a stranger that is not told, or no list at all: nothing is claimed."""
    (gpu,) = MACHINE.gpus
    secret = tuple(replace(process, bytes=None) for process in gpu.processes or ())
    for processes in (secret, None):
        unknown = replace(gpu, processes=processes, rows=None, throttled=None)
        machine = replace(MACHINE, gpus=(unknown,))
        for name in ("process_memory_bytes", "foreign_memory_bytes", "throttled",
                     "remapped_rows", "remap_failed", "remap_pending"):  # fmt: skip
            assert machine_points(f"trainwarden_gpu_{name}", machine) == {}


def test_a_lost_gpu_says_only_that() -> None:
    """Of a GPU that fell off the bus nothing is told but that, its Xids, whether it is
    kept out of use, whose it is, and what its time went into."""
    (gpu,) = MACHINE.gpus
    lost = replace(MACHINE, gpus=(Gpu(uuid=gpu.uuid, lost=True),))
    told = {metric.family for metric in METRICS if gpu_rows(metric, lost)}
    assert told == {
        "trainwarden_gpu",
        "trainwarden_gpu_lost",
        "trainwarden_gpu_kept_out",
        "trainwarden_gpu_allocated",
        "trainwarden_gpu_time_seconds",
        "trainwarden_gpu_xids",
        "trainwarden_gpu_last_xid",
    }


def test_gpus_that_are_given_to_nobody() -> None:
    """1 for the reason that keeps it out, by UUID or by number; 0 for a GPU in use; and
    nothing where it cannot be told."""
    name = "trainwarden_gpu_kept_out"
    assert machine_points(name) == {
        (BOARD, "out_of_service"): 0,
        (BOARD, "quarantine"): 1,
        (PART, "out_of_service"): 0,
        (PART, "quarantine"): 0,
    }
    numbered = replace(MACHINE, kept_out={"quarantine": ("0",)})
    assert set(machine_points(name, numbered).values()) == {1}
    returned = replace(MACHINE, kept_out={"quarantine": ()})
    assert set(machine_points(name, returned).values()) == {0}
    assert machine_points(name, replace(MACHINE, kept_out={})) == {}


def test_a_gpu_that_does_not_come_back() -> None:
    """After a reboot the driver does not list it, and nobody here has seen it: what is
    written down of it is told all the same, until a person returns it."""
    gone = {"out_of_service": ("GPU-pulled",), "quarantine": (BOARD, "GPU-gone", "7")}
    machine = replace(MACHINE, kept_out=gone)
    kept = machine_points("trainwarden_gpu_kept_out", machine)
    assert kept["GPU-gone", "quarantine"] == kept["7", "quarantine"] == 1
    assert kept["GPU-gone", "out_of_service"] == 0
    assert kept["GPU-pulled", "out_of_service"] == 1
    lost = machine_points("trainwarden_gpu_lost", machine)
    assert lost == {(BOARD,): 0, ("GPU-gone",): 1}


@pytest.mark.parametrize(
    "collectors", [{}, {"nvml": Collector(success=False, seconds=None)}]
)
def test_a_driver_that_says_nothing_has_lost_no_gpu(
    collectors: dict[str, Collector],
) -> None:
    """That a GPU is kept out is known without it."""
    silent = replace(MACHINE, gpus=(), collectors=collectors)
    assert machine_points("trainwarden_gpu_lost", silent) == {}
    assert machine_points("trainwarden_gpu_kept_out", silent) == {
        (BOARD, "out_of_service"): 0,
        (BOARD, "quarantine"): 1,
    }


def test_no_xid_yet() -> None:
    """The counter is there at 0; the number of the last one is not there."""
    quiet = replace(MACHINE, xids=XidLog())
    assert machine_points("trainwarden_gpu_xids", quiet) == dict.fromkeys(
        ((BOARD, kind) for kind in XID_KINDS), 0
    )
    assert machine_points("trainwarden_gpu_last_xid", quiet) == {}


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (48, "memory"),
        (94, "memory"),
        (74, "nvlink"),
        (145, "nvlink"),
        (79, "bus"),
        (119, "hardware"),
        (31, "software"),
        (45, "other"),
    ],
)
def test_xids_by_kind(code: int, kind: str) -> None:
    """Each Xid counts as one kind, as NVIDIA's catalogue has it, and as no other."""
    counts = {(BOARD, code): 2, ("GPU-other", code): 1}
    told = machine_points(
        "trainwarden_gpu_xids", replace(MACHINE, xids=XidLog(counts=counts))
    )
    assert {key[1]: count for key, count in told.items() if count} == {kind: 2}


def test_what_only_a_daemon_knows() -> None:
    """Whose turn it is, and whether the ledger is written: nothing where nobody says;
    a user without a job that waits waits 0 seconds."""
    assert machine_points("trainwarden_ledger_behind", Machine()) == {}
    jobs = replace(MACHINE.jobs, waits={}, unwritten=True)
    machine = replace(MACHINE, jobs=jobs)
    assert machine_points("trainwarden_ledger_behind", machine) == {(): 1}
    assert machine_points("trainwarden_queue_longest_wait_seconds", machine) == {
        ("anna",): 0
    }


def test_no_plan_of_snapshots_yet() -> None:
    """Without a plan, and for a tier whose snapshots are counted in steps, there is no
    interval to tell."""
    none = replace(DIGITS, snapshot_plan=None)
    assert points("trainwarden_snapshot_interval_seconds", none) == []
    plan = SnapshotPlan(memory_seconds=None, durable_seconds=60.0, because="steps")
    steps = replace(DIGITS, snapshot_plan=plan)
    assert points("trainwarden_snapshot_interval_seconds", steps) == [
        (("durable",), 60.0)
    ]
    waits = replace(DIGITS, snapshot_wait_seconds={"durable": 7.0})
    assert points("trainwarden_snapshot_wait_seconds", waits) == [(("durable",), 7.0)]


def gpu_rows(metric: Metric, machine: Machine) -> list[Point]:
    """What a row with the label gpu says."""
    return metric.machine_points(machine) if "gpu" in metric.labels else []


def test_names_of_the_wire() -> None:
    """Tiers, sources and resources are those of the formats they come from."""
    assert {MEMORY, DURABLE} == set(TIERS)
    assert tuple(source.name.lower() for source in MemorySource) == SOURCES
    assert {resource.value for resource in Resource} == set(RESOURCES)
    assert set(MACHINE.kept_out) == set(KEPT_OUT)


def test_an_estimate_is_labelled() -> None:
    """The source of the allocator's figures is told; without one there is no series."""
    estimate = replace(DIGITS, allocator=AllocatorStatus(source="estimate"))
    assert points("trainwarden_allocator_source", estimate) == [
        (("map",), 0.0),
        (("counts",), 0.0),
        (("estimate",), 1.0),
    ]
    assert points("trainwarden_allocator_pool_bytes", estimate) == []
    for status in (replace(DIGITS, allocator=AllocatorStatus()), EMPTY):
        assert points("trainwarden_allocator_source", status) == []


def test_every_sample_has_one_row() -> None:
    """No two rows export a sample of one name."""
    names = [name for metric in METRICS for name in metric.samples]
    assert len(names) == len(set(names))


def test_counters_are_there_at_zero() -> None:
    """Before anything happened each cause and phase has a counter at 0."""
    for family in ("trainwarden_restarts", "trainwarden_incidents"):
        assert points(family, EMPTY) == [((cause.value,), 0) for cause in Cause]
    assert points("trainwarden_phase_seconds", EMPTY) == [
        ((phase,), 0.0) for phase in (*PHASES, *BETWEEN)
    ]
    for family in ("trainwarden_snapshots", "trainwarden_snapshot_failures"):
        assert points(family, EMPTY) == [((tier,), 0) for tier in TIERS]
    assert points("trainwarden_attempts", EMPTY) == [((), 0)]
    assert points("trainwarden_step_duration_seconds", EMPTY) == [
        ((), Distribution((), 0.0))
    ]


def test_unknown_is_not_zero() -> None:
    """A gauge that is not known yet has no sample."""
    gauges = [metric for metric in METRICS if metric.kind is MetricKind.GAUGE]
    filled = {metric.family for metric in gauges if metric.points(EMPTY)}
    assert filled == {"trainwarden_run_state"}


def test_a_counter_that_is_not_known_has_no_sample() -> None:
    """From 0 it would climb anew, and be a spike in each rate."""
    unread = TierStatus(snapshots=None, failures=None)
    status = replace(EMPTY, tiers=dict.fromkeys(TIERS, unread))
    for family in ("trainwarden_snapshots", "trainwarden_snapshot_failures"):
        assert points(family, status) == []


def test_phases_are_those_of_the_page() -> None:
    """The phases here are those of the telemetry page, in its order."""
    assert tuple(phase.name.lower() for phase in Phase) == PHASES


def test_gauges_of_the_process_end_with_it() -> None:
    """Without a training process what it used is gone, what it reached stays."""
    ended = JobStatus(
        job="a",
        state=JobState.GAVE_UP,
        attempt=2,
        step=15,
        phase="training",
        loss=0.1,
        loss_step=12,
        memory_in_use_bytes=7,
    )
    for metric in METRICS:
        if metric.lifetime is Lifetime.ATTEMPT:
            assert metric.points(ended) == []
    assert points("trainwarden_step", ended) == [((), 15)]


def test_the_loss_has_its_step_beside_it() -> None:
    """Its own, not that of the run; one that nobody told is no step 0."""
    running = JobStatus(
        job="a",
        state=JobState.RUNNING,
        attempt=1,
        pid=1,
        step=40,
        loss=0.5,
        loss_step=32,
    )
    assert points("trainwarden_loss_step", running) == [((), 32)]
    assert points("trainwarden_loss_step", replace(running, loss_step=None)) == []


@given(st.sampled_from(JobState))
def test_one_state_at_a_time(state: JobState) -> None:
    """Exactly the state of the run is 1."""
    found = points("trainwarden_run_state", JobStatus(job="a", state=state, attempt=1))
    assert [labels for labels, value in found if value] == [(state.value,)]
    assert len(found) == len(JobState)


@pytest.mark.parametrize("phase", PHASES)
def test_one_phase_at_a_time(phase: str) -> None:
    """Exactly the phase of the process is 1; without one there is no sample."""
    status = JobStatus(job="a", state=JobState.RUNNING, attempt=1, pid=1, phase=phase)
    found = points("trainwarden_phase", status)
    assert [labels for labels, value in found if value] == [(phase,)]
    unknown = JobStatus(job="a", state=JobState.RUNNING, attempt=1, pid=1)
    assert points("trainwarden_phase", unknown) == []


def test_markdown_names_every_sample() -> None:
    """The table for people has one row a metric and names each of its samples."""
    text = as_markdown()
    assert len(text.splitlines()) == len(METRICS) + 2
    at = [text.index(f"`{metric.samples[0]}`") for metric in METRICS]
    assert all(before < after for before, after in pairwise(at))
