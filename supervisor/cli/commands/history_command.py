"""``trainwarden history``: all runs, as ``sacct`` has them."""

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from typing_extensions import override

from supervisor.cli.options import json_option, show
from supervisor.cli.sources.daemon_client import answering, box_option, tell_gone
from supervisor.cli.sources.run_reader import told_history
from supervisor.core.jobs.accounting.run_summary import (
    WHAT_IS_ELAPSED,
    WHAT_IS_LOST,
    RunFilter,
    RunSummary,
)
from supervisor.core.jobs.job_status import JobState
from supervisor.core.text.units import (
    counted,
    format_duration,
    format_size,
    local_time,
    parse_duration,
)
from supervisor.core.text.visible import visible

UNFOLDED = 240
"""Columns where no terminal says how many there are."""
STATES = [s.value for s in JobState if s is not JobState.QUEUED]


def moment(text: str) -> datetime:
    """``2026-01-31``, ``2026-01-31T12:00``, or so long ago (``7d``, ``2h``). Without a
    zone it is this machine's. Raises ValueError."""
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.now(UTC) - timedelta(seconds=parse_duration(text))
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError) as error:
        message = f"expected a date (2026-01-31, 2026-01-31T12:00) or 7d, got {text!r}"
        raise ValueError(message) from error


class Moment(click.ParamType[datetime]):
    """A moment on the command line."""

    name = "when"

    @override
    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> datetime:
        """Read it, or end the command with a sentence."""
        try:
            return value if isinstance(value, datetime) else moment(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@json_option
@box_option
@click.option("--user", help="Runs of this user.")
@click.option(
    "--state",
    "states",
    type=click.Choice(STATES),
    multiple=True,
    help="Runs in this state; may be given several times.",
)
@click.option("--since", type=Moment(), help="That had not ended then: a date, or 7d.")
@click.option("--until", type=Moment(), help="That had begun then.")
@click.option(
    "--name", metavar="PATTERN", help="Of jobs of that name, such as 'mnist-*'."
)
def history(
    *,
    as_json: bool,
    state_dir: Path | None,
    user: str | None,
    states: tuple[str, ...],
    since: datetime | None,
    until: datetime | None,
    name: str | None,
) -> None:
    """List all runs, the oldest first: those that are over as well.

    Asks the daemon if one answers; else the files of the state directory tell.

    Example: trainwarden history --since 7d --state gave_up
    """
    client = answering(state_dir)
    if client is None:
        tell_gone(state_dir)
    wanted = RunFilter(
        user=user,
        states=frozenset(map(JobState, states)),
        name=name,
        since=since,
        until=until,
    )
    found = [run for run in told_history(client, state_dir) if wanted.admits(run)]
    if as_json:
        show([history_json(run) for run in found], (), as_json=True)
    elif found:
        _print(found)
    else:
        nothing = "no run matches" if wanted != RunFilter() else "no run is known yet"
        click.echo(nothing)


def history_json(run: RunSummary) -> dict[str, Any]:
    """The documented shape of one run in ``history --json``."""
    return {name: getattr(run, name) for name in RunSummary.__slots__}


def _print(runs: list[RunSummary]) -> None:
    table = Table(box=None, pad_edge=False)
    for name in ("job", "run", "user", "state", "start", "end"):
        table.add_column(name, no_wrap=True)
    for name in (
        "elapsed",
        "attempts",
        "exit",
        "device peak",
        "host peak",
        "GPU time",
        "lost",
    ):
        table.add_column(name, no_wrap=True, justify="right")
    for run in runs:
        table.add_row(*row_of(run))
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = UNFOLDED
    console.print(table)
    if any(run.lost_steps or run.downtime_seconds for run in runs):
        console.print(WHAT_IS_LOST)
    if any(run.paused_seconds for run in runs):
        console.print(WHAT_IS_ELAPSED)


def row_of(run: RunSummary) -> list[str]:
    """One run; what is not known, or what it had none of, is a dash."""
    words = run.state.words
    state = f"{words} ({run.cause})" if run.exit_code == 1 else words
    return [
        visible(run.job),
        str(run.run),
        visible(run.user or "-"),
        state,
        local_time(run.began_at),
        "-" if run.ended_at is None else local_time(run.ended_at),
        _or_dash(run.elapsed_seconds, format_duration),
        str(run.attempts),
        "-" if run.exit_code is None else str(run.exit_code),
        _or_dash(run.device_peak_bytes, format_size),
        _or_dash(run.host_peak_bytes, format_size),
        _or_dash(run.gpu_seconds or None, format_duration),
        f"{counted(run.lost_steps, 'step')}, {format_duration(run.downtime_seconds)}",
    ]


def _or_dash(value: float | None, form: Callable[[float], str]) -> str:
    return "-" if value is None else form(value)
