"""Snapshots on disk, and a remote tier that they are sent to."""

import os
from pathlib import Path

from supervisor.core.jobs.remote.remote_tier import Claim
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.remote.remote_records import FORMAT as RECORDS
from supervisor.host.remote.remote_records import ClaimRecord
from supervisor.host.remote.snapshot_uploader import UploadRequest
from supervisor.wire.files import write_json
from supervisor.wire.paths import RunPaths
from supervisor.wire.snapshots.manifest import FORMAT, MANIFEST, TENSORS, Manifest
from supervisor.wire.snapshots.seal import hash_of, sealed

RUN_ID = "5599fe7fa71649878701f9e51de39f44"
TOKEN = "0123456789abcdef"  # noqa: S105  # of a claim


def write_snapshot(
    directory: Path,
    *,
    step: int,
    serial: int,
    size: int = 1000,
    fit: int = 0,
    fit_done: bool = False,
    job: str = "train",
) -> Path:
    """A snapshot of random tensors in ``directory``."""
    path = directory / f"{step:012d}-{serial:06d}"
    partial = path.with_name(f"{path.name}.partial")
    partial.mkdir(parents=True)
    content = os.urandom(size)
    manifest = Manifest(
        format=FORMAT, job=job, attempt=1, serial=serial, step=step, fit=fit,
        fit_done=fit_done, epoch=0, step_in_epoch=step, batch=8, samples=8 * step,
        slices=1, tensors_bytes=size, tensors_hash=hash_of(content), wall_time=1.0,
        state={},
    )  # fmt: skip
    (partial / TENSORS).write_bytes(content)
    (partial / MANIFEST).write_bytes(sealed(manifest))
    return partial.rename(path)


def same_files(one: Path, other: Path) -> bool:
    """Whether two snapshots are the same to the byte."""
    return all(
        (one / name).read_bytes() == (other / name).read_bytes()
        for name in (MANIFEST, TENSORS)
    )


def claim_record(host: object = "first", **changes: object) -> ClaimRecord:
    """Of a run of the job ``train``."""
    known: dict[str, object] = {
        "format": RECORDS, "job": "train", "run_id": RUN_ID, "seed": 7,
        "script_hash": "", "state": "running", "host": host, "version": "0",
        "claimed_at": 1.0, "told_at": 1.0, "overrides": None,
    }  # fmt: skip
    record = ClaimRecord.from_json({**known, **changes})
    assert record is not None
    return record


def upload_request(
    run: RunPaths, address: str, *, number: int = 1, part_bytes: int = 1000, **more: int
) -> Path:
    """A file that asks for the uploads of a run."""
    request = UploadRequest(
        address=address,
        claim=Claim(number, TOKEN).name,
        run=str(run.root),
        record=claim_record().to_json(),
        part_bytes=part_bytes,
        boot_id=boot_id(),
        **more,
    )
    path = run.root / "request.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, request.to_json())
    return path
