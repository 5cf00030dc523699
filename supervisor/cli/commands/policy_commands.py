"""``policy`` and ``quarantine``: what would be done, and what is kept out of use."""

import os
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import click

from supervisor.cli.command_hint import command_hint
from supervisor.cli.options import fail, json_option, show
from supervisor.cli.sources.daemon_client import (
    answering,
    asking,
    box_option,
    directory_of,
)
from supervisor.cli.sources.ledger_reader import reading
from supervisor.cli.spec_options import read_tables, spec_of
from supervisor.core.jobs.spec import merge
from supervisor.core.remediation.describe import escalations_json, escalations_text
from supervisor.core.remediation.escalation import RemedyPermissions
from supervisor.core.text.units import local_time
from supervisor.host.control.control_client import Client
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger, LedgerError
from supervisor.host.service.clock import Clock
from supervisor.host.service.user_name import user_name
from supervisor.wire.paths import StatePaths


@click.command()
@click.option(
    "--spec",
    "spec_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The TOML file of a job. Default: what holds without one.",
)
@json_option
def policy(*, spec_file: Path | None, as_json: bool) -> None:
    """Print the remedies that would be tried for each cause, in order.

    Example: trainwarden policy --spec job.toml
    """
    tables = merge({"script": "-"}, read_tables(spec_file))
    spec = spec_of(tables, where=f"the spec {spec_file}")
    terms = RemedyPermissions(allowed=spec.remedies.allowed, gpus=spec.gpus)
    value = escalations_json(
        terms,
        without_progress=spec.restart.without_progress,
        deadlines=spec.liveness.deadlines,
    )
    show(value, [escalations_text(value)], as_json=as_json)


@click.command()
@click.option("--return", "back", metavar="GPU", help="This GPU may be used again.")
@click.option(
    "--out", metavar="GPU", help="Take this GPU out of service, until --return."
)
@json_option
@box_option
def quarantine(
    *, back: str | None, out: str | None, as_json: bool, state_dir: Path | None
) -> None:
    """List the GPUs that are kept out of use, put one back, or take one out.

    Asks the daemon if one answers, where root and admins may put one back or take one
    out (who holds it keeps it to its end); else it is about the runs of the state
    directory.

    \b
    Examples:
      trainwarden quarantine --return GPU-8f2c
      trainwarden quarantine --out GPU-8f2c
    """  # noqa: D301  # \b is click's mark, not a backslash
    if back is not None and out is not None:
        fail("quarantine takes --return or --out, not both")
    client = answering(state_dir)
    if client is None:
        if out is not None:
            fail("only a daemon gives GPUs to jobs, and none answers", exit_code=1)
        kept, idle = _kept(StatePaths(directory_of(state_dir)), back), []
    else:
        kept, idle = _kept_by(client, back, out), _out_of_service(client)
    lines = [
        f"{row['gpu']}: since {local_time(row['at'])}, {row['job']} attempt "
        f"{row['attempt']}: {row['because']}"
        for row in kept
    ]
    lines = lines or ["no GPU is quarantined"]
    show(kept, [*lines, *(f"{gpu}: out of service" for gpu in idle)], as_json=as_json)


def _kept_by(client: Client, back: str | None, out: str | None) -> list[dict[str, Any]]:
    with asking():
        if out is not None:
            _serve(client, out, in_service=False)
        if back is not None:
            _take_back(client, back)
        return _quarantined(client)


def _take_back(client: Client, gpu: str) -> None:
    """Into service, and out of quarantine: whichever kept it out."""
    serves = {one["gpu"]: one["in_service"] for one in client.get("/v1/status")["gpus"]}
    if not serves.get(gpu):  # or it is gone: then nobody lists it
        _serve(client, gpu, in_service=True)
    if serves.get(gpu) or gpu in {row["gpu"] for row in _quarantined(client)}:
        client.post(f"/v1/gpus/{quote(gpu, safe='')}/return", {})


def _serve(client: Client, gpu: str, *, in_service: bool) -> None:
    place = f"/v1/gpus/{quote(gpu, safe='')}/service"
    client.post(place, {"in_service": in_service})


def _quarantined(client: Client) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", client.get("/v1/quarantine"))


def _out_of_service(client: Client) -> list[str]:
    with asking():
        gpus = client.get("/v1/status")["gpus"]
    return [one["gpu"] for one in gpus if not one["in_service"]]


def _kept(paths: StatePaths, back: str | None) -> list[dict[str, Any]]:
    if back is not None:
        _put_back(paths, back)
    with reading(paths) as ledger:
        kept = [] if ledger is None else ledger.quarantined()
    return [asdict(row) for row in kept]


def _put_back(paths: StatePaths, gpu: str) -> None:
    if not paths.ledger.exists():
        fail(f"{gpu} is not quarantined; see `{command_hint('quarantine')}`")
    now, who = Clock().wall(), user_name(os.getuid())
    try:
        with closing(Ledger(paths.ledger)) as ledger, ledger.transaction():
            known = ledger.put_back(gpu, now=now)
            if known:
                did = f"{gpu} out of quarantine"
                JobBook(ledger).note(who=who, did=did, job=None, now=now)
    except LedgerError as error:
        fail(str(error), exit_code=1)
    if not known:
        fail(f"{gpu} is not quarantined; see `{command_hint('quarantine')}`")
