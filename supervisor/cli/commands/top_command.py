"""``trainwarden top``: all jobs, live."""

import contextlib
import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table

from supervisor.cli.commands.status_commands import stored_jobs
from supervisor.cli.options import json_option
from supervisor.cli.sources.box_reader import BoxReader
from supervisor.cli.sources.box_source import source_of, stored_box
from supervisor.cli.sources.daemon_client import (
    asking,
    box_option,
    client_of,
    directory_of,
    tell_gone,
)
from supervisor.cli.sources.ledger_reader import reading
from supervisor.cli.views.run_screen import ScreenOptions
from supervisor.cli.views.top.gauges import RecentSamples, sparkline
from supervisor.cli.views.top.job_columns import loss_of
from supervisor.cli.views.top.job_listing import shown_state
from supervisor.cli.views.top.raw_terminal import RawTerminal
from supervisor.cli.views.top.top_frame import box_title
from supervisor.cli.views.top.top_screen import TopScreen
from supervisor.core.text.units import format_size
from supervisor.host.control.control_client import NoDaemonError
from supervisor.runtime.stored_status import stored_owners
from supervisor.wire.paths import StatePaths

UNFOLDED = 240
"""The width of the table where no terminal has one."""


def look(state_dir: Path | None) -> dict[str, Any]:
    """The box as its daemon tells it, or its jobs as their files do."""
    try:
        found: dict[str, Any] = client_of(state_dir).get("/v1/status")
    except NoDaemonError:
        where = directory_of(state_dir)
        with reading(StatePaths(where)) as ledger:
            owners = {} if ledger is None else stored_owners(ledger)
        return stored_box(stored_jobs(where), owners)
    return found


def table_of(box: dict[str, Any], history: RecentSamples) -> Table:
    """The whole picture."""
    title = box_title(box)
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for name in ("job", "owner", "state", "attempt", "epoch", "step", "loss"):
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
    epoch = job.get("epoch")
    return [
        str(job["job"]),
        str(job.get("owner") or ""),
        shown_state(job),
        str(job["attempt"]),
        "" if epoch is None else f"{epoch + 1}/{job.get('epochs') or '?'}",
        "" if job.get("step") is None else str(job["step"]),
        loss_of(job),
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
    """Watch all jobs live: select, sort, filter, open one, see its log.

    On a terminal ? shows the keys, and q or Ctrl-C ends it. In a pipe, or with --times,
    it is a table that is printed again and again. With --json: one look.

    Asks the daemon; where none runs, the files of the state directory tell.

    Example: trainwarden top --every 2
    """
    with asking():
        box = look(state_dir)
    if box["launcher"] is None:
        tell_gone(state_dir)
    if as_json:
        click.echo(json.dumps(box, indent=2))
        return
    try:
        if times is None and _has_keys():
            _watch_with_keys(state_dir, box, every=every)
        else:
            _watch(state_dir, box, every=every, times=times)
    except KeyboardInterrupt:
        return


def _has_keys() -> bool:
    """Whether there is a terminal on both sides, which knows more than lines."""
    both = sys.stdin.isatty() and sys.stdout.isatty()
    return both and ScreenOptions.of(os.environ, quiet=False).row


def _watch_with_keys(
    state_dir: Path | None, box: dict[str, Any], *, every: float
) -> None:
    """Until a key ends it."""
    terminal = RawTerminal()
    colour = ScreenOptions.of(os.environ, quiet=False).colour
    source = partial(source_of, state_dir)
    with (
        BoxReader(source, box, every_seconds=every, tell=terminal.wake) as reader,
        terminal,
    ):
        TopScreen(reader, colour=colour).show(terminal)


def _watch(
    state_dir: Path | None, box: dict[str, Any], *, every: float, times: int | None
) -> None:
    """``times`` looks, or for ever: on a terminal in place of each other, elsewhere one
    below the other."""
    history, left, console = RecentSamples(), times, Console()
    if not console.is_terminal:
        console.width = UNFOLDED
    live = Live(console=console, auto_refresh=False) if console.is_terminal else None
    with asking(), live or contextlib.nullcontext():
        while left is None or left > 0:
            table = table_of(box, history)
            if live is None:
                console.print(table)
            else:
                live.update(table, refresh=True)
            left = None if left is None else left - 1
            if left is None or left > 0:
                time.sleep(every)
                box = look(state_dir)
