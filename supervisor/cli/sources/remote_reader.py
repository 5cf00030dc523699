"""``status --remote``: where runs stand, as their remote tier tells it, on any machine."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from supervisor.cli.options import fail, show
from supervisor.core.jobs.job_status import state_words
from supervisor.core.jobs.remote.remote_address import checked_address
from supervisor.core.jobs.remote.remote_tier import chains
from supervisor.core.text.units import local_time
from supervisor.host.remote.remote_job import RemoteJob, RemoteStoreError
from supervisor.host.remote.remote_store import MissingExtraError, open_store
from supervisor.runtime.remote_resume import newest_record

LATEST = datetime(9999, 12, 30, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteJobStatus:
    """One job in a remote tier, in the shape that ``status --remote --json`` prints.

    None: not known, or there is none.
    """

    job: str
    run: str
    state: str
    """As of the last word from ``host``: of a machine that was lost it stays."""
    host: str
    claims: int
    """How often a machine began or took over the runs of this name."""
    told_at: str
    """UTC, ISO 8601: of the last word, by that machine's clock."""
    step: int | None = None
    """Of the snapshot that a machine which starts now would go on from."""
    fit: int | None = None
    bytes: int | None = None
    at: str | None = None
    """When that snapshot was taken."""
    snapshots: int = 0
    """That are whole, by name and size of their parts."""


def show_remote(address: str, job: str | None, *, as_json: bool) -> None:
    """Print what lies at ``address``; ends the command where it cannot be read."""
    try:
        found = list(_statuses(checked_address(address), job))
    except ValueError as error:
        fail(f"--remote: {error}")
    except MissingExtraError as error:
        fail(str(error))
    except RemoteStoreError as error:
        fail(f"cannot read the remote tier: {error}", exit_code=1)
    if job is not None and not found:
        fail(f"there is no job {job!r} in {address}")
    lines = [_line(one) for one in found] or [f"no job has been sent to {address} yet"]
    show([asdict(one) for one in found], lines, as_json=as_json)


def _statuses(address: str, job: str | None) -> Iterator[RemoteJobStatus]:
    names = open_store(address).directories() if job is None else [job]
    for name in names:
        found = _status(RemoteJob(open_store(address, below=name), name))
        if found is not None:
            yield found


def _status(remote: RemoteJob) -> RemoteJobStatus | None:
    standing = remote.standing()
    record = newest_record(remote, standing)
    if record is None:
        return None
    sealed = remote.sealed(standing, run_id=record.run_id)
    best = next(iter(chains(sealed)), None)
    seal = None if best is None else remote.seal(best.newest.name)
    highest = standing.highest
    return RemoteJobStatus(
        job=record.job,
        run=record.run_id,
        state=record.state,
        host=record.host,
        claims=0 if highest is None else highest.number,
        told_at=_utc(record.told_at),
        step=None if seal is None else seal.step,
        fit=None if seal is None else seal.fit,
        bytes=None if seal is None else sum(seal.parts.values()),
        at=None if seal is None else _utc(seal.wall_time),
        snapshots=len(sealed),
    )


def _utc(seconds: float) -> str:
    """Of another machine's clock, or of a damaged record: any number is some time."""
    known = 0.0 if math.isnan(seconds) else min(max(seconds, 0.0), LATEST)
    return datetime.fromtimestamp(known, UTC).isoformat(timespec="seconds")


def _line(one: RemoteJobStatus) -> str:
    where = "no whole snapshot yet"
    if one.step is not None and one.bytes is not None and one.at is not None:
        size = f"{one.bytes / 2**20:.1f} MiB"
        where = f"step {one.step} ({size}, taken {local_time(one.at)}, {one.snapshots} there)"
    told = f"{state_words(one.state)} on {one.host} as of {local_time(one.told_at)}"
    return f"{one.job} · {told} · {where}"
