"""``trainwarden forget``: take a job off the list."""

import json
import shlex
import shutil
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import click

from supervisor.cli.command_hint import command_hint
from supervisor.cli.commands.status_commands import stored_jobs
from supervisor.cli.completion import job_argument
from supervisor.cli.foreground.foreground_job import foreground_job
from supervisor.cli.options import fail, json_option
from supervisor.cli.sources.daemon_client import (
    answering,
    asking,
    box_option,
    directory_of,
)
from supervisor.cli.sources.job_lookup import (
    files_of,
    kept_of,
    never_begun,
    refuse_as_root,
)
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger, LedgerError
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import acquire
from supervisor.host.snapshots.snapshot_catalog import snapshot_directories
from supervisor.runtime.recording.job_locator import JobFiles
from supervisor.wire.paths import StatePaths


@click.command()
@box_option
@json_option
@click.option(
    "--snapshots",
    is_flag=True,
    help="Remove its snapshots and what XLA compiled, too.",
)
@job_argument
def forget(*, state_dir: Path | None, as_json: bool, snapshots: bool, job: str) -> None:
    """Take JOB off the list: its name is free for another one.

    It must not run. Its incidents stay in the ledger. Without --snapshots its snapshots
    stay, too, until a job of its name begins.

    Example: trainwarden forget digits --snapshots
    """
    running = foreground_job(state_dir, job)
    if running is not None:
        running.refuse("then it can be forgotten")
    begun = snapshots and not never_begun(state_dir, job)
    files = files_of(state_dir, job) if begun else None
    left = None if snapshots else kept_of(state_dir, job)
    if files is not None:
        refuse_as_root(files, "remove its snapshots")
    client = answering(state_dir)
    if client is None:
        _forget(StatePaths(directory_of(state_dir)), job)
    else:
        with asking():
            client.post(f"/v1/jobs/{quote(job)}/forget", {})
    if files is not None:
        _remove(files)
    told = {"job": job, "snapshots_removed": snapshots}
    told_left = "" if left is None else _left(left)
    click.echo(json.dumps(told) if as_json else f"{job}: forgotten{told_left}")


def _left(files: JobFiles) -> str:
    """Where the snapshots of a job lie that nobody finds by its name any more; empty: it
    had none, or they are not the caller's to see."""
    paths = files.paths
    tiers = [one for one in (files.memory, paths.snapshots) if one is not None]
    holding = [one for one in tiers if snapshot_directories(one)]
    if not holding:
        return ""
    kept = [*holding, *(one for one in (paths.compilations,) if one.is_dir())]
    return (
        f"; its snapshots stay in {' and '.join(map(str, holding))} until a new run of that"
        f" name begins: `rm -r {shlex.join(map(str, kept))}` removes them now"
    )


def _forget(paths: StatePaths, job: str) -> None:
    jobs = {one["job"]: one for one in stored_jobs(paths.root)}
    state = jobs.get(job)
    if state is None:
        fail(f"there is no job {job!r} in {paths.root}; see `{command_hint('status')}`")
    lock = paths.lock(job)
    lock.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    held = acquire(lock, supervises=False)  # ``stop`` must not end this
    if held is None or state["pid"] is not None:
        fail(f"{job} runs; end it first", exit_code=1)
    try:
        with closing(Ledger(paths.ledger)) as ledger, ledger.transaction():
            ledger.forget(job, now=Clock().wall())
            JobBook(ledger).forget(job)  # or the next daemon would begin it
    except LedgerError as error:
        fail(str(error), exit_code=1)
    finally:
        held.release()


def _remove(files: JobFiles) -> None:
    paths = files.paths
    for directory in (files.memory, paths.snapshots, paths.compilations):
        try:
            if directory is not None and directory.exists():
                shutil.rmtree(directory)
        except OSError as error:
            fail(
                f"what is kept in {directory} cannot be removed: {error.strerror}",
                exit_code=1,
            )
