"""What is told of runs, by the daemon or by the files of a state directory."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from supervisor.cli.sources.daemon_client import asking, directory_of
from supervisor.cli.sources.ledger_reader import reading
from supervisor.core.jobs.accounting.run_summary import RunSummary
from supervisor.core.jobs.job_status import JobState
from supervisor.host.control.control_client import Client
from supervisor.host.service.clock import Clock
from supervisor.runtime.recording.run_history import by_lock, summaries
from supervisor.wire.paths import StatePaths


def told_history(client: Client | None, state_dir: Path | None) -> list[RunSummary]:
    """All runs, the oldest first."""
    if client is not None:
        with asking():
            return [summary_of(one) for one in client.get("/v1/history")]
    paths = StatePaths(directory_of(state_dir).absolute())
    with reading(paths) as ledger:
        if ledger is None:
            return []
        return summaries(ledger, by_lock(paths), now=Clock().wall())


def summary_of(value: Mapping[str, Any]) -> RunSummary:
    """A run as a daemon tells it; keys of a newer one are left out."""
    names = {one.name for one in fields(RunSummary)}
    known: dict[str, Any] = {n: one for n, one in value.items() if n in names}
    known["state"] = JobState(value["state"])
    return RunSummary(**known)
