"""``trainwarden check``: is this machine fit for training?"""

import sys
from dataclasses import asdict
from pathlib import Path

import click

from supervisor.cli.foreground.foreground_run import job_of
from supervisor.cli.options import json_option, show, state_option
from supervisor.cli.script_lookup import active_python, checked_python
from supervisor.cli.spec_options import read_spec
from supervisor.core.jobs.spec import DrainSpec
from supervisor.host.doctor.finding import Finding, FindingLevel
from supervisor.host.doctor.machine_checks import examine

WIDTH = max(len(level) for level in FindingLevel)


@click.command()
@json_option
@state_option
@click.option(
    "--python",
    help="The interpreter of jobs, whose TensorFlow is looked at. Default: that of "
    "your virtual environment, else ours.",
)
@click.option(
    "--spec",
    "spec_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="A spec: its script, interpreter and GPUs are looked at as run would, and its "
    "drain.grace is compared with the patience of Slurm.",
)
def check(
    *, as_json: bool, state_dir: Path, python: str | None, spec_file: Path | None
) -> None:
    """Look at this machine: each line is OK, a warning, a problem with its fix, or says
    why something was not checked.

    Ends with 1 if there is a problem. In a Slurm job it looks at Slurm, too.

    \b
    Examples:
      trainwarden check
      trainwarden check --python /srv/venv/bin/python
    """  # noqa: D301  # \b is click's mark, not a backslash
    if python is not None:
        checked_python(python, Path.cwd())
    spec = None if spec_file is None else job_of(read_spec(spec_file, {})[1]).spec
    asked = python or (active_python() if spec is None else spec.python)
    grace = DrainSpec().grace if spec is None else spec.drain.grace
    found = examine(
        state_dir.absolute(), python=str(asked or sys.executable), grace=grace
    )
    show([asdict(one) for one in found], map(line, found), as_json=as_json)
    if any(one.level is FindingLevel.PROBLEM for one in found):
        raise SystemExit(1)


def line(found: Finding) -> str:
    """A finding for a person."""
    fix = f"\n{'':{WIDTH}} → {found.fix}" if found.fix else ""
    return f"{found.level:{WIDTH}} {found.about}: {found.text}{fix}"
