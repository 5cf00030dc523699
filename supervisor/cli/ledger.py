"""``trainwarden ledger``: care for the file that remembers everything."""

import json
from pathlib import Path

import click

from supervisor.cli.options import default_state_directory, fail, json_option
from supervisor.cli.reach import box_option
from supervisor.cli.records import reading
from supervisor.host.ledger import LedgerError
from supervisor.wire.paths import StatePaths


@click.group()
def ledger() -> None:
    """Care for the ledger: jobs, runs, attempts, incidents, and who did what."""


@ledger.command()
@box_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(*, state_dir: Path | None, as_json: bool, file: Path) -> None:
    """Copy the ledger to FILE, whole and consistent, while it is in use.

    Example: trainwarden ledger backup --state-dir /var/lib/trainwarden ledger.bak
    """
    paths = StatePaths((state_dir or default_state_directory()).absolute())
    with reading(paths) as found:
        if found is None:
            fail(f"there is no ledger in {paths.root} yet")
        try:
            found.backup(file.absolute())
        except LedgerError as error:
            fail(str(error), exit_code=1)
    size = file.stat().st_size
    told = json.dumps({"file": str(file.absolute()), "bytes": size})
    click.echo(told if as_json else f"{file}: {size} bytes")
