"""One box: its daemon, its jobs, its GPUs, its rooms."""

from grafana.boards.board import (
    AMBER,
    BOX,
    GREEN,
    INSTANCE,
    RED,
    Board,
    BoardPanel,
    BoardRow,
    Kind,
    Query,
)
from grafana.boards.fleet_board import NONE_IS_GOOD, RUNS_TABLE
from grafana.rules.box_alerts import LAST, SCARCE, WAIT_SECONDS
from grafana.rules.recording_rules import FREE_PART

COLLECTORS = BoardPanel(
    title="Collectors",
    about="Whether what is measured is from now. All should be ok.",
    kind=Kind.STAT,
    width=6,
    height=5,
    queries=(
        Query(
            expr=f"min by (instance, collector) (trainwarden_collector_success{{{BOX}}})",
            legend="{{instance}} {{collector}}",
        ),
    ),
    names={"0": ("fails", RED), "1": ("ok", GREEN)},
    limits=((None, RED), (1.0, GREEN)),
)

BOX_BOARD = Board(
    uid="trainwarden-box",
    title="Trainwarden: box",
    about="One box, or several: daemon, jobs, GPUs, main memory and file systems.",
    variables=(INSTANCE,),
    rows=(
        BoardRow(
            "Daemon",
            (
                BoardPanel(
                    title="Daemon up for",
                    about="Since the process that exports this began. Training outlives "
                    "it; short again and again is not good.",
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                    queries=(
                        Query(
                            expr=f"time() - trainwarden_start_time_seconds{{{BOX}}}",
                            legend="{{instance}}",
                        ),
                    ),
                    unit="s",
                    limits=((None, AMBER), (600.0, GREEN)),
                ),
                BoardPanel(
                    title="Ledger",
                    about="Whether what happens is on disk. Behind: the disk is full, "
                    "usually, and it is kept in memory.",
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                    queries=(
                        Query(
                            expr=f"max by (instance) (trainwarden_ledger_behind{{{BOX}}})",
                            legend="{{instance}}",
                        ),
                    ),
                    names={"0": ("written", GREEN), "1": ("behind", RED)},
                    limits=NONE_IS_GOOD,
                ),
                COLLECTORS,
                BoardPanel(
                    title="Versions",
                    about="What runs where. One version everywhere is good.",
                    kind=Kind.TABLE,
                    width=6,
                    height=5,
                    queries=(
                        Query(
                            expr=f"max by (instance, version, python) (trainwarden_build_info{{{BOX}}})",
                            title="exports",
                        ),
                    ),
                    drop=("Time", "exports"),
                ),
                BoardPanel(
                    title="How long measuring takes",
                    about="A second or more means that a driver or a disk is slow to "
                    "answer.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, collector) (trainwarden_collector_duration_seconds{{{BOX}}})",
                            legend="{{instance}} {{collector}}",
                        ),
                    ),
                    unit="s",
                    limits=((None, GREEN), (1.0, AMBER)),
                ),
                BoardPanel(
                    title="Room on file systems",
                    about="`state`: snapshots on disk and the ledger; `memory`: snapshots "
                    "in memory. Above 0.4 is good.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"{FREE_PART}{{{BOX}}}",
                            legend="{{instance}} {{filesystem}}",
                        ),
                    ),
                    unit="percentunit",
                    most=1.0,
                    limits=((None, RED), (LAST, AMBER), (SCARCE, GREEN)),
                ),
                BoardPanel(
                    title="Free on file systems",
                    about="The same in bytes, of the size of each.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, filesystem) (trainwarden_filesystem_free_bytes{{{BOX}}})",
                            legend="{{instance}} {{filesystem}} free",
                        ),
                        Query(
                            expr=f"max by (instance, filesystem) (trainwarden_filesystem_size_bytes{{{BOX}}})",
                            legend="{{instance}} {{filesystem}} size",
                        ),
                    ),
                    unit="bytes",
                ),
                BoardPanel(
                    title="Longest wait",
                    about="How long a job of each user has waited for its turn. 0: none "
                    "waits.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, user) (trainwarden_queue_longest_wait_seconds{{{BOX}}})",
                            legend="{{instance}} {{user}}",
                        ),
                    ),
                    unit="s",
                    limits=((None, GREEN), (WAIT_SECONDS, RED)),
                ),
            ),
        ),
        BoardRow("Runs", (RUNS_TABLE,)),
        BoardRow(
            "GPUs",
            (
                BoardPanel(
                    title="GPUs",
                    about="Each GPU with its place and driver. Click one to see its "
                    "health.",
                    kind=Kind.TABLE,
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, gpu, name, bus, driver) (trainwarden_gpu_info{{{BOX}}})",
                            title="is there",
                        ),
                        Query(
                            expr=f"max by (instance, gpu) (trainwarden_gpu_utilization_ratio{{{BOX}}})",
                            title="utilisation",
                        ),
                        Query(
                            expr=f"max by (instance, gpu) (trainwarden_gpu_lost{{{BOX}}})",
                            title="lost",
                        ),
                    ),
                    units={"utilisation": "percentunit"},
                    drop=("Time", "is there"),
                ),
                BoardPanel(
                    title="Who has which GPU",
                    about="GPUs that are given to a run, as long as it has them.",
                    kind=Kind.TABLE,
                    width=12,
                    queries=(
                        Query(
                            expr=f"max by (instance, run, gpu) (trainwarden_gpu_allocated{{{BOX}}})",
                            title="has it",
                        ),
                    ),
                    drop=("Time", "has it"),
                ),
                BoardPanel(
                    title="GPU time by use",
                    about="What each GPU did: 1 is all of the time. Busy is good.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"sum by (instance, gpu, use) (rate(trainwarden_gpu_time_seconds_total{{{BOX}}}[$__rate_interval]))",
                            legend="{{instance}} {{gpu}} {{use}}",
                        ),
                    ),
                    unit="percentunit",
                ),
                BoardPanel(
                    title="GPU memory by run",
                    about="Who holds the memory of the GPUs; strangers hold what is not "
                    "ours to free.",
                    width=12,
                    queries=(
                        Query(
                            expr=f"sum by (instance, run) (trainwarden_gpu_process_memory_bytes{{{BOX}}})",
                            legend="{{instance}} {{run}}",
                        ),
                        Query(
                            expr=f"sum by (instance) (trainwarden_gpu_foreign_memory_bytes{{{BOX}}})",
                            legend="{{instance}} strangers",
                        ),
                    ),
                    unit="bytes",
                    stacked=True,
                ),
            ),
        ),
        BoardRow(
            "Main memory and processors",
            (
                BoardPanel(
                    title="Main memory by run",
                    about="What all processes of each run have resident.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run) (trainwarden_processes_resident_memory_bytes{{{BOX}}})",
                            legend="{{instance}} {{run}}",
                        ),
                    ),
                    unit="bytes",
                    stacked=True,
                ),
                BoardPanel(
                    title="Processors in use",
                    about="Cores that each run keeps busy.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run) (rate(trainwarden_processes_cpu_seconds_total{{{BOX}}}[$__rate_interval]))",
                            legend="{{instance}} {{run}}",
                        ),
                    ),
                    stacked=True,
                ),
                BoardPanel(
                    title="Processes, threads, files",
                    about="A number that only grows is a leak.",
                    queries=(
                        Query(
                            expr=f"sum by (instance, run) (trainwarden_processes{{{BOX}}})",
                            legend="{{instance}} {{run}} processes",
                        ),
                        Query(
                            expr=f"sum by (instance, run) (trainwarden_processes_threads{{{BOX}}})",
                            legend="{{instance}} {{run}} threads",
                        ),
                        Query(
                            expr=f"sum by (instance, run) (trainwarden_processes_open_files{{{BOX}}})",
                            legend="{{instance}} {{run}} files",
                        ),
                    ),
                ),
            ),
        ),
    ),
)
