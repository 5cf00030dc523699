"""A command that a person is told to run, as it works when it is pasted."""

import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from click.core import ParameterSource

from supervisor.core.text.placed_hints import with_place

GIVEN = {ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT}


def command_hint(*words: str) -> str:
    """``trainwarden WORDS``, with the state directory where somebody named one: by an
    option, or in the environment, which the shell that it is pasted into may not have."""
    return " ".join(["trainwarden", *words, *filter(None, [named_place()])])


def named_place() -> str:
    """The option that names the state directory of this command again; empty where nobody
    named one."""
    named = named_directory()
    return "" if named is None else f"--state-dir {shlex.quote(str(named))}"


def named_directory() -> Path | None:
    """The state directory that somebody named for this command; None: nobody did."""
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source("state_dir") not in GIVEN:
        return None
    return Path(context.params["state_dir"])


def placing() -> Callable[[str], str]:
    """``in_place`` for threads of this command, which do not know it."""
    return partial(with_place, place=named_place())


def in_place(text: str) -> str:
    """``text`` of the core or of a daemon, its suggested commands as they work here."""
    return with_place(text, named_place())
