"""GPUs: how they are, and what the driver says of them."""

from grafana.boards.board import (
    AMBER,
    BLUE,
    GPU,
    GREEN,
    INSTANCE,
    ONE_GPU,
    RED,
    Annotation,
    Board,
    BoardPanel,
    BoardRow,
    Kind,
    Query,
)
from grafana.boards.box_board import COLLECTORS
from grafana.boards.fleet_board import NONE_IS_GOOD

WHICH = "{{instance}} {{gpu}}"


def _chart(
    title: str,
    about: str,
    *asked: tuple[str, str],
    unit: str = "short",
    most: float | None = None,
    limits: tuple[tuple[float | None, str], ...] = (),
) -> BoardPanel:
    """Figures of each GPU; ``asked``: expressions and what they are called."""
    return BoardPanel(
        title=title,
        about=about,
        queries=tuple(
            Query(expr=expr, legend=f"{WHICH} {name}".strip()) for expr, name in asked
        ),
        unit=unit,
        most=most,
        limits=limits,
    )


def _of(metric: str, *more: str) -> str:
    by = ", ".join(("instance", "gpu", *more))
    return f"max by ({by}) (trainwarden_gpu_{metric}{{{GPU}}})"


def _rate(metric: str, *more: str) -> str:
    by = ", ".join(("instance", "gpu", *more))
    return f"sum by ({by}) (rate(trainwarden_gpu_{metric}{{{GPU}}}[$__rate_interval]))"


def _ecc(span: str) -> str:
    series = f'trainwarden_gpu_ecc_errors_total{{{GPU},span="{span}"}}'
    return f"max by (instance, gpu, kind) ({series})"


