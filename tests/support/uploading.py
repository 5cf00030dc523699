"""The uploader of a run, in a process of its own as ``run`` starts it."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping
from pathlib import Path

from supervisor.core.jobs.remote.remote_tier import chains
from supervisor.host.remote.remote_job import RemoteJob
from supervisor.host.remote.remote_records import UploadProgress
from supervisor.host.remote.remote_store import open_store
from supervisor.host.remote.snapshot_uploader import RunNews
from supervisor.wire.files import read_json
from supervisor.wire.paths import RunPaths
from tests.support.remote_tiers import RUN_ID, same_files, upload_request

PATIENCE = 120.0


@contextlib.contextmanager
def uploading(
    run: RunPaths,
    address: str,
    *,
    environment: Mapping[str, str] | None = None,
    number: int = 1,
    part_bytes: int = 1000,
    **more: int,
) -> Generator[subprocess.Popen[bytes]]:
    """It runs until the end, if it does not end before."""
    request = upload_request(run, address, number=number, part_bytes=part_bytes, **more)
    process = subprocess.Popen(
        [
            sys.executable, "-I", "-m", "supervisor.host.remote.snapshot_uploader",
            str(request),
        ],
        stdin=subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE)
        if process.stdin is not None:
            process.stdin.close()


def tell(process: subprocess.Popen[bytes], state: str, *, ended: bool) -> None:
    """As the supervisor does."""
    assert process.stdin is not None
    news = RunNews(state=state, ended=ended)
    process.stdin.write(json.dumps(news.to_json()).encode() + b"\n")
    process.stdin.flush()


def progress_of(run: RunPaths) -> UploadProgress | None:
    """What it has told."""
    value = read_json(run.remote_progress)
    return None if value is None else UploadProgress.from_json(value)


def until(run: RunPaths, **wanted: object) -> UploadProgress:
    """Wait until it tells these."""
    ends = time.monotonic() + PATIENCE
    while True:
        told = progress_of(run)
        if told is not None and all(getattr(told, k) == v for k, v in wanted.items()):
            return told
        assert time.monotonic() < ends, told
        time.sleep(0.02)


def consistent(run: RunPaths, address: str, target: Path) -> int | None:
    """The step that a new machine goes on from, fetched and the same to the byte as on
    disk; None: it finds nothing. Fails where what counts as whole is not."""
    job = RemoteJob(open_store(address, below="train"), "train")
    found = chains(job.sealed(job.standing(), run_id=RUN_ID))
    if not found:
        return None
    for one in found[0].all:
        fetched = job.fetch(one, target)
        assert same_files(fetched, run.snapshots / one.name.local)
    return found[0].newest.facts.step
