"""The snapshots of a run in both tiers, for people: listed, verified, handed out."""

import shutil
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from supervisor.host.process.child_process import run_to_end
from supervisor.host.snapshots.snapshot_catalog import (
    age,
    read_manifest,
    snapshot_directories,
    verify,
)
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY

EXPORT = Path(__file__).resolve().parents[3] / "trainers" / "snapshots" / "export.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRow:
    """One snapshot in one tier, in the shape that ``snapshots --json`` prints.

    None: its manifest cannot be read.
    """

    snapshot: str
    tier: str
    step: int
    attempt: int | None = None
    fit: int | None = None
    fit_done: bool | None = None
    """It is the end of that call of ``fit``."""
    epoch: int | None = None
    step_in_epoch: int | None = None
    samples: int | None = None
    bytes: int | None = None
    at: str | None = None
    """UTC, ISO 8601."""
    path: str


def list_snapshots(durable: Path, memory: Path | None) -> list[SnapshotRow]:
    """Those of both tiers, the newest first, memory before disk."""
    found = [
        (path, tier)
        for tier, directory in ((MEMORY, memory), (DURABLE, durable))
        for path in (directory and snapshot_directories(directory)) or ()
    ]
    found.sort(key=lambda item: (age(item[0])[1], item[1] == MEMORY), reverse=True)
    return [_row(path, tier) for path, tier in found]


def _row(path: Path, tier: str) -> SnapshotRow:
    manifest = read_manifest(path)
    row = SnapshotRow(snapshot=path.name, tier=tier, path=str(path), step=age(path)[0])
    if manifest is None:
        return row
    return replace(
        row,
        step=manifest.step,
        attempt=manifest.attempt,
        fit=manifest.fit,
        fit_done=manifest.fit_done,
        epoch=manifest.epoch,
        step_in_epoch=manifest.step_in_epoch,
        samples=manifest.samples,
        bytes=manifest.tensors_bytes,
        at=datetime.fromtimestamp(manifest.wall_time, UTC).isoformat(),
    )


def damage(row: SnapshotRow) -> str | None:
    """What is wrong with a snapshot; None: nothing, or training has replaced it."""
    path = Path(row.path)
    problem = verify(path)
    # A slot in memory loses its name before it is written anew.
    return problem if path.is_dir() else None


@contextmanager
def at_rest(row: SnapshotRow) -> Generator[Path]:
    """A snapshot that nobody changes while it is read. Raises OSError."""
    path = Path(row.path)
    if row.tier == DURABLE:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="trainwarden-") as directory:
        yield Path(shutil.copytree(path, Path(directory) / path.name))


def export(snapshot: Path, out: Path, *, python: str | None) -> str | None:
    """Let the job's interpreter write ``snapshot`` to ``out``; why not, or None."""
    script = str(EXPORT)
    command = [python or sys.executable, script, str(snapshot), str(out)]
    try:
        done = run_to_end(command)
    except OSError as error:
        return f"cannot run {command[0]}: {error.strerror}"
    if done.returncode == 0:
        return None
    ended = f"{command[0]} ended with {done.returncode}"
    return (done.stderr.strip() or ended).splitlines()[-1]