GPU_BOARD = Board(
    uid="trainwarden-gpu",
    title="Trainwarden: GPU",
    about="One GPU or several: load, health, errors.",
    variables=(INSTANCE, ONE_GPU),
    annotations=(
        Annotation(
            name="Xids",
            expr=f"sum by (instance, gpu, kind) (changes(trainwarden_gpu_xids_total{{{GPU}}}[$__rate_interval])) > 0",
            title="{{gpu}} on {{instance}}: Xid ({{kind}})",
            text="journalctl -k -g NVRM",
            colour=RED,
        ),
    ),
    rows=(
        BoardRow(
            "Now",
            (
                BoardPanel(
                    title="Lost",
                    about="GPUs that have fallen off the bus. 0 is good.",
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                    queries=(Query(expr=_of("lost"), legend=WHICH),),
                    limits=NONE_IS_GOOD,
                ),
                BoardPanel(
                    title="Kept out of use",
                    about="1: given to no run, for that reason. 0 is good.",
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                    queries=(
                        Query(
                            expr=_of("kept_out", "reason"),
                            legend=f"{WHICH} {{{{reason}}}}",
                        ),
                    ),
                    limits=NONE_IS_GOOD,
                ),
                COLLECTORS,
                BoardPanel(
                    title="Newest Xid",
                    about="Its number in NVIDIA's catalogue. None is good.",
                    kind=Kind.STAT,
                    width=6,
                    height=5,
                    queries=(Query(expr=_of("last_xid"), legend=WHICH),),
                    limits=((None, AMBER),),
                    empty_because="there was no Xid in health",
                ),
                BoardPanel(
                    title="Which they are",
                    about="Name, place and driver of each.",
                    kind=Kind.TABLE,
                    width=24,
                    height=6,
                    queries=(
                        Query(
                            expr=f"max by (instance, gpu, name, bus, driver, parent) (trainwarden_gpu_info{{{GPU}}})",
                            title="is there",
                        ),
                        Query(
                            expr=f"max by (instance, gpu, run) (trainwarden_gpu_allocated{{{GPU}}})",
                            title="given to a run",
                        ),
                    ),
                    drop=("Time", "is there"),
                ),
            ),
        ),
        BoardRow(
            "Load",
            (
                _chart(
                    "Utilisation",
                    "Part of the time in which a kernel ran. High is good for a GPU that "
                    "a run has.",
                    (_of("utilization_ratio"), ""),
                    unit="percentunit",
                    most=1.0,
                    limits=((None, RED), (0.05, AMBER), (0.5, GREEN)),
                ),
                _chart(
                    "Time by use",
                    "What its time went into: 1 is all of it.",
                    (_rate("time_seconds_total", "use"), "{{use}}"),
                    unit="percentunit",
                ),
                _chart(
                    "Memory",
                    "In use by whoever, of its size; reserved: by driver and firmware.",
                    (_of("memory_used_bytes"), "used"),
                    (_of("memory_free_bytes"), "free"),
                    (_of("memory_reserved_bytes"), "reserved"),
                    (_of("memory_size_bytes"), "size"),
                    unit="bytes",
                ),
                _chart(
                    "Memory by run",
                    "Who holds it; strangers are processes of no run.",
                    (_of("process_memory_bytes", "run"), "{{run}}"),
                    (_of("foreign_memory_bytes"), "strangers"),
                    unit="bytes",
                ),
                _chart(
                    "Clocks",
                    "Now, and the most that they can be. Under load close to the limit "
                    "is good.",
                    (_of("clock_hertz", "clock"), "{{clock}}"),
                    (_of("clock_limit_hertz", "clock"), "{{clock}} limit"),
                    unit="hertz",
                ),
                _chart(
                    "Throttled because",
                    "1: that keeps the clocks down. power_cap at full load is everyday; "
                    "heat and a power brake are not.",
                    (_of("throttled", "reason"), "{{reason}}"),
                    most=1.0,
                ),
            ),
        ),
        BoardRow(
            "Heat and power",
            (
                _chart(
                    "Temperature",
                    "Below 80 °C is good.",
                    (_of("temperature_celsius"), ""),
                    unit="celsius",
                    limits=((None, GREEN), (80.0, AMBER), (90.0, RED)),
                ),
                _chart(
                    "Power",
                    "What the board draws, and may draw.",
                    (_of("power_watts"), "drawn"),
                    (_of("power_limit_watts"), "limit"),
                    unit="watt",
                ),
                _chart(
                    "Energy",
                    "What it took, as power: the mean of the interval.",
                    (_rate("energy_joules_total"), ""),
                    unit="watt",
                ),
            ),
        ),
        BoardRow(
            "Errors",
            (
                _chart(
                    "Xids by kind",
                    "What the driver reported. 0 is good; `software` is a program's own "
                    "mistake.",
                    (_of("xids_total", "kind"), "{{kind}}"),
                    limits=NONE_IS_GOOD,
                ),
                _chart(
                    "Memory errors",
                    "Found by ECC since the driver was loaded. Corrected ones are "
                    "everyday; uncorrected should be 0.",
                    (_ecc("volatile"), "{{kind}}"),
                ),
                _chart(
                    "Row remapping",
                    "Rows of memory that spares stand in for; pending: at the next "
                    "reset; failed: no spare left. 0 is good.",
                    (_of("remapped_rows", "kind"), "{{kind}}"),
                    (_of("remap_pending"), "pending"),
                    (_of("remap_failed"), "failed"),
                ),
                _chart(
                    "PCIe replays",
                    "Packets sent again, a second. 0 is good: a bad seat or riser "
                    "otherwise.",
                    (_rate("pcie_replays_total"), ""),
                ),
                _chart(
                    "PCIe lanes",
                    "Of the link, and the most that card and slot can have. Equal while "
                    "the GPU is busy is good: a bad seat or slot otherwise.",
                    (_of("pcie_lanes"), "now"),
                    (_of("pcie_lanes_limit"), "at most"),
                ),
                _chart(
                    "NVLink traffic",
                    "Data over all links. No line: no NVLink.",
                    (_rate("nvlink_data_bytes_total", "direction"), "{{direction}}"),
                    unit="Bps",
                ),
                _chart(
                    "NVLink errors",
                    "Since the driver was loaded. Replays now and then are everyday; a "
                    "line that climbs is not.",
                    (_of("nvlink_errors_total", "kind"), "{{kind}}"),
                    limits=((None, BLUE),),
                ),
                BoardPanel(
                    title="Memory errors of a board's life",
                    about="Found by ECC since the board was made. Uncorrected ones of "
                    "long ago are no alarm; more than on its neighbours is a reason to "
                    "look.",
                    kind=Kind.TABLE,
                    width=24,
                    height=6,
                    queries=(Query(expr=_ecc("aggregate"), title="errors"),),
                    drop=("Time",),
                ),
            ),
        ),
    ),
)
