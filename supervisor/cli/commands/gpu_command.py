"""``trainwarden gpu``: the GPUs of this box, through its daemon or without one."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.table import Table

from supervisor.cli.options import json_option
from supervisor.cli.sources.daemon_client import answering, asking, box_option
from supervisor.cli.views.console import LastingConsole
from supervisor.core.gpu.gpu_view import Tenancy, picture
from supervisor.core.text.units import format_size
from supervisor.core.text.visible import visible
from supervisor.host.exporter.gpu_query import first_view

PATIENCE_SECONDS = 35.0
"""Waking every GPU may take a driver 30 s."""
SHORT = len("GPU-12345678")
"""Of a UUID: enough to tell GPUs apart, here and for CUDA_VISIBLE_DEVICES."""
UNFOLDED = 240
"""Columns where no terminal says how many there are."""


@click.command()
@box_option
@json_option
def gpu(*, state_dir: Path | None, as_json: bool) -> None:
    """Show the GPUs of this box: who has them, and how they are.

    Asks the daemon; where there is none, the driver itself.

    Example: trainwarden gpu --json
    """
    client = answering(state_dir)
    if client is None:
        shown = shown_here()
    else:
        with asking():
            shown = client.get("/v1/gpus")
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    console = LastingConsole(highlight=False)
    if not console.is_terminal:
        console.width = UNFOLDED
    if shown["gpus"]:
        console.print(table_of(shown))
    if shown["problem"]:
        console.put(shown["problem"])
    elif not shown["gpus"]:
        console.put("no GPUs")


def shown_here() -> dict[str, Any]:
    """What the driver says to a probe of ours; waits for it."""
    view = first_view(seconds=PATIENCE_SECONDS)
    made = picture(
        view.sample,
        fresh=view.sample is not None,
        problem=view.problem if view.sample is None else "",
        reboot=view.reboot,
        xids=view.xids,
        tenancy=Tenancy(),
    )
    as_from_a_daemon: dict[str, Any] = json.loads(json.dumps(asdict(made)))
    return as_from_a_daemon


def table_of(shown: dict[str, Any]) -> Table:
    """The GPUs, one a row; what is not known is left empty."""
    title = f"driver {shown['driver']}" if shown["driver"] else None
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("gpu", "name", "job", "memory", "busy", "temp", "power"):
        table.add_column(name, no_wrap=True)
    table.add_column("remarks")
    for one in shown["gpus"]:
        table.add_row(*row_of(one))
    return table


def row_of(one: dict[str, Any]) -> list[str]:
    """One GPU."""
    index, total = one["index"], one["memory_total_bytes"]
    used, busy = one["memory_used_bytes"], one["utilization"]
    celsius, watts = one["temperature_celsius"], one["power_watts"]
    return [
        f"{'?' if index is None else index} {one['gpu'][:SHORT]}",
        str(one["name"]),
        str(one["job"] or ""),
        "" if total is None else f"{format_size(used)} of {format_size(total)}",
        "" if busy is None else f"{busy:.0%}",
        "" if celsius is None else f"{celsius:.0f} °C",
        "" if watts is None else f"{watts:.0f} W",
        visible("; ".join(remarks(one))),
    ]


def remarks(one: dict[str, Any]) -> list[str]:
    """What somebody should look at."""
    strangers = [p for p in one["processes"] or () if p["job"] is None]
    found = {
        "lost: it has fallen off the bus": one["lost"],
        "out of service": not one["in_service"],
        f"slowed by {', '.join(one['throttled'] or ())}": one["throttled"],
        f"Xid {one['last_xid']} ({one['xids']} in all)": one["xids"],
        f"{len(strangers)} processes that are no job's": strangers,
        **dict.fromkeys(one["problems"], True),
    }
    return [text for text, there in found.items() if there]
