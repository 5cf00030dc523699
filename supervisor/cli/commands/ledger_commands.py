"""``trainwarden ledger``: care for the file that remembers everything."""

import json
import os
from pathlib import Path

import click

from supervisor.cli.options import fail, json_option
from supervisor.cli.sources.daemon_client import (
    answering,
    asking,
    box_option,
    directory_of,
)
from supervisor.cli.sources.ledger_reader import reading
from supervisor.cli.unknown_words import KindGroup
from supervisor.wire.paths import StatePaths


@click.group(cls=KindGroup)
def ledger() -> None:
    """Care for the ledger: jobs, runs, attempts, incidents, and who did what."""


@ledger.command()
@box_option
@json_option
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def backup(*, state_dir: Path | None, as_json: bool, file: Path) -> None:
    """Copy the ledger to FILE, whole and consistent, while it is in use.

    That of a daemon is given to root and admins: everybody's specs stand in it.

    Example: trainwarden ledger backup ledger.bak
    """
    client = answering(state_dir)
    if client is None:
        _copy(StatePaths(directory_of(state_dir).absolute()), file)
    else:
        with asking():
            content, _ = client.read("/v1/ledger")
        _write(file.absolute(), content)
    size = file.stat().st_size
    told = json.dumps({"file": str(file.absolute()), "bytes": size})
    click.echo(told if as_json else f"{file}: {size} bytes")


def _copy(paths: StatePaths, file: Path) -> None:
    with reading(paths) as found:
        if found is None:
            fail(f"there is no ledger in {paths.root} yet")
        found.backup(file.absolute())


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all, and for nobody else to read."""
    partial = file.with_name(f".{file.name}.partial")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        partial.unlink(missing_ok=True)
        with open(os.open(partial, flags, 0o600), "wb") as out:  # noqa: PTH123  # a descriptor
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        partial.rename(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        fail(f"the backup {file} cannot be written: {error.strerror}", exit_code=1)
