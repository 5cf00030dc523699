"""``trainwarden check``: is this machine fit for training?"""

import json
from dataclasses import asdict
from pathlib import Path

import click

from supervisor.cli.options import json_option, state_option
from supervisor.host.doctor import Finding, Level, examine


@click.command()
@json_option
@state_option
def check(*, as_json: bool, state_dir: Path) -> None:
    """Look at this machine: each line is OK, a warning or a problem with its fix.

    Ends with 1 if there is a problem.

    Example: trainwarden check
    """
    found = examine(state_dir.absolute())
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=2))
    for one in [] if as_json else found:
        click.echo(line(one))
    if any(one.level is Level.PROBLEM for one in found):
        raise SystemExit(1)


def line(found: Finding) -> str:
    """A finding for a person."""
    fix = f"\n           → {found.fix}" if found.fix else ""
    return f"{found.level:8} {found.about}: {found.text}{fix}"
