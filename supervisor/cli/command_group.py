"""The command ``trainwarden``.

The commands are imported when they are asked for: most of them are about reading a file
or a socket, and what drives a run takes longer to import than that.
"""

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

import click
from click.shell_completion import get_completion_class
from typing_extensions import override

from supervisor import __version__
from supervisor.cli.options import EXIT_INTERRUPTED, fail
from supervisor.cli.unknown_words import KindGroup
from supervisor.cli.usage_errors import refuse_usage

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("run_command", "Run a script to its end, in the foreground."),
    "submit": ("job_commands", "Hand a script to the daemon of this box."),
    "status": ("status_commands", "Show every job and where it is."),
    "logs": ("logs_command", "Print what a job printed."),
    "incidents": (
        "status_commands",
        "List what went wrong, and what was done about it.",
    ),
    "explain": ("status_commands", "Explain one incident in plain words."),
    "history": ("history_command", "List all runs: when, how long, what they took."),
    "report": ("report_command", "Write a page about a job, or about an incident."),
    "ui": ("ui_command", "Show jobs, incidents and GPUs in a browser."),
    "snapshots": (
        "snapshot_commands",
        "List, verify and export the snapshots of a job.",
    ),
    "notify": (
        "notify_command",
        "Say who is told of a run; try whether it reaches them.",
    ),
    "memory": ("memory_command", "Show who holds the memory of a job."),
    "gpu": (
        "gpu_command",
        "Show the GPUs of this box: who has them, and how they are.",
    ),
    "policy": ("policy_commands", "Show what is done about each cause."),
    "quarantine": (
        "policy_commands",
        "List the GPUs that are kept out of use, or return one.",
    ),
    "diagnose": ("diagnose_command", "Name the cause of the failure that a log shows."),
    "stop": ("job_commands", "End a job at its newest snapshot."),
    "start": ("job_commands", "Let a job go on that has ended."),
    "restart": ("job_commands", "Drain a job and let it go on in a new process."),
    "drain": ("job_commands", "Save the state of a job, or of all, and end it."),
    "forget": ("forget_command", "Take a job that has ended off the list."),
    "pause": ("job_commands", "Start nothing more on this box."),
    "resume": ("job_commands", "Start jobs again."),
    "estimate": (
        "estimate_command",
        "Say what training a script would need of memory.",
    ),
    "advise": (
        "advise_command",
        "Try what would make a script need less, or go faster.",
    ),
    "certify": (
        "certify_command",
        "Try whether a script ends as if it had never been killed.",
    ),
    "top": ("top_command", "Watch all jobs live."),
    "check": ("check_command", "Is this machine fit for training?"),
    "ledger": ("ledger_commands", "Copy the ledger while it is in use."),
    "daemon": ("daemon_command", "Run the daemon of this box."),
    "enable-user": (
        "enable_user_command",
        "Give a user of this box a place for jobs.",
    ),
}
"""Name → module of ``supervisor.cli.commands`` that has it, and what the list says of it."""


REFUSALS = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP}
"""What a path may meet wherever it is used."""


class Commands(KindGroup):
    """Imports a command when it is asked for."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(
            f"supervisor.cli.commands.{COMMANDS[cmd_name][0]}"
        )
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
    """Do what the command line asks for (``entry.main`` has looked around first)."""
    _refuse_other_shells()
    try:
        code = trainwarden.main(standalone_mode=False)
    except click.ClickException as error:
        refuse_usage(error)
        code = error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        code = EXIT_INTERRUPTED
    except FileNotFoundError:
        if _is_somewhere():
            raise
        fail("the directory that you are in is gone: change to one that exists")
    except OSError as error:
        if (sentence := _refused(error)) is None:
            raise
        fail(sentence, exit_code=1)
    raise SystemExit(code)


def _refused(error: OSError) -> str | None:
    """The sentence about what the machine refuses, whoever asked; None: it is a mistake of
    ours."""
    if error.errno == errno.ENOSPC and _was_echoed(error):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())  # what is left of the answer
        return "cannot write the answer to standard output: the disk is full"
    if error.filename is not None and error.errno in REFUSALS:
        return f"cannot use {error.filename}: {error.strerror}"
    return None


def _was_echoed(error: OSError) -> bool:
    """Whether it came of printing an answer; what else finds a disk full is named by who
    writes it."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code is click.echo.__code__ for frame, _ in frames)


def _refuse_other_shells() -> None:
    """Click ends without a word."""
    shell, _, wanted = os.environ.get("_TRAINWARDEN_COMPLETE", "").partition("_")
    if wanted == "source" and get_completion_class(shell) is None:
        fail(f"there is no completion for {shell}: bash, zsh and fish have one")


def _is_somewhere() -> bool:
    """Whether the working directory exists."""
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True
