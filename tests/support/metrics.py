"""A run and a machine of which everything is known: they fill every metric."""

from collections.abc import Iterable

from supervisor.core.causes import Cause
from supervisor.core.gpu.gpu_readings import (
    Gpu,
    GpuMemory,
    GpuProcess,
    MigDevice,
    RemappedRows,
    Xid,
)
from supervisor.core.gpu.xids import XidLog, heard
from supervisor.core.jobs.job_status import (
    AdvisoryStatus,
    AllocatorStatus,
    JobState,
    JobStatus,
    RemoteStatus,
    SnapshotPlan,
    SnapshotStatus,
    TierStatus,
)
from supervisor.core.metrics.gpu_time import HELD, USES
from supervisor.core.metrics.machine_state import (
    CgroupMemory,
    Collector,
    GpuTimes,
    JobsView,
    Machine,
    Space,
    TreeUse,
)
from supervisor.host.exporter.exposition import ExpositionEncoder, MetricsSnapshot
from supervisor.host.exporter.exposition_cache import ExpositionCache, Form

GIB = 2**30
BOARD = "GPU-5e4f1d6c"
PART = "MIG-77aa"

DIGITS = JobStatus(
    job="digits",
    state=JobState.RUNNING,
    attempt=2,
    phase="training",
    pid=4711,
    epoch=1,
    epochs=10,
    step=15,
    step_in_epoch=3,
    steps_per_epoch=12,
    samples=1920,
    loss=0.25,
    loss_step=14,
    step_seconds=0.2,
    effective_batch=128,
    slices=4,
    slice_size=32,
    snapshot=SnapshotStatus(step=10, age_seconds=1.5),
    snapshot_plan=SnapshotPlan(
        memory_seconds=10.0, durable_seconds=60.0, because="measured"
    ),
    snapshot_wait_seconds={"memory": 0.5, "durable": 30.0},
    tiers={
        "memory": TierStatus(
            snapshots=40,
            age_seconds=0.5,
            size_bytes=10**6,
            seconds=0.02,
            stall_seconds=0.001,
        ),
        "durable": TierStatus(
            snapshots=3,
            failures=1,
            age_seconds=30.0,
            size_bytes=10**6,
            seconds=0.2,
            stall_seconds=0.001,
        ),
    },
    remote=RemoteStatus(
        address="s3://bucket/prefix",
        step=10,
        age_seconds=12.0,
        snapshots=3,
        sent_bytes=3 * 10**6,
    ),
    memory_limit_bytes=160 * 2**20,
    memory_in_use_bytes=21 * 2**20,
    memory_peak_bytes=158 * 2**20,
    allocator=AllocatorStatus(
        pool_bytes=128 * 2**20,
        largest_free_bytes=50 * 2**20,
        largest_allocatable_bytes=50 * 2**20,
        largest_request_bytes=40 * 2**20,
        fragmentation=0.526,
        source="map",
    ),
    forecast_seconds={"device": 3600.0, "contiguous": 1800.0, "host": 86400.0},
    host_rss_bytes=10**9,
    standby_bytes=280 << 20,
    heartbeat_age_seconds=0.1,
    step_counts=(0, 0, 0, 0, 3, 11, 0, 0, 0, 0, 0, 1),
    step_seconds_sum=130.5,
    phase_seconds={"training": 3.1, "waiting": 1.0},
    restarts={Cause.DEVICE_OOM: 1},
    incidents={Cause.DEVICE_OOM: 1},
    advisories=(
        AdvisoryStatus(
            kind="input_bound",
            active=True,
            attempt=2,
            sentence="training waits for its data 40% of the time",
            advice="Read ahead.",
            figures={"waited_ratio": 0.4},
        ),
    ),
)

GPU = Gpu(
    uuid=BOARD,
    index=0,
    name="NVIDIA H200",
    bus="0000:3b:00",
    memory=GpuMemory(total=141 * GIB, used=20 * GIB, free=120 * GIB, reserved=GIB),
    utilization=0.97,
    temperature_celsius=61.0,
    power_watts=512.3,
    power_limit_watts=700.0,
    throttled=frozenset({"power_cap"}),
    ecc={("volatile", "corrected"): 3, ("aggregate", "uncorrected"): 1},
    rows=RemappedRows(corrected=1, uncorrected=2, pending=False, failed=True),
    pcie_replays=7,
    pcie_lanes=(8, 16),
    clocks_hertz={"sm": 1.755e9, "memory": 3.201e9},
    clock_limits_hertz={"sm": 1.98e9, "memory": 3.201e9},
    energy_joules=86_400.0,
    nvlink_errors={"crc_flit": 0, "crc_data": 0, "replay": 2, "recovery": 1},
    nvlink_bytes={"transmit": 4 * 2**20, "receive": 2 * 2**20},
    processes=(
        GpuProcess(pid=4711, bytes=18 * GIB),
        GpuProcess(pid=4712, bytes=GIB),
        GpuProcess(pid=99, bytes=2 * GIB),
    ),
    mig=(
        MigDevice(
            uuid=PART,
            instance=1,
            compute_instance=0,
            memory=GpuMemory(total=10 * GIB, used=GIB, free=9 * GIB),
        ),
    ),
)

MACHINE = Machine(
    driver="580.00.01",
    gpus=(GPU,),
    xids=heard(XidLog(), [Xid(code=79, at=1.0, gpu=BOARD)], source="nvml", gpus=[GPU]),
    owners={4711: "digits", 4712: "digits"},
    trees={
        "digits": TreeUse(
            resident_bytes=2 * GIB,
            proportional_bytes=GIB,
            cpu_seconds=3600.5,
            processes=3,
            threads=150,
            descriptors=90,
            cgroup=CgroupMemory(
                used_bytes=3 * GIB, limit_bytes=8 * GIB, oom_kills=0, refusals=5
            ),
        )
    },
    spaces={"state": Space(10**12, 10**11), "memory": Space(10**10, 10**9)},
    collectors={
        "host": Collector(success=True, seconds=0.002),
        "nvml": Collector(success=True, seconds=0.01),
        "kernel_log": Collector(success=False),
    },
    kept_out={"out_of_service": (), "quarantine": (BOARD,)},
    jobs=JobsView(
        counts={(JobState.QUEUED, "anna"): 3},
        waits={"anna": 1200.0},
        holders={BOARD: ("digits", "anna")},
        unwritten=False,
    ),
    gpu_times=GpuTimes(
        seen=9.0,
        devices={(BOARD, use): 60.0 * place for place, use in enumerate(USES)},
        runs={("digits", use): 60.0 * place for place, use in enumerate(HELD)},
        users={("anna", use): 90.0 * place for place, use in enumerate(HELD)},
    ),
    started_at=1_800_000_000.0,
)


def render(
    statuses: Iterable[JobStatus],
    machine: Machine | None = None,
    *,
    openmetrics: bool = False,
) -> bytes:
    """Everything the table says, once: in Prometheus' own text format, or OpenMetrics."""
    scene = MetricsSnapshot(tuple(statuses), machine or Machine())
    return ExpositionEncoder(openmetrics=openmetrics).encode(scene)


def series_remembered(board: ExpositionCache, form: Form) -> int:
    """Of how many series the encoder of that form knows how they are written."""
    encoder = board._encoders[form.openmetrics]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    rows = encoder._rows  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    said = [one for row in rows for one in row._said.values()]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return sum(len(one.begun) for one in said)
