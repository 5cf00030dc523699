"""What is said of a command that is none of ours: what was meant, most likely."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from supervisor.cli.options import fail

LIKE = 0.75
"""How like a command a word must be to be meant as it, from 0 to 1, where it begins with
another letter: ``rnu`` is ``run``, ``bogus`` is not ``logs``."""
COMPLETION = 'eval "$(_TRAINWARDEN_COMPLETE=bash_source trainwarden)"'


class KindGroup(click.Group):
    """A group that says which command was meant, and of which one an error is."""

    @override
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = name.startswith("-") or self.get_command(ctx, name) is not None
        if not known and not ctx.resilient_parsing:
            named = self.list_commands(ctx)
            fail(
                f"there is no command {name!r}: {_meant(ctx.command_path, name, named)}"
            )
        return super().resolve_command(ctx, args)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            name = ctx.invoked_subcommand
            command = None if name is None else self.get_command(ctx, name)
            if error.ctx is None and command is not None:
                # click's parser leaves it out of some
                error.ctx = click.Context(command, parent=ctx, info_name=name)
            raise


def _meant(path: str, name: str, known: Sequence[str]) -> str:
    if name.endswith(".py") or Path(name).is_file():
        return f"to run a script say `{path} run {name}`"
    if name == "completion":
        return f"for completion in bash say `{COMPLETION}`"
    near = _nearest(name, known)
    hint = f"did you mean {near!r}? " if near is not None else ""
    return f"{hint}`{path} --help` lists them"


def _nearest(name: str, known: Sequence[str]) -> str | None:
    """The command that was meant; None: none is like it."""
    close = difflib.get_close_matches(name, known, n=3)
    surely = difflib.get_close_matches(name, known, n=1, cutoff=LIKE)
    same = [one for one in close if one[0] == name[0]]
    return next(iter([*surely, *same]), None)
