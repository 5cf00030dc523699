"""Completion of what is known here: the names of jobs, the numbers of incidents.

Asked by the shell while somebody types: it says nothing, changes nothing, and where nothing
can be told offers nothing.
"""

import contextlib
import os
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from supervisor.cli.sources.daemon_client import answering, directory_of
from supervisor.host.control.control_client import NoDaemonError, RefusedError
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.wire.paths import StatePaths

NOTHING_TO_TELL = (
    OSError,
    LedgerError,
    NoDaemonError,
    RefusedError,
    SystemExit,
    LookupError,
)
NEWEST = 50
"""So many incidents are offered."""


def complete_job(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """The jobs whose names begin like that."""
    return [
        CompletionItem(name)
        for name in _jobs(_place(context))
        if name.startswith(begun)
    ]


def complete_incident(
    context: click.Context, _parameter: click.Parameter, begun: str
) -> list[CompletionItem]:
    """Incidents whose numbers begin like that, the newest first, with what they were."""
    found = list(_incidents(_place(context)))
    return [
        CompletionItem(number, help=about)
        for number, about in found
        if number.startswith(begun)
    ]


def _place(context: click.Context) -> Path | None:
    named = context.params.get("state_dir") or os.environ.get("TRAINWARDEN_STATE_DIR")
    return None if named is None else Path(named)


def _jobs(state_dir: Path | None) -> list[str]:
    with contextlib.suppress(*NOTHING_TO_TELL):
        client = answering(state_dir)
        if client is not None:
            return sorted(one["job"] for one in client.get("/v1/status")["jobs"])
        with contextlib.closing(_ledger(state_dir)) as ledger:
            names = {run.job for run in ledger.latest_runs()}
            return sorted(names | {row.name for row in JobBook(ledger).jobs()})
    return []


def _incidents(state_dir: Path | None) -> list[tuple[str, str]]:
    with contextlib.suppress(*NOTHING_TO_TELL):
        client = answering(state_dir)
        if client is not None:
            told = client.get("/v1/incidents")
            found = [(one["id"], one["job"], one["cause"]) for one in told]
        else:
            with contextlib.closing(_ledger(state_dir)) as ledger:
                rows = ledger.incidents()
                found = [(row.id, row.job, row.cause) for row in rows]
        newest = sorted(found, reverse=True)[:NEWEST]
        return [(str(number), f"{job}: {cause}") for number, job, cause in newest]
    return []


def _ledger(state_dir: Path | None) -> Ledger:
    return Ledger(StatePaths(directory_of(state_dir)).ledger, read_only=True)


job_argument = click.argument("job", shell_complete=complete_job)
optional_job_argument = click.argument(
    "job", required=False, shell_complete=complete_job
)
