"""What several commands share: the state directory, and how errors end a command."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from supervisor.cli.command_hint import in_place
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.visible import visible
from supervisor.host.service.journal import marked

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
"""Ctrl-C before anything had begun: 128 and the number of SIGINT, as shells have it."""


def fail(message: str, *, exit_code: int = EXIT_USAGE) -> NoReturn:
    """End the command with one sentence and no traceback."""
    click.echo(
        marked(f"trainwarden: {visible(in_place(message))}", LogLevel.ERROR), err=True
    )
    raise SystemExit(exit_code)


def show(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print the answer of a command: ``value`` as JSON, or ``lines`` for a person."""
    if as_json:
        click.echo(json.dumps(value, indent=2))
        return
    for line in lines:
        click.echo(visible(in_place(line)))


def default_state_directory() -> Path:
    """``$XDG_STATE_HOME/trainwarden``, by the XDG base directory specification."""
    if (base := os.environ.get("XDG_STATE_HOME")) is not None and base:
        return Path(base) / "trainwarden"
    try:
        return Path.home() / ".local" / "state" / "trainwarden"
    except RuntimeError:  # HOME is not set, and the user has no name
        fail("there is no home directory: set HOME, or say --state-dir DIRECTORY")


state_option = click.option(
    "--state-dir",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    default=default_state_directory,
    show_default="~/.local/state/trainwarden",
    envvar="TRAINWARDEN_STATE_DIR",
    is_eager=True,  # what else is wrong is told with it
    help="Where the ledger, the logs and the snapshots are kept.",
)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, in the documented shape."
)
