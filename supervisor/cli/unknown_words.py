"""What is said of a command or an option that is none of ours: what was meant, most likely."""

import difflib
from collections.abc import Sequence
from pathlib import Path

import click
from typing_extensions import override

from supervisor.cli.options import fail

COMPLETION = 'eval "$(_TRAINWARDEN_COMPLETE=bash_source trainwarden)"'


class KindGroup(click.Group):
    """A group that says which command was meant."""

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


def _meant(path: str, name: str, known: Sequence[str]) -> str:
    if name.endswith(".py") or Path(name).is_file():
        return f"to run a script say `{path} run {name}`"
    if name == "completion":
        return f"for completion in bash say `{COMPLETION}`"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}`{path} --help` lists them"


class ScriptCommand(click.Command):
    """A command that takes a script and what is the script's."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            raise click.NoSuchOption(
                error.option_name,
                message=(
                    f"{error.message} Options of a script stand after the script: "
                    f"{ctx.command_path} SCRIPT {error.option_name}"
                ),
                ctx=ctx,
            ) from None
