"""The metrics of the host: what training uses of it, its disks, and who measures."""

from collections.abc import Callable, Iterator

from supervisor.core.jobs.job_status import JobState
from supervisor.core.metrics.machine_state import CgroupMemory, Machine, Space, TreeUse
from supervisor.core.metrics.metric import (
    Lifetime,
    MetricKind,
    Point,
    ReadMachine,
    Value,
    of_machine,
)


def _tree(get: Callable[[TreeUse], Value]) -> ReadMachine:
    return lambda machine: (((run,), get(use)) for run, use in machine.trees.items())


def _cgroup(get: Callable[[CgroupMemory], Value]) -> ReadMachine:
    return _tree(lambda use: None if use.cgroup is None else get(use.cgroup))


def _space(get: Callable[[Space], Value]) -> ReadMachine:
    return lambda machine: (((name,), get(one)) for name, one in machine.spaces.items())


def _success(machine: Machine) -> Iterator[Point]:
    return (
        ((name,), float(collector.success))
        for name, collector in machine.collectors.items()
    )


def _duration(machine: Machine) -> Iterator[Point]:
    return (
        ((name,), collector.seconds) for name, collector in machine.collectors.items()
    )


_OF_RUN = ("run",)


def _jobs(machine: Machine) -> Iterator[Point]:
    counts = machine.jobs.counts
    for user in {user: None for _, user in counts}:
        for state in JobState:
            yield (state.value, user), counts.get((state, user), 0)


def _waits(machine: Machine) -> Iterator[Point]:
    users = {user: None for _, user in machine.jobs.counts}
    return (((user,), machine.jobs.waits.get(user, 0.0)) for user in users)


def _unwritten(machine: Machine) -> Iterator[Point]:
    if machine.jobs.unwritten is not None:
        yield (), float(machine.jobs.unwritten)


HOST_METRICS = tuple(
    of_machine(
        name,
        text,
        read,
        unit=unit,
        kind=kind,
        labels=_OF_RUN,
        lifetime=Lifetime.ATTEMPT,
        source=source,
    )
    for name, unit, kind, source, text, read in (
        (
            "processes_resident_memory", "bytes", MetricKind.GAUGE, "/proc",
            "Main memory that all processes of the attempt have resident.",
            _tree(lambda use: use.resident_bytes),
        ),
        (
            "processes_proportional_memory", "bytes", MetricKind.GAUGE, "/proc",
            "The same with shared pages divided among their users; measured seldom.",
            _tree(lambda use: use.proportional_bytes),
        ),
        (
            "processes_cpu", "seconds", MetricKind.COUNTER, "/proc",
            "Processor time of all processes of the attempt; the next begins at 0.",
            _tree(lambda use: use.cpu_seconds),
        ),
        (
            "processes", "", MetricKind.GAUGE, "/proc",
            "Processes of the attempt.",
            _tree(lambda use: use.processes),
        ),
        (
            "processes_threads", "", MetricKind.GAUGE, "/proc",
            "Threads of all processes of the attempt.",
            _tree(lambda use: use.threads),
        ),
        (
            "processes_open_files", "", MetricKind.GAUGE, "/proc",
            "File descriptors that all processes of the attempt have open.",
            _tree(lambda use: use.descriptors),
        ),
        (
            "cgroup_memory_used", "bytes", MetricKind.GAUGE, "cgroup",
            "Memory charged to the cgroup that training is in.",
            _cgroup(lambda cgroup: cgroup.used_bytes),
        ),
        (
            "cgroup_memory_limit", "bytes", MetricKind.GAUGE, "cgroup",
            "The most that may be charged to it; absent without a limit.",
            _cgroup(lambda cgroup: cgroup.limit_bytes),
        ),
        (
            "cgroup_memory_refusals", "", MetricKind.COUNTER, "cgroup",
            "How often that limit was hit.",
            _cgroup(lambda cgroup: cgroup.refusals),
        ),
        (
            "cgroup_oom_kills", "", MetricKind.COUNTER, "cgroup",
            "Processes that the kernel killed there for want of memory.",
            _cgroup(lambda cgroup: cgroup.oom_kills),
        ),
    )
)  # fmt: skip

EXPORTER_METRICS = (
    of_machine(
        "jobs",
        "Jobs of the daemon, by state and by the user they run as; those that never began "
        "have no other series.",
        _jobs,
        labels=("state", "user"),
        source="daemon",
    ),
    of_machine(
        "queue_longest_wait",
        "How long the job of the user that waits longest has waited for its turn.",
        _waits,
        unit="seconds",
        labels=("user",),
        source="daemon",
    ),
    of_machine(
        "ledger_behind",
        "1 while what happened is kept in memory because the ledger cannot be written.",
        _unwritten,
        labels=(),
        source="ledger",
    ),
    of_machine(
        "start_time",
        "When the process that exports this began, in seconds since 1970.",
        lambda machine: (((), machine.started_at),),
        unit="seconds",
        labels=(),
        source="exporter",
    ),
    of_machine(
        "filesystem_size",
        "Size of the file system of the state directory, and of that of snapshots in memory.",
        _space(lambda space: space.size),
        unit="bytes",
        labels=("filesystem",),
        source="statvfs",
    ),
    of_machine(
        "filesystem_free",
        "What of it may still be written.",
        _space(lambda space: space.free),
        unit="bytes",
        labels=("filesystem",),
        source="statvfs",
    ),
    of_machine(
        "collector_success",
        "1 if what it measures is from now, 0 if it hangs or fails.",
        _success,
        labels=("collector",),
        source="exporter",
    ),
    of_machine(
        "collector_duration",
        "How long its last round took.",
        _duration,
        unit="seconds",
        labels=("collector",),
        source="exporter",
    ),
)
