"""Alerts about the memory of runs: it runs out, is in pieces, leaks, or is refused."""

from grafana.rules.alert import DIGITS, Alert, AlertCase, Severity
from grafana.rules.conditions import counted

MEMORY = "trainwarden-memory"
FRAGMENTED = 0.5
SOON_SECONDS = 1800
LEAK_SECONDS = 6 * 3600

MEMORY_ALERTS: tuple[Alert, ...] = (
    Alert(
        name="TrainwardenMemoryForecast",
        severity=Severity.WARNING,
        expr="trainwarden_memory_forecast_seconds"
        f'{{resource=~"device|contiguous"}} < {SOON_SECONDS}',
        hold="5m",
        summary="{{ $labels.run }} runs out of memory within half an hour.",
        description="What training takes of {{ $labels.resource }} memory on "
        "{{ $labels.instance }} grows so that nothing is left within half an hour. A "
        "restart at a snapshot is planned before that.",
        panel=(MEMORY, "Memory lasts"),
        cases=(
            AlertCase(
                about="a growing allocator, and one with a day left",
                series={
                    'trainwarden_memory_forecast_seconds{run="digits", resource="device"}': "3600-120x40 _x20",
                    'trainwarden_memory_forecast_seconds{run="other", resource="device"}': "86400x60",
                    'trainwarden_memory_forecast_seconds{run="other", resource="host"}': "600x60",
                },
                fires=21,
                labels=({**DIGITS, "resource": "device"},),
                resolved=46,
            ),
        ),
    ),
    Alert(
        name="TrainwardenFragmentation",
        severity=Severity.WARNING,
        why="Fragmentation alone is harmless: it hurts when a request is about as large "
        "as the largest block that could be had.",
        expr=f"""\
trainwarden_allocator_fragmentation_ratio > {FRAGMENTED}
and on (instance, run)
trainwarden_allocator_largest_request_bytes
> on (instance, run) 0.8 * trainwarden_allocator_largest_allocatable_bytes""",
        hold="10m",
        summary="Memory of {{ $labels.run }} is in pieces hardly large enough.",
        description="More than half of the free memory in the pool of {{ $labels.run }} on "
        "{{ $labels.instance }} is in small pieces, and its largest request is nearly as "
        "large as the largest block.",
        panel=(MEMORY, "Fragmentation"),
        cases=(
            AlertCase(
                about="pieces that are hardly large enough, until a fresh process",
                series={
                    'trainwarden_allocator_fragmentation_ratio{run="digits"}': "0.7x40",
                    'trainwarden_allocator_largest_request_bytes{run="digits"}': "100x40",
                    'trainwarden_allocator_largest_allocatable_bytes{run="digits"}': "400x5 110x20 400x15",
                    'trainwarden_allocator_fragmentation_ratio{run="whole"}': "0.4x40",
                    'trainwarden_allocator_largest_request_bytes{run="whole"}': "100x40",
                    'trainwarden_allocator_largest_allocatable_bytes{run="whole"}': "110x40",
                    'trainwarden_allocator_fragmentation_ratio{run="other"}': "0.9x40",
                    'trainwarden_allocator_largest_request_bytes{run="other"}': "10x40",
                    'trainwarden_allocator_largest_allocatable_bytes{run="other"}': "110x40",
                },
                fires=16,
                labels=(DIGITS,),
                resolved=27,
            ),
        ),
    ),
    Alert(
        name="TrainwardenHostMemoryLeak",
        severity=Severity.WARNING,
        expr=f'trainwarden_memory_forecast_seconds{{resource="host"}} < {LEAK_SECONDS}',
        hold="15m",
        summary="Main memory of {{ $labels.run }} grows and will not last six hours.",
        description="The processes of {{ $labels.run }} on {{ $labels.instance }} take "
        "more and more main memory; it is used up within six hours.",
        panel=(MEMORY, "Memory lasts"),
        cases=(
            AlertCase(
                about="a leak, and a run with seven hours left",
                series={
                    'trainwarden_memory_forecast_seconds{run="digits", resource="host"}': "43200x10 18000x30 43200x20",
                    'trainwarden_memory_forecast_seconds{run="other", resource="host"}': "25200x60",
                    'trainwarden_memory_forecast_seconds{run="other", resource="device"}': "600x60",
                },
                fires=26,
                labels=({**DIGITS, "resource": "host"},),
                resolved=42,
            ),
        ),
    ),
    Alert(
        name="TrainwardenKernelOomKill",
        severity=Severity.WARNING,
        why="The cgroup goes with its attempt, so the diagnosis counts as well.",
        expr=counted("trainwarden_cgroup_oom_kills_total")
        + "\nor\n"
        + counted('trainwarden_incidents_total{cause="host_oom"}'),
        summary="{{ $labels.run }} ran out of main memory: the kernel killed a process.",
        description="{{ $labels.run }} on {{ $labels.instance }} reached the limit of its "
        "main memory, and the kernel killed a process or refused it more. It was "
        "restarted, or lost a worker.",
        panel=(MEMORY, "Kernel OOM kills"),
        cases=(
            AlertCase(
                about="an incident, and a worker that was killed",
                series={
                    'trainwarden_incidents_total{run="digits", cause="host_oom"}': "0x10 1x60",
                    'trainwarden_cgroup_oom_kills_total{run="worker"}': "0x10 1x60",
                    'trainwarden_incidents_total{run="other", cause="device_oom"}': "0x10 1x60",
                    'trainwarden_cgroup_oom_kills_total{run="other"}': "0x70",
                },
                fires=11,
                labels=(DIGITS, {"run": "worker"}),
                resolved=41,
            ),
        ),
    ),
)
