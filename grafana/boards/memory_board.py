"""The memory of a run: allocator, device, host, and when it runs out."""

from grafana.boards.board import (
    AMBER,
    BOX,
    GREEN,
    INSTANCE,
    NEW_ATTEMPTS,
    NEW_INCIDENTS,
    ONE_RUN,
    RED,
    RUN,
    Board,
    BoardPanel,
    BoardRow,
    Kind,
    Query,
)
from grafana.rules.memory_alerts import FRAGMENTED, LEAK_SECONDS, SOON_SECONDS

WHOSE = "{{instance}} {{run}}"


def _lines(*named: tuple[str, str]) -> tuple[Query, ...]:
    return tuple(
        Query(
            expr=f"max by (instance, run) ({metric}{{{RUN}}})", legend=f"{WHOSE} {name}"
        )
        for metric, name in named
    )


MEMORY_BOARD = Board(
    uid="trainwarden-memory",
    title="Trainwarden: memory",
    about="What a run takes of device and main memory, in how many pieces, and how long "
    "that lasts.",
    variables=(INSTANCE, ONE_RUN),
    annotations=(NEW_ATTEMPTS, NEW_INCIDENTS),
    rows=(
        BoardRow(
            "Allocator",
            (
                BoardPanel(
                    title="Allocator",
                    about="Limit, pool, step peak and what is handed out. A flat line in use, "
                    "well below the limit, is good.",
                    width=12,
                    queries=_lines(
                        ("trainwarden_allocator_limit_bytes", "limit"),
                        ("trainwarden_allocator_pool_bytes", "pool"),
                        ("trainwarden_allocator_peak_bytes", "step peak"),
                        ("trainwarden_allocator_in_use_bytes", "in use"),
                    ),
                    unit="bytes",
                ),
                BoardPanel(
                    title="Largest allocatable against the largest request",
                    about="The request must stay below what could be had; where the two "
                    "lines meet there is an OOM.",
                    width=12,
                    queries=_lines(
                        (
                            "trainwarden_allocator_largest_allocatable_bytes",
                            "allocatable",
                        ),
                        ("trainwarden_allocator_largest_free_bytes", "free block"),
                        ("trainwarden_allocator_largest_request_bytes", "request"),
                    ),
                    unit="bytes",
                ),
                BoardPanel(
                    title="Fragmentation",
                    about="Part of the free memory in the pool that is not in its "
                    "largest block. High is harmless as long as requests are small.",
                    queries=_lines(
                        ("trainwarden_allocator_fragmentation_ratio", ""),
                    ),
                    unit="percentunit",
                    most=1.0,
                    limits=((None, GREEN), (FRAGMENTED, AMBER), (0.8, RED)),
                ),
                BoardPanel(
                    title="Where the figures come from",
                    about="`map`: every chunk is known; `estimate`: as if nothing were "
                    "fragmented.",
                    queries=(
                        Query(
                            expr=f"max by (instance, run, source) (trainwarden_allocator_source{{{RUN}}})",
                            legend=f"{WHOSE} {{{{source}}}}",
                        ),
                    ),
                ),
                BoardPanel(
                    title="Memory lasts",
                    about="Time until it runs out if it grows on: of the device, of a "
                    "block that is large enough, of main memory. No line: nothing grows, "
                    "which is good.",
                    queries=(
                        Query(
                            expr=f"min by (instance, run, resource) (trainwarden_memory_forecast_seconds{{{RUN}}})",
                            legend=f"{WHOSE} {{{{resource}}}}",
                        ),
                    ),
                    unit="s",
                    limits=(
                        (None, RED),
                        (SOON_SECONDS, AMBER),
                        (LEAK_SECONDS, GREEN),
                    ),
                    empty_because="memory does not grow in health",
                ),
            ),
        ),
        BoardRow(
            "Device, by owner",
            (
                BoardPanel(
                    title="GPU memory of the run",
                    about="What its processes hold on each GPU.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"sum by (instance, run, gpu) (trainwarden_gpu_process_memory_bytes{{{RUN}}})",
                            legend=f"{WHOSE} {{{{gpu}}}}",
                        ),
                    ),
                    unit="bytes",
                ),
                BoardPanel(
                    title="GPU memory of strangers",
                    about="Processes of no run, on all GPUs of the box. 0 is good.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, gpu) (trainwarden_gpu_foreign_memory_bytes{{{BOX}}})",
                            legend="{{instance}} {{gpu}}",
                        ),
                    ),
                    unit="bytes",
                ),
            ),
        ),
        BoardRow(
            "Main memory",
            (
                BoardPanel(
                    title="Main memory of the run",
                    about="The training process, all processes (with shared pages "
                    "divided, too), the one that waits to be the next attempt, and what the "
                    "cgroup counts against its limit. Flat is good.",
                    width=12,
                    queries=_lines(
                        ("trainwarden_training_resident_memory_bytes", "training"),
                        ("trainwarden_standby_memory_bytes", "standby"),
                        ("trainwarden_processes_resident_memory_bytes", "processes"),
                        (
                            "trainwarden_processes_proportional_memory_bytes",
                            "proportional",
                        ),
                        ("trainwarden_cgroup_memory_used_bytes", "cgroup"),
                        ("trainwarden_cgroup_memory_limit_bytes", "cgroup limit"),
                    ),
                    unit="bytes",
                ),
                BoardPanel(
                    title="Kernel OOM kills",
                    about="Processes that the kernel killed for want of main memory, and "
                    "how often the limit was hit. 0 is good. No line: the run is in no "
                    "memory cgroup.",
                    width=6,
                    kind=Kind.TIMESERIES,
                    queries=(
                        Query(
                            expr=f"max by (instance, run) (trainwarden_cgroup_oom_kills_total{{{RUN}}})",
                            legend=f"{WHOSE} kills",
                        ),
                        Query(
                            expr=f"max by (instance, run) (trainwarden_cgroup_memory_refusals_total{{{RUN}}})",
                            legend=f"{WHOSE} limit hit",
                        ),
                        Query(
                            expr=f'sum by (instance, run) (trainwarden_incidents_total{{{RUN},cause="host_oom"}})',
                            legend=f"{WHOSE} diagnosed",
                        ),
                    ),
                ),
                BoardPanel(
                    title="Room for snapshots in memory",
                    about="Free where snapshots in memory lie, which the same memory "
                    "pays for.",
                    width=6,
                    queries=(
                        Query(
                            expr=f'max by (instance) (trainwarden_filesystem_free_bytes{{{BOX},filesystem="memory"}})',
                            legend="{{instance}}",
                        ),
                    ),
                    unit="bytes",
                ),
            ),
        ),
    ),
)
