"""Which daemon a command speaks to, and what it says when there is none."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import click

from supervisor.cli.options import default_state_directory, fail
from supervisor.host.control_client import Client, NoDaemonError, RefusedError

BOX = Path("/run/trainwarden/control.sock")
"""Where the daemon of a box listens, as its service is installed."""
SOCKET = "control.sock"
"""In the state directory of a daemon that somebody runs by hand."""

box_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="TRAINWARDEN_STATE_DIR",
    help="The state directory of a daemon. Default: the daemon of this box.",
)


def client_of(state_dir: Path | None) -> Client:
    """The daemon of ``state_dir``, or of this box."""
    named = os.environ.get("TRAINWARDEN_SOCKET")
    if state_dir is not None:
        return Client(state_dir.absolute() / SOCKET)
    if named:
        return Client(Path(named))
    return Client(BOX if BOX.exists() else default_state_directory() / SOCKET)


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


@contextlib.contextmanager
def asking() -> Generator[None]:
    """What the daemon refuses ends the command with its sentence."""
    try:
        yield
    except NoDaemonError as error:
        fail(f"{error}: is it running? See systemctl status trainwarden", exit_code=1)
    except RefusedError as error:
        fail(str(error), exit_code=1)


def post(state_dir: Path | None, place: str, body: dict[str, Any]) -> Any:
    """Ask the daemon for something."""
    with asking():
        return client_of(state_dir).post(place, body)
