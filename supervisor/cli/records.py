"""``status``, ``incidents`` and ``explain``: what the state directory tells."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from supervisor.cli.options import fail, json_option, state_option
from supervisor.cli.progress import plan_line, progress_line
from supervisor.core.explain import explain_incident, summarise_incident
from supervisor.core.status import JobStatus
from supervisor.host.clock import Clock
from supervisor.host.ledger import IncidentRow, Ledger, LedgerError
from supervisor.host.status import stored_status
from supervisor.wire.paths import StatePaths


@contextmanager
def reading(paths: StatePaths) -> Generator[Ledger | None]:
    """The ledger, read only; None where nothing ever ran."""
    if not paths.root.is_dir():
        fail(f"there is no state directory {paths.root}; nothing ran there yet")
    if not paths.ledger.exists():
        yield None
        return
    try:
        ledger = Ledger(paths.ledger, read_only=True)
        try:
            yield ledger
        finally:
            ledger.close()
    except LedgerError as error:
        fail(str(error), exit_code=1)


def status_json(status: JobStatus) -> dict[str, Any]:
    """The documented shape of one job in ``status --json``."""
    value = asdict(status)
    sliced = {"slices": value.pop("slices"), "size": value.pop("slice_size")}
    return {**value, "microbatch": sliced}


@click.command()
@json_option
@state_option
def status(*, as_json: bool, state_dir: Path) -> None:
    """Show every job: its state, its attempt, and where it is."""
    paths = StatePaths(state_dir)
    with reading(paths) as ledger:
        now = Clock().now()
        runs = [] if ledger is None else ledger.latest_runs()
        found = [stored_status(ledger, run, paths, now=now) for run in runs if ledger]
    if as_json:
        click.echo(json.dumps([status_json(item) for item in found], indent=2))
    elif not found:
        click.echo(f"no job has run in {state_dir} yet")
    for item in [] if as_json else found:
        click.echo(progress_line(item))
        if item.snapshot_plan is not None and item.pid is not None:
            click.echo(f"  {plan_line(item.snapshot_plan)}")
        if item.treatment:
            changed = (f"{name} {value}" for name, value in item.treatment.items())
            click.echo(f"  in force by remedies: {', '.join(changed)}")
        if item.promise:
            click.echo(f"  bit-identical resume is not promised: {item.promise}")


@click.command()
@json_option
@state_option
@click.argument("job", required=False)
def incidents(*, as_json: bool, state_dir: Path, job: str | None) -> None:
    """List what went wrong, and what was done about it."""
    with reading(StatePaths(state_dir)) as ledger:
        found = [] if ledger is None else ledger.incidents(job=job)
        known = job is None or (ledger is not None and ledger.latest_run(job))
    if not known:
        fail(f"there is no job {job!r} in {state_dir}; see `trainwarden status`")
    if as_json:
        click.echo(json.dumps([incident_json(item) for item in found], indent=2))
    elif not found:
        click.echo("no incidents")
    for item in [] if as_json else found:
        click.echo(summarise_incident(incident_json(item)))


def incident_json(incident: IncidentRow) -> dict[str, Any]:
    """The documented shape of one incident."""
    return asdict(incident)


@click.command()
@state_option
@click.argument("incident", type=int, metavar="ID")
def explain(*, state_dir: Path, incident: int) -> None:
    """Explain one incident in plain words."""
    with reading(StatePaths(state_dir)) as ledger:
        found = [] if ledger is None else ledger.incidents(incident=incident)
    if not found:
        fail(f"there is no incident {incident}; see `trainwarden incidents`")
    click.echo(explain_incident(incident_json(found[0])))
