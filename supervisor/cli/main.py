"""The command ``trainwarden``.

The commands are imported when they are asked for: most of them are about reading a file
or a socket, and what drives a run takes longer to import than that.
"""

import importlib
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import click
from typing_extensions import override

from supervisor import __version__
from supervisor.cli.collision import conflicting_distribution
from supervisor.cli.options import EXIT_INTERRUPTED, fail

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run", "Run a script to its end, in the foreground."),
    "submit": ("jobs", "Hand a script to the daemon of this box."),
    "status": ("records", "Show every job and where it is."),
    "logs": ("logs", "Print what a job printed."),
    "incidents": ("records", "List what went wrong, and what was done about it."),
    "explain": ("records", "Explain one incident in plain words."),
    "snapshots": ("snapshots", "List, verify and export the snapshots of a job."),
    "memory": ("memory", "Show who holds the memory of a job."),
    "gpu": ("gpu", "Show the GPUs of this box: who has them, and how they are."),
    "policy": ("policy", "Show what is done about each cause."),
    "quarantine": ("policy", "List the GPUs that are kept out of use, or return one."),
    "diagnose": ("diagnose", "Name the cause of the failure that a log shows."),
    "stop": ("jobs", "End a job at its newest snapshot."),
    "start": ("jobs", "Let a job go on that has ended."),
    "restart": ("jobs", "Drain a job and let it go on in a new process."),
    "drain": ("jobs", "Save the state of a job, or of all, and end it."),
    "forget": ("forget", "Take a job that has ended off the list."),
    "pause": ("jobs", "Start nothing more on this box."),
    "resume": ("jobs", "Start jobs again."),
    "top": ("top", "Watch all jobs live."),
    "check": ("check", "Is this machine fit for training?"),
    "ledger": ("ledger", "Copy the ledger while it is in use."),
    "daemon": ("daemon", "Run the daemon of this box."),
    "enable-user": ("enable", "Give a user of this box quarters for jobs."),
}
"""Name → module of ``supervisor.cli`` that has it, and what the list says of it."""


class Commands(click.Group):
    """Imports a command when it is asked for."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"supervisor.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    @override
    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in COMMANDS.items()])


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trainwarden")
def trainwarden() -> None:
    """A training run ends as if it never crashed, and tells you why it did."""


def main() -> None:
    """Entry point of the ``trainwarden`` command."""
    conflict = conflicting_distribution(_installed("supervisor"))
    if conflict is not None:
        fail(conflict)
    try:
        code = trainwarden.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except FileNotFoundError:
        if _is_somewhere():
            raise
        fail("the directory that you are in is gone: change to one that exists")
    raise SystemExit(code)


def _is_somewhere() -> bool:
    """Whether the working directory exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _installed(name: str) -> list[str]:
    """``name``, if a distribution of that name is installed."""
    try:
        return [metadata.distribution(name).name]
    except metadata.PackageNotFoundError:
        return []
