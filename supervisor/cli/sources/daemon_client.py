"""Which daemon a command speaks to, and what it says when there is none."""

import contextlib
import os
from collections.abc import Generator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click

from supervisor.cli.command_hint import named_directory
from supervisor.cli.options import EXIT_USAGE, default_state_directory, fail
from supervisor.cli.sources.ledger_reader import nothing_ran
from supervisor.host.control.control_client import Client, NoDaemonError, RefusedError
from supervisor.wire.paths import StatePaths

BOX = Path("/run/trainwarden/control.sock")
"""Where the daemon of a box listens, as its service is installed."""
BOX_STATE = Path("/var/lib/trainwarden")
"""Its state directory, whose ledger root may read."""
SOCKET = "control.sock"
"""In the state directory of a daemon that somebody runs by hand."""
LOCK = "daemon.lock"
"""In the state directory of every daemon, also after its end."""

box_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="TRAINWARDEN_STATE_DIR",
    is_eager=True,  # what else is wrong is told with it
    help="The state directory that is meant, a daemon's or your own. Default: the"
    " daemon of this box if it answers, else ~/.local/state/trainwarden.",
)


def client_of(state_dir: Path | None) -> Client:
    """The daemon of ``state_dir``, or of this box."""
    named = os.environ.get("TRAINWARDEN_SOCKET")
    if state_dir is not None:
        own = state_dir.absolute() / SOCKET
        of_box = state_dir.absolute() == BOX_STATE and not own.exists()
        return Client(BOX if of_box else own)
    if named:
        return Client(Path(named))
    return Client(BOX if BOX.exists() else default_state_directory() / SOCKET)


def directory_of(state_dir: Path | None) -> Path:
    """Whose files tell where no daemon does: the box's, for who may read its ledger."""
    if state_dir is not None:
        return state_dir
    readable = os.access(StatePaths(BOX_STATE).ledger, os.R_OK)
    of_box = readable and has_daemon(BOX_STATE)
    return BOX_STATE if of_box else default_state_directory()


def has_daemon(state_dir: Path) -> bool:
    """Whether a daemon has had it, or has it."""
    return os.access(state_dir / LOCK, os.F_OK)


def tell_gone(state_dir: Path | None) -> None:
    """If a daemon should answer and none does: that what follows is from files."""
    where = directory_of(state_dir)
    if has_daemon(where):
        click.echo(f"no daemon runs in {where}: its files tell", err=True)
    elif state_dir is None and has_daemon(BOX_STATE):
        gone = "the daemon of this box does not run (systemctl status trainwarden)"
        click.echo(f"{gone}: the files in {where} tell", err=True)


def answering(state_dir: Path | None) -> Client | None:
    """The daemon, if it answers at all; None: the files have to tell."""
    client = client_of(state_dir)
    if not client.path.exists():
        return None
    try:
        client.get("/v1/openapi.json")
    except (NoDaemonError, RefusedError):
        return None
    return client


TO_START_IT = (
    "is it running? If not, start it with `trainwarden daemon --config FILE`, or see"
    " systemctl status trainwarden; a script runs without a daemon, too, by trainwarden run"
)


@contextlib.contextmanager
def asking() -> Generator[None]:
    """What the daemon refuses ends the command with its sentence."""
    try:
        yield
    except NoDaemonError as error:
        named = named_directory()
        if named is not None and not named.is_dir():
            fail(nothing_ran(named))  # as `status` and `logs` say it
        fail(f"{error}: {TO_START_IT}", exit_code=1)
    except RefusedError as error:
        unknown = error.status == HTTPStatus.NOT_FOUND
        fail(str(error), exit_code=EXIT_USAGE if unknown else 1)


def post(state_dir: Path | None, place: str, body: dict[str, Any]) -> Any:
    """Ask the daemon for something."""
    with asking():
        return client_of(state_dir).post(place, body)
