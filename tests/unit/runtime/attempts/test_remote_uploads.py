"""The uploads of a run, as whoever drives the run sees them."""

import contextlib
import time
from pathlib import Path

from supervisor.core.jobs.job_status import JobState
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.text.log_level import LogLevel
from supervisor.host.remote.remote_records import UploadProgress
from supervisor.host.remote.snapshot_uploader import UploadRequest
from supervisor.runtime.attempts.remote_uploads import RemoteUploads
from supervisor.wire.files import read_json, write_json
from supervisor.wire.paths import RunPaths
from tests.support.remote_tiers import upload_request


def uploads_of(run: RunPaths, said: list[str], *, number: int = 2) -> RemoteUploads:
    """With a directory for a tier."""
    bucket = run.root.parent / "bucket"
    bucket.mkdir(exist_ok=True)
    value = read_json(upload_request(run, f"file://{bucket}", number=number))
    request = None if value is None else UploadRequest.from_json(value)
    assert request is not None

    def say(text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        del level
        said.append(text)

    return RemoteUploads(request=request, paths=run, say=say)


def test_a_claim_that_was_taken_over_says_nothing_about_the_next(
    tmp_path: Path,
) -> None:
    """A machine that takes its run back sends again."""
    run, said = RunPaths(tmp_path / "run-1"), list[str]()
    run.root.mkdir()
    uploads = uploads_of(run, said)
    told = UploadProgress(
        address=uploads.request.address, claim="000001-0123456789abcdef",
        host="here", boot_id=uploads.request.boot_id,
    ).after(taken_by="vm-2")  # fmt: skip
    write_json(run.remote_progress, told.to_json())
    with contextlib.closing(uploads):
        uploads.look(JobState.RUNNING, NOTHING, now=time.monotonic())
        assert said == []
