"""The metrics of a run's memory, as its framework sees it, and of its snapshots."""

from collections.abc import Callable
from functools import partial

from supervisor.core.jobs.job_status import (
    AllocatorStatus,
    JobStatus,
    RemoteStatus,
    TierStatus,
)
from supervisor.core.metrics.metric import Lifetime, Metric, MetricKind, Points, Value

TIERS = ("memory", "durable")
"""Where snapshots are kept (``wire.snapshots.manifest``)."""
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


def _remote(get: Callable[[RemoteStatus], Value]) -> Callable[[JobStatus], Value]:
    return lambda status: get(status.remote) if status.remote else None


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


def _interval(status: JobStatus) -> Points:
    plan = status.snapshot_plan
    if plan is None:
        return ()
    return (("memory",), plan.memory_seconds), (("durable",), plan.durable_seconds)


def _waits(status: JobStatus) -> Points:
    return tuple(((tier,), status.snapshot_wait_seconds.get(tier)) for tier in TIERS)


_now = partial(Metric, kind=MetricKind.GAUGE, lifetime=Lifetime.ATTEMPT)
_of_remote = partial(Metric, kind=MetricKind.GAUGE, source="uploader")
_of_tiers = partial(
    Metric, kind=MetricKind.GAUGE, labels=("run", "tier"), source="event file"
)

MEMORY_METRICS: tuple[Metric, ...] = (
    _now(
        name="allocator_limit",
        unit="bytes",
        help="The most that the framework's allocator may take.",
        source="allocator, or an estimate",
        value=lambda status: status.memory_limit_bytes,
    ),
    _now(
        name="allocator_in_use",
        unit="bytes",
        help="Handed out by the framework's allocator.",
        source="allocator",
        value=lambda status: status.memory_in_use_bytes,
    ),
    _now(
        name="allocator_peak",
        unit="bytes",
        help="The step peak: the most that was handed out at once, since slices have this size.",
        source="allocator",
        value=lambda status: status.memory_peak_bytes,
    ),
    _now(
        name="allocator_pool",
        unit="bytes",
        help="Taken from the device by the framework's allocator so far.",
        source="allocator map, its counts, or an estimate",
        value=_allocator(lambda known: known.pool_bytes),
    ),
    _now(
        name="allocator_largest_free",
        unit="bytes",
        help="The largest free block inside the allocator's pool.",
        source="allocator map, or its counts",
        value=_allocator(lambda known: known.largest_free_bytes),
    ),
    _now(
        name="allocator_largest_allocatable",
        unit="bytes",
        help="The largest tensor that would fit now: a free block, or room to grow.",
        source="allocator map, its counts, or an estimate",
        value=_allocator(lambda known: known.largest_allocatable_bytes),
    ),
    _now(
        name="allocator_largest_request",
        unit="bytes",
        help="The largest tensor that was asked for since slices have this size.",
        source="allocator map, or its counts",
        value=_allocator(lambda known: known.largest_request_bytes),
    ),
    _now(
        name="allocator_fragmentation",
        unit="ratio",
        help="Part of the pool's free memory that is not in its largest free block; "
        "of PyTorch's, that lies in segments in use.",
        source="allocator map, or its counts",
        value=_allocator(lambda known: known.fragmentation),
    ),
    _now(
        name="allocator_source",
        labels=("run", "source"),
        help="1 for where the allocator's figures come from, 0 for the other ways.",
        source="telemetry page",
        read=_source,
    ),
    _now(
        name="memory_forecast",
        unit="seconds",
        labels=("run", "resource"),
        help="Time until memory runs out if it grows on; absent where it does not grow.",
        source="forecast",
        read=_forecast,
    ),
    _now(
        name="training_resident_memory",
        unit="bytes",
        help="Main memory that the training process has resident.",
        source="telemetry page",
        value=lambda status: status.host_rss_bytes,
    ),
    _now(
        name="standby_memory",
        unit="bytes",
        help="Main memory of the process that waits to be the next attempt; absent where none waits.",
        source="the process itself, once",
        value=lambda status: status.standby_bytes,
    ),
    Metric(
        name="snapshot_step",
        kind=MetricKind.GAUGE,
        help="Step of the newest whole snapshot.",
        source="snapshots",
        value=_snapshot_step,
    ),
    _of_tiers(
        name="snapshots",
        kind=MetricKind.COUNTER,
        help="Snapshots that were completed.",
        read=_tier(lambda tier: tier.snapshots),
    ),
    _of_tiers(
        name="snapshot_failures",
        kind=MetricKind.COUNTER,
        help="Snapshots that could not be written; training went on.",
        read=_tier(lambda tier: tier.failures),
    ),
    _now(
        name="snapshot_interval",
        unit="seconds",
        labels=("run", "tier"),
        help="How often snapshots are to be taken; absent where steps are counted.",
        source="event file",
        read=_interval,
    ),
    _of_tiers(
        name="snapshot_age",
        unit="seconds",
        help="Age of the newest whole snapshot, what a crash now would cost; absent if it is older than this boot.",
        read=_tier(lambda tier: tier.age_seconds),
    ),
    _now(
        name="snapshot_wait",
        unit="seconds",
        labels=("run", "tier"),
        help="Time that this attempt has trained without a new whole snapshot.",
        source="event file",
        read=_waits,
    ),
    _of_tiers(
        name="snapshot_size",
        unit="bytes",
        help="Size of the newest whole snapshot.",
        read=_tier(lambda tier: tier.size_bytes),
    ),
    _of_tiers(
        name="snapshot_duration",
        unit="seconds",
        help="How long the newest snapshot took until it was whole.",
        read=_tier(lambda tier: tier.seconds),
    ),
    _of_tiers(
        name="snapshot_stall",
        unit="seconds",
        help="How long the newest snapshot held up the training thread.",
        read=_tier(lambda tier: tier.stall_seconds),
    ),
    _of_remote(
        name="remote_snapshot_step",
        help="Step of the newest whole snapshot in the remote tier.",
        value=_remote(lambda remote: remote.step),
    ),
    _of_remote(
        name="remote_snapshot_age",
        unit="seconds",
        help="Time since the newest one was complete there.",
        value=_remote(lambda remote: remote.age_seconds),
    ),
    _of_remote(
        name="remote_snapshots",
        kind=MetricKind.COUNTER,
        help="Snapshots that were sent to the remote tier.",
        value=_remote(lambda remote: remote.snapshots),
    ),
    _of_remote(
        name="remote_snapshot_failures",
        kind=MetricKind.COUNTER,
        help="Uploads that failed, and were tried again.",
        value=_remote(lambda remote: remote.failures),
    ),
    _of_remote(
        name="remote_snapshot_sent",
        kind=MetricKind.COUNTER,
        unit="bytes",
        help="Bytes that were sent to the remote tier.",
        value=_remote(lambda remote: remote.sent_bytes),
    ),
)
