"""The command ``trainwarden``."""

from importlib import metadata

import click

from supervisor import __version__
from supervisor.cli.collision import conflicting_distribution
from supervisor.cli.diagnose import diagnose
from supervisor.cli.memory import memory
from supervisor.cli.options import fail
from supervisor.cli.policy import policy, quarantine
from supervisor.cli.records import explain, incidents, status
from supervisor.cli.run import run
from supervisor.cli.snapshots import snapshots


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="trainwarden")
def trainwarden() -> None:
    """A training run ends as if it never crashed, and tells you why it did."""


for command in (
    run,
    status,
    incidents,
    explain,
    diagnose,
    snapshots,
    memory,
    policy,
    quarantine,
):
    trainwarden.add_command(command)


def main() -> None:
    """Entry point of the ``trainwarden`` command."""
    conflict = conflicting_distribution(_installed("supervisor"))
    if conflict is not None:
        fail(conflict)
    trainwarden()


def _installed(name: str) -> list[str]:
    """``name``, if a distribution of that name is installed."""
    try:
        return [metadata.distribution(name).name]
    except metadata.PackageNotFoundError:
        return []
