"""``trainwarden run``: one script, in the foreground, to its end."""

from pathlib import Path

import click

from supervisor.cli.foreground.dry_run import tell_plan
from supervisor.cli.foreground.foreground_run import (
    ENDING_SECONDS,
    ForegroundRun,
    check_gpu_count,
    check_host_limit,
    job_of,
    locked_state,
    observing_machine,
)
from supervisor.cli.foreground.termination import Termination
from supervisor.cli.options import fail, json_option, state_option
from supervisor.cli.spec_options import (
    accept_changes_option,
    args_argument,
    asked_script,
    cpu_memory_option,
    env_option,
    environment_of,
    gpu_list,
    gpus_option,
    module_option,
    name_option,
    python_option,
    read_spec,
    script_argument,
    spec_option,
    stands_too_late,
)
from supervisor.cli.views.run_surface import Surface
from supervisor.runtime.run_setup import ResumeOptions
from supervisor.wire.paths import StatePaths


@click.command(context_settings={"allow_interspersed_args": False})
@name_option
@state_option
@json_option
@module_option
@python_option
@env_option
@cpu_memory_option
@gpus_option
@click.option(
    "--snapshot-every",
    metavar="30s|200steps",
    help="Interval of snapshots. Default: planned from what one costs.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT|off",
    help="Serve /metrics for Prometheus there. Default: off.",
)
@spec_option
@click.option(
    "--fresh", is_flag=True, help="Begin anew; earlier snapshots are deleted."
)
@accept_changes_option
@click.option(
    "-q", "--quiet", is_flag=True, help="Of what we have to say only what is wrong."
)
@click.option(
    "--no-output", is_flag=True, help="Do not show what the script prints: see its log."
)
@click.option(
    "--requeued",
    is_flag=True,
    help="A scheduler starts it again, no person: a run that finished stays so, one that "
    "still ends is waited for, and an edited script goes on as it was.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would be done and what stands against it; start nothing.",
)
@script_argument
@args_argument
def run(
    *,
    name: str | None,
    state_dir: Path,
    as_json: bool,
    module: bool,
    python: str | None,
    variables: tuple[str, ...],
    cpu_memory: str | None,
    gpus: str | None,
    snapshot_every: str | None,
    metrics: str | None,
    spec_file: Path | None,
    fresh: bool,
    accept_changes: bool,
    quiet: bool,
    no_output: bool,
    requeued: bool,
    dry_run: bool,
    script: str | None,
    args: tuple[str, ...],
) -> None:
    """Run SCRIPT to its end, through crashes.

    The script needs no change. After a crash the cause is named, a remedy chosen, and
    training goes on from the newest snapshot. SIGTERM or Ctrl-C saves a snapshot and
    ends with 75; the same command resumes.

    What the script prints is shown as it comes. Where standard output is no terminal, it
    gets that alone, byte for byte, and our own lines go to standard error.

    \b
    Examples:
      trainwarden run train.py --epochs 10
      trainwarden run -m package.train --epochs 10
      trainwarden run --python /srv/venv/bin/python --env SEED=7 train.py
      trainwarden run --spec job.toml
    """  # noqa: D301  # \b is click's mark, not a backslash
    if fresh and requeued:
        fail("--fresh would throw away what a requeued run goes on from: choose one")
    termination = Termination()
    termination.listen()
    _, spec = read_spec(
        spec_file,
        {
            "name": name,
            **asked_script(script, args, module=module),
            "python": python,
            "environment": environment_of(variables),
            "gpus": None if gpus is None else gpu_list(gpus),
            "memory": {"cpu": cpu_memory},
            "snapshots": {"every": snapshot_every},
            "metrics": {"listen": metrics},
        },
    )
    if (late := stands_too_late(args)) is not None and not quiet:
        click.echo(f"trainwarden: {late}", err=True)
    job = job_of(spec)
    check_gpu_count(job.spec)
    check_host_limit(job.spec)
    choice = ResumeOptions(
        fresh=fresh, accept_changes=accept_changes, person=not requeued
    )
    paths = StatePaths(state_dir.absolute())
    if dry_run:
        raise SystemExit(tell_plan(job, paths, choice, as_json=as_json))
    patience = spec.drain.grace + ENDING_SECONDS if requeued else None
    surface = Surface(quiet=quiet, output=not no_output, as_json=as_json)
    with (
        surface.console() as console,
        locked_state(paths, job.name, patience=patience),
        observing_machine(job.spec, paths) as observer,
    ):
        code = ForegroundRun(
            job=job,
            paths=paths,
            choice=choice,
            observer=observer,
            surface=surface,
            console=console,
            termination=termination,
        ).run()
        termination.over()
        raise SystemExit(code)
