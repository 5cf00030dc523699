"""``snapshots``: list a job's snapshots, verify them, hand one to ordinary Keras."""

import os
from dataclasses import asdict
from pathlib import Path

import click

from supervisor.cli.command_hint import command_hint
from supervisor.cli.options import fail, json_option, show
from supervisor.cli.sources.daemon_client import box_option
from supervisor.cli.sources.job_lookup import files_of, refuse_as_root
from supervisor.core.text.units import format_size, local_time
from supervisor.host.snapshots.snapshot_listing import (
    SnapshotRow,
    at_rest,
    damage,
    export,
    list_snapshots,
)
from supervisor.runtime.recording.job_locator import JobFiles
from supervisor.wire.snapshots.manifest import DURABLE

EXIT_DAMAGED = 1
NONE = "no snapshots"
SUFFIXES = (".keras", ".weights.h5")


@click.command()
@json_option
@box_option
@click.argument("words", nargs=-1, metavar="[verify|export] JOB [STEP FILE]")
def snapshots(*, as_json: bool, state_dir: Path | None, words: tuple[str, ...]) -> None:
    """List the snapshots of JOB in memory and on disk.

    \b
      trainwarden snapshots JOB                     list them
      trainwarden snapshots verify JOB              check the hash of every byte
      trainwarden snapshots export JOB STEP FILE    FILE: *.keras or *.weights.h5

    verify ends with 1 if one is damaged.

    Example: trainwarden snapshots export digits 1200 digits.keras
    """  # noqa: D301  # \b is click's mark, not a backslash
    match words:
        case (job,):
            _list(files_of(state_dir, job), as_json=as_json)
        case ("verify", job):
            _verify(_rows(files_of(state_dir, job)), as_json=as_json)
        case ("export", job, step, file):
            number = _step(step, job)
            out = _checked(Path(file).absolute())
            _export(files_of(state_dir, job), step=number, out=out)
        case _:
            fail(
                "say `snapshots JOB`, `snapshots verify JOB` or"
                " `snapshots export JOB STEP FILE`"
            )


def _rows(files: JobFiles) -> list[SnapshotRow]:
    return list_snapshots(files.paths.snapshots, files.memory)


def _list(files: JobFiles, *, as_json: bool) -> None:
    """With the directories in which they lie, which people copy, or look into."""
    rows = _rows(files)
    lines = [_line(row) for row in rows] or [NONE]
    if files.memory is not None:
        lines.append(f"in memory: {files.memory}")
    lines.append(f"on disk: {files.paths.snapshots}")
    show([asdict(row) for row in rows], lines, as_json=as_json)


def _line(row: SnapshotRow) -> str:
    if row.bytes is None or row.at is None:
        return f"{row.snapshot}  {row.tier:8}its manifest cannot be read"
    size = format_size(row.bytes)
    where = f"end of fit {row.fit}" if row.fit_done else f"epoch {row.epoch} (from 0)"
    return (
        f"{row.snapshot}  {row.tier:8}step {row.step}, {where},"
        f" attempt {row.attempt}, {size}, {local_time(row.at)}"
    )


def _verify(rows: list[SnapshotRow], *, as_json: bool) -> None:
    found = [(row, damage(row)) for row in rows]
    shape = [
        {"snapshot": r.snapshot, "tier": r.tier, "whole": not why, "because": why}
        for r, why in found
    ]
    lines = [f"{row.snapshot}  {row.tier:8}{why or 'whole'}" for row, why in found]
    show(shape, lines or [NONE], as_json=as_json)
    if any(why for _, why in found):
        raise SystemExit(EXIT_DAMAGED)


def _step(text: str, job: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 19:
        return int(text)
    return fail(
        f"STEP is the number of a step, as `{command_hint('snapshots', job)}` lists them; got "
        f"{text!r}"
    )


def _checked(out: Path) -> Path:
    if not out.name.endswith(SUFFIXES):
        fail(f"{out.name} should end in {' or '.join(SUFFIXES)}")
    if os.path.lexists(out):
        fail(f"{out} is there already: name another file, or remove it first")
    return out


def _export(files: JobFiles, *, step: int, out: Path) -> None:
    refuse_as_root(files, "run its interpreter")
    rows = _rows(files)
    of_step = [row for row in rows if row.step == step]
    if not of_step:
        steps = ", ".join(str(row.step) for row in rows) or "none"
        fail(f"{files.job!r} has no snapshot of step {step}; there are: {steps}")
    # The one on disk if there is one: training does not write over it.
    chosen = min(of_step, key=lambda row: row.tier != DURABLE)
    try:
        with at_rest(chosen) as snapshot:
            problem = export(snapshot, out, python=files.spec.get("python"))
    except OSError as error:
        problem = f"the snapshot {chosen.snapshot} cannot be read: {error.strerror}"
    if problem is not None:
        fail(problem, exit_code=1)
    click.echo(f"{out}: {files.job} after step {step}")
