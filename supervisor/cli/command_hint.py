"""A command that a person is told to run, as it works when it is pasted."""

import shlex

import click
from click.core import ParameterSource

GIVEN = {ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT}


def command_hint(*words: str) -> str:
    """``trainwarden WORDS``, with the state directory where somebody named one: by an
    option, or in the environment, which the shell that it is pasted into may not have."""
    context = click.get_current_context(silent=True)
    named = context is not None and context.get_parameter_source("state_dir") in GIVEN
    place = [] if context is None or not named else _option(context)
    return " ".join(["trainwarden", *words, *place])


def _option(context: click.Context) -> list[str]:
    return ["--state-dir", shlex.quote(str(context.params["state_dir"]))]
