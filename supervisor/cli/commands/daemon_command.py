"""``trainwarden daemon``: many jobs, on a box with or without systemd."""

from pathlib import Path

import click

from supervisor.cli.options import fail
from supervisor.core.jobs.config import Config, build_config
from supervisor.core.jobs.spec import SpecError
from supervisor.daemon.composition import DaemonError, composed
from supervisor.host.exporter.metrics_server import ServeError
from supervisor.host.ledger.ledger import LedgerError
from supervisor.host.service.gc_freeze import settle

DEFAULT = Path("/etc/trainwarden/trainwarden.toml")


@click.command()
@click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help=f"The configuration. Default: {DEFAULT}, if it is there.",
)
def daemon(*, file: Path | None) -> None:
    """Run the daemon of this box: jobs from jobs.d and from submit.

    Under systemd each attempt is a unit of its own; elsewhere it is a process that
    outlives the daemon. Ending the daemon never ends training: the next one goes on.

    \b
    Examples:
      trainwarden daemon --config trainwarden.toml
      trainwarden submit -- train.py --epochs 10
    """  # noqa: D301  # \b is click's mark, not a backslash
    config = configuration(file)
    try:
        with composed(config) as made:
            settle()
            made.run()
    except (DaemonError, LedgerError, ServeError) as error:
        fail(str(error), exit_code=1)
    except (FileExistsError, NotADirectoryError) as error:
        fail(
            f"the daemon cannot start: {error.filename} is no directory; name another as "
            "state_dir",
            exit_code=1,
        )
    except OSError as error:
        # What is written in pieces names no file: it lies in the state directory.
        where = error.filename or config.state_dir
        fail(
            f"the daemon cannot start: {error.strerror or error}: {where}", exit_code=1
        )


def configuration(file: Path | None) -> Config:
    """The configuration in ``file``, or the usual one; ends the command if it is bad."""
    path = DEFAULT if file is None else file
    try:
        return build_config(path.read_text())
    except FileNotFoundError:
        if file is None:
            return build_config("")
        fail(f"there is no configuration {path}")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read the configuration {path}: {error}")
    except SpecError as error:
        listed = "\n".join(f"  {problem}" for problem in error.problems)
        fail(f"the configuration {path} cannot be used:\n{listed}")
