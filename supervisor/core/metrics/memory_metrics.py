"""The metrics of a run's memory, as its framework sees it, and of its snapshots."""

from collections.abc import Callable

from supervisor.core.jobs.job_status import AllocatorStatus, JobStatus, TierStatus
from supervisor.core.metrics.metric import Lifetime, Metric, MetricKind, Points, Value

TIERS = ("memory", "durable")
"""Where snapshots are kept (``wire.manifest``)."""
SOURCES = ("map", "counts", "estimate")
"""``wire.page.MemorySource`` in lower case."""
RESOURCES = ("device", "contiguous", "host")
"""What may run out (``core.memory.forecast``)."""


def _snapshot_step(status: JobStatus) -> Value:
    return status.snapshot.step if status.snapshot else None


_NONE = TierStatus()


def _tier(get: Callable[[TierStatus], Value]) -> Callable[[JobStatus], Points]:
    return lambda status: tuple(
        ((tier,), get(status.tiers.get(tier, _NONE))) for tier in TIERS
    )


def _allocator(
    get: Callable[[AllocatorStatus], Value],
) -> Callable[[JobStatus], Value]:
    return lambda status: get(status.allocator) if status.allocator else None


_SOURCES = {
    now: tuple(((source,), float(source == now)) for source in SOURCES)
    for now in SOURCES
}


def _source(status: JobStatus) -> Points:
    if status.allocator is None or status.allocator.source is None:
        return ()
    return _SOURCES[status.allocator.source]


def _forecast(status: JobStatus) -> Points:
    seconds = status.forecast_seconds
    return tuple(((resource,), seconds.get(resource)) for resource in RESOURCES)


MEMORY_METRICS: tuple[Metric, ...] = (
    Metric(
        name="allocator_limit",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The most that the framework's allocator may take.",
        source="allocator, or an estimate",
        value=lambda status: status.memory_limit_bytes,
    ),
    Metric(
        name="allocator_in_use",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Handed out by the framework's allocator.",
        source="allocator",
        value=lambda status: status.memory_in_use_bytes,
    ),
    Metric(
        name="allocator_peak",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The most that was handed out at once in this attempt.",
        source="allocator",
        value=lambda status: status.memory_peak_bytes,
    ),
    Metric(
        name="allocator_pool",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Taken from the device by the framework's allocator so far.",
        source="allocator map, or an estimate",
        value=_allocator(lambda known: known.pool_bytes),
    ),
    Metric(
        name="allocator_largest_free",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The largest free block inside the allocator's pool.",
        source="allocator map",
        value=_allocator(lambda known: known.largest_free_bytes),
    ),
    Metric(
        name="allocator_largest_allocatable",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="The largest tensor that would fit now: a free block, or room to grow.",
        source="allocator map, or an estimate",
        value=_allocator(lambda known: known.largest_allocatable_bytes),
    ),
    Metric(
        name="allocator_fragmentation",
        kind=MetricKind.GAUGE,
        unit="ratio",
        lifetime=Lifetime.ATTEMPT,
        help="Part of the pool's free memory that is not in its largest free block.",
        source="allocator map",
        value=_allocator(lambda known: known.fragmentation),
    ),
    Metric(
        name="allocator_source",
        kind=MetricKind.GAUGE,
        labels=("run", "source"),
        lifetime=Lifetime.ATTEMPT,
        help="1 for where the allocator's figures come from, 0 for the other ways.",
        source="telemetry page",
        read=_source,
    ),
    Metric(
        name="memory_forecast",
        kind=MetricKind.GAUGE,
        unit="seconds",
        labels=("run", "resource"),
        lifetime=Lifetime.ATTEMPT,
        help="Time until memory runs out if it grows on; absent where it does not grow.",
        source="forecast",
        read=_forecast,
    ),
    Metric(
        name="training_resident_memory",
        kind=MetricKind.GAUGE,
        unit="bytes",
        lifetime=Lifetime.ATTEMPT,
        help="Main memory that the training process has resident.",
        source="telemetry page",
        value=lambda status: status.host_rss_bytes,
    ),
    Metric(
        name="snapshot_step",
        kind=MetricKind.GAUGE,
        help="Step of the newest whole snapshot.",
        source="snapshots",
        value=_snapshot_step,
    ),
    Metric(
        name="snapshots",
        kind=MetricKind.COUNTER,
        labels=("run", "tier"),
        help="Snapshots that were completed.",
        source="event file",
        read=_tier(lambda tier: tier.snapshots),
    ),
    Metric(
        name="snapshot_failures",
        kind=MetricKind.COUNTER,
        labels=("run", "tier"),
        help="Snapshots that could not be written; training went on.",
        source="event file",
        read=_tier(lambda tier: tier.failures),
    ),
    Metric(
        name="snapshot_age",
        kind=MetricKind.GAUGE,
        unit="seconds",
        labels=("run", "tier"),
        help="Age of the newest whole snapshot: what a crash now would cost.",
        source="event file",
        read=_tier(lambda tier: tier.age_seconds),
    ),
    Metric(
        name="snapshot_size",
        kind=MetricKind.GAUGE,
        unit="bytes",
        labels=("run", "tier"),
        help="Size of the newest whole snapshot.",
        source="event file",
        read=_tier(lambda tier: tier.size_bytes),
    ),
    Metric(
        name="snapshot_duration",
        kind=MetricKind.GAUGE,
        unit="seconds",
        labels=("run", "tier"),
        help="How long the newest snapshot took until it was whole.",
        source="event file",
        read=_tier(lambda tier: tier.seconds),
    ),
    Metric(
        name="snapshot_stall",
        kind=MetricKind.GAUGE,
        unit="seconds",
        labels=("run", "tier"),
        help="How long the newest snapshot held up the training thread.",
        source="event file",
        read=_tier(lambda tier: tier.stall_seconds),
    ),
)
