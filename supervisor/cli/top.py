"""``trainwarden top``: all jobs, live."""

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from supervisor.cli.reach import asking, box_option, client_of
from supervisor.core.units import format_size

BARS = "▁▂▃▄▅▆▇█"
KEPT = 24
"""Readings a sparkline shows."""


def sparkline(values: Sequence[float]) -> str:
    """``values`` as bars, the lowest and the highest of them at the ends."""
    if not values:
        return ""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(BARS[round((v - low) / span * (len(BARS) - 1))] for v in values)


class History:
    """The last readings of each job."""

    def __init__(self) -> None:
        self.memory = defaultdict[str, deque[float]](lambda: deque(maxlen=KEPT))
        self.seconds = defaultdict[str, deque[float]](lambda: deque(maxlen=KEPT))

    def add(self, job: dict[str, Any]) -> None:
        """One reading."""
        for known, name in (
            (self.memory, "memory_in_use_bytes"),
            (self.seconds, "step_seconds"),
        ):
            if job.get(name) is not None:
                known[job["job"]].append(float(job[name]))


def table_of(box: dict[str, Any], history: History) -> Table:
    """The whole picture."""
    held = sum(gpu["job"] is not None for gpu in box["gpus"])
    paused = f", paused by {box['paused_by']}" if box["paused_by"] else ""
    title = f"{len(box['jobs'])} jobs, {held} of {len(box['gpus'])} GPUs held{paused}"
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("job", "owner", "state", "try", "epoch", "step", "loss"):
        table.add_column(name, no_wrap=True)
    for name in ("step time", "memory"):
        table.add_column(name, no_wrap=True)
    for job in box["jobs"]:
        history.add(job)
        table.add_row(*row_of(job, history))
    return table


def row_of(job: dict[str, Any], history: History) -> list[str]:
    """One job."""
    seconds, memory = job.get("step_seconds"), job.get("memory_in_use_bytes")
    loss, epoch = job.get("loss"), job.get("epoch")
    return [
        str(job["job"]),
        str(job["owner"]),
        str(job["state"]),
        str(job["attempt"]),
        "" if epoch is None else f"{epoch + 1}/{job.get('epochs') or '?'}",
        "" if job.get("step") is None else str(job["step"]),
        "" if loss is None else f"{loss:.4f}",
        f"{seconds * 1000:.0f} ms {sparkline(history.seconds[job['job']])}"
        if seconds
        else "",
        f"{format_size(memory)} {sparkline(history.memory[job['job']])}"
        if memory
        else "",
    ]


@click.command()
@box_option
@click.option("--every", default=1.0, show_default=True, help="Seconds.")
@click.option("--times", type=int, help="Look so often, then end. Default: for ever.")
def top(*, state_dir: Path | None, every: float, times: int | None) -> None:
    """Watch all jobs of the daemon live; Ctrl-C ends it.

    Example: trainwarden top --every 2
    """
    client, history, console = client_of(state_dir), History(), Console()
    with asking(), Live(console=console, auto_refresh=False) as live:
        left = times
        try:
            while left is None or left > 0:
                live.update(table_of(client.get("/v1/status"), history), refresh=True)
                left = None if left is None else left - 1
                if left is None or left > 0:
                    time.sleep(every)
        except KeyboardInterrupt:
            return
