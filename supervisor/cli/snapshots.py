"""``snapshots``: list a job's snapshots, verify them, hand one to ordinary Keras."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from supervisor.cli.options import fail, json_option, state_option
from supervisor.cli.records import reading
from supervisor.core.units import format_size
from supervisor.host.ledger import RunRow
from supervisor.host.snapshots import (
    SnapshotRow,
    at_rest,
    damage,
    export,
    list_snapshots,
)
from supervisor.host.status import paths_of
from supervisor.wire.manifest import DURABLE
from supervisor.wire.paths import StatePaths, memory_directory

EXIT_DAMAGED = 1
SUFFIXES = (".keras", ".weights.h5")


@click.command()
@json_option
@state_option
@click.argument("words", nargs=-1, metavar="[verify|export] JOB [STEP FILE]")
def snapshots(*, as_json: bool, state_dir: Path, words: tuple[str, ...]) -> None:
    r"""List the snapshots of JOB in memory and on disk.

    \b
      trainwarden snapshots JOB                     list them
      trainwarden snapshots verify JOB              check the hash of every byte
      trainwarden snapshots export JOB STEP FILE    FILE: *.keras or *.weights.h5

    verify ends with 1 if one is damaged.

    Example: trainwarden snapshots export digits 1200 digits.keras
    """
    match words:
        case (job,):
            _list(_found(state_dir, job)[1], as_json=as_json)
        case ("verify", job):
            _verify(_found(state_dir, job)[1], as_json=as_json)
        case ("export", job, step, file) if step.isdigit():
            run, rows = _found(state_dir, job)
            _export(run, rows, step=int(step), out=Path(file).absolute())
        case _:
            fail(
                "say `snapshots JOB`, `snapshots verify JOB` or"
                " `snapshots export JOB STEP FILE`"
            )


def _found(state_dir: Path, job: str) -> tuple[RunRow, list[SnapshotRow]]:
    paths = StatePaths(state_dir.absolute())
    with reading(paths) as ledger:
        run = None if ledger is None else ledger.latest_run(job)
    if run is None:
        fail(f"there is no job {job!r} in {state_dir}; see `trainwarden status`")
    durable = paths_of(run, paths).snapshots
    return run, list_snapshots(durable, _memory_of(run))


def _memory_of(run: RunRow) -> Path | None:
    """Where the spec that the run began with puts its memory tier."""
    parent = run.spec.get("snapshots", {}).get("memory")
    return memory_directory(Path(parent), run.run_id) if parent else None


def _list(rows: list[SnapshotRow], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
        return
    if not rows:
        click.echo("no snapshots")
    for row in rows:
        click.echo(_line(row))


def _line(row: SnapshotRow) -> str:
    if row.bytes is None:
        return f"{row.snapshot}  {row.tier:8}its manifest cannot be read"
    size = format_size(row.bytes)
    where = f"end of fit {row.fit}" if row.fit_done else f"epoch {row.epoch} (from 0)"
    return (
        f"{row.snapshot}  {row.tier:8}step {row.step}, {where},"
        f" attempt {row.attempt}, {size}, {row.at}"
    )


def _verify(rows: list[SnapshotRow], *, as_json: bool) -> None:
    found = [(row, damage(row)) for row in rows]
    if as_json:
        shape = [
            {"snapshot": r.snapshot, "tier": r.tier, "whole": not why, "because": why}
            for r, why in found
        ]
        click.echo(json.dumps(shape, indent=2))
    for row, why in [] if as_json else found:
        click.echo(f"{row.snapshot}  {row.tier:8}{why or 'whole'}")
    if not found and not as_json:
        click.echo("no snapshots")
    if any(why for _, why in found):
        raise SystemExit(EXIT_DAMAGED)


def _export(run: RunRow, rows: list[SnapshotRow], *, step: int, out: Path) -> None:
    if not out.name.endswith(SUFFIXES):
        fail(f"{out.name} should end in {' or '.join(SUFFIXES)}")
    of_step = [row for row in rows if row.step == step]
    if not of_step:
        steps = ", ".join(str(row.step) for row in rows) or "none"
        fail(f"{run.job!r} has no snapshot of step {step}; there are: {steps}")
    # The one on disk if there is one: training does not write over it.
    chosen = min(of_step, key=lambda row: row.tier != DURABLE)
    try:
        with at_rest(chosen) as snapshot:
            problem = export(snapshot, out, python=run.spec.get("python"))
    except OSError as error:
        problem = f"the snapshot {chosen.snapshot} cannot be read: {error.strerror}"
    if problem is not None:
        fail(problem, exit_code=1)
    click.echo(f"{out}: {run.job} after step {step}")
