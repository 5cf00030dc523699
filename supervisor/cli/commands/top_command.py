"""``trainwarden top``: all jobs, live."""

import json
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from supervisor import __version__
from supervisor.cli.commands.status_commands import stored_jobs
from supervisor.cli.daemon_client import (
    asking,
    box_option,
    client_of,
    directory_of,
    tell_gone,
)
from supervisor.cli.options import json_option
from supervisor.core.text.units import format_size
from supervisor.host.control.control_client import NoDaemonError

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


class RecentSamples:
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


def look(state_dir: Path | None) -> dict[str, Any]:
    """The box as its daemon tells it, or its jobs as their files do: without a
    ``launcher`` then, as nothing is started."""
    try:
        found: dict[str, Any] = client_of(state_dir).get("/v1/status")
    except NoDaemonError:
        return {
            "version": __version__,
            "launcher": None,
            "paused_by": None,
            "gpus": [],
            "problems": [],
            "jobs": stored_jobs(directory_of(state_dir)),
        }
    return found


def title_of(box: dict[str, Any]) -> str:
    """The line above the jobs."""
    jobs = f"{len(box['jobs'])} jobs"
    if box["launcher"] is None:
        return f"{jobs}, no daemon runs"
    held = sum(gpu["job"] is not None for gpu in box["gpus"])
    paused = f", paused by {box['paused_by']}" if box["paused_by"] else ""
    return f"{jobs}, {held} of {len(box['gpus'])} GPUs held{paused}"


def table_of(box: dict[str, Any], history: RecentSamples) -> Table:
    """The whole picture."""
    title = title_of(box)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("job", "owner", "state", "try", "epoch", "step", "loss"):
        table.add_column(name, no_wrap=True)
    for name in ("step time", "memory"):
        table.add_column(name, no_wrap=True)
    for job in box["jobs"]:
        history.add(job)
        table.add_row(*row_of(job, history))
    return table


def row_of(job: dict[str, Any], history: RecentSamples) -> list[str]:
    """One job."""
    seconds, memory = job.get("step_seconds"), job.get("memory_in_use_bytes")
    loss, epoch = job.get("loss"), job.get("epoch")
    return [
        str(job["job"]),
        str(job.get("owner") or ""),
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
@json_option
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds.",
)
@click.option("--times", type=int, help="Look so often, then end. Default: for ever.")
def top(
    *, state_dir: Path | None, as_json: bool, every: float, times: int | None
) -> None:
    """Watch all jobs live; Ctrl-C ends it. With --json: one look.

    Asks the daemon; where none runs, the files of the state directory tell.

    Example: trainwarden top --every 2
    """
    history, console = RecentSamples(), Console()
    with asking():
        box = look(state_dir)
    if box["launcher"] is None:
        tell_gone(state_dir)
    if as_json:
        click.echo(json.dumps(box, indent=2))
        return
    with asking(), Live(console=console, auto_refresh=False) as live:
        left = times
        try:
            while left is None or left > 0:
                live.update(table_of(box, history), refresh=True)
                left = None if left is None else left - 1
                if left is None or left > 0:
                    time.sleep(every)
                    box = look(state_dir)
        except KeyboardInterrupt:
            return
