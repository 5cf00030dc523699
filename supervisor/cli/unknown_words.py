"""What is said of a command that is none of ours: what was meant, most likely."""

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from typing_extensions import override

from supervisor.cli.options import fail

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
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}`{path} --help` lists them"
