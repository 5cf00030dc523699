"""The place of a job's files, for who reads them with rights of their own."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.runtime.status_builder import paths_of
from supervisor.wire.paths import RunPaths, StatePaths, memory_directory


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFiles:
    """The newest run of a job, in the shape that the control interface tells it."""

    job: str
    run_id: str
    directory: str
    """Of the run: ``wire.paths.RunPaths``."""
    attempt: int
    """The number of the newest attempt; 0: there has been none."""
    spec: dict[str, Any]
    """What the run goes by, with all that was left to us filled in."""
    device_peak_bytes: int | None = None
    """Of all attempts, as ``history`` tells it."""
    device_limit_bytes: int | None = None
    """What the allocator had to keep to there."""
    script: str = ""
    """Its absolute path; empty: an older daemon does not tell it."""
    by_daemon: bool = False
    """Whether a daemon looks after the job."""

    @property
    def paths(self) -> RunPaths:
        """What lies where in ``directory``."""
        return RunPaths(Path(self.directory))

    @property
    def memory(self) -> Path | None:
        """Its tier in memory; None: it has none."""
        parent = self.spec.get("snapshots", {}).get("memory")
        return memory_directory(Path(parent), self.run_id) if parent else None

    @property
    def base(self) -> str | None:
        """Where the run worked, and relative paths of its spec begin; None: nobody wrote
        that down."""
        named = str(self.spec.get("script", ""))
        directory = str(self.spec.get("working_directory") or "")
        if directory.startswith("/"):
            return directory
        below = "/" + os.path.normpath(Path(directory, named))
        if named.startswith("/") or not self.script.endswith(below):
            return None  # the script lies elsewhere, or behind a link
        return os.path.normpath(f"{self.script.removesuffix(below)}/{directory}")


def job_files(ledger: Ledger, job: str, paths: StatePaths) -> JobFiles | None:
    """Of the newest run of ``job``; None: it has had none. Raises LedgerError.

    ``paths``: the state directory of the ledger.
    """
    run = ledger.latest_run(job)
    if run is None:
        return None
    attempts = ledger.attempts(run.id)
    peak, limit = RunArchive(ledger).device_peak(run.id)
    return JobFiles(
        job=job,
        run_id=run.run_id,
        directory=str(paths_of(run, paths).root),
        attempt=attempts[-1].number if attempts else 0,
        spec=run.spec,
        device_peak_bytes=peak,
        device_limit_bytes=limit,
        script=run.script,
        by_daemon=JobBook(ledger).knows(job),
    )
