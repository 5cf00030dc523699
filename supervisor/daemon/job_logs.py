"""Parts of what an attempt printed, for who may read it."""

import pwd
from dataclasses import dataclass

from supervisor.daemon.managed_job import ManagedJob, UnknownJobError
from supervisor.daemon.run_starter import RunStarter
from supervisor.host.ledger.ledger import RunRow
from supervisor.host.telemetry.log_parts import read_part
from supervisor.runtime.status_builder import paths_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """Some bytes of a log."""

    attempt: int
    offset: int
    """Where the next part begins."""
    content: bytes
    ended: bool
    """Nothing will follow: the attempt is over, or another one has begun."""


def log_part(
    starter: RunStarter, entry: ManagedJob, *, attempt: int | None, offset: int | None
) -> LogPart:
    """From ``offset`` on, or the end; of ``attempt``, or the newest.

    Raises:
        UnknownJobError: there is no such attempt.
    """
    run = starter.ledger.latest_run(entry.name)
    attempts = [] if run is None else list(starter.ledger.attempts(run.id))
    newest = attempts[-1].number if attempts else 0
    number = newest if attempt is None else attempt
    if run is None or not 1 <= number <= newest:
        which = "an attempt" if attempt is None else f"attempt {attempt}"
        message = f"{entry.name} has not had {which} yet"
        raise UnknownJobError(message)
    ended = attempts[-1].cause is not None or number < newest
    path = paths_of(run, starter.paths).attempt(number).output
    start, content = read_part(path, offset, owner=_owner(entry, run))
    return LogPart(
        attempt=number, offset=start + len(content), content=content, ended=ended
    )


def _owner(entry: ManagedJob, run: RunRow) -> int | None:
    """Whose the log has to be: their uid; None: it lies where only we can write."""
    if run.place is None:
        return None
    try:
        return pwd.getpwnam(entry.row.owner).pw_uid
    except KeyError:
        message = f"there is no user {entry.row.owner} any more"
        raise UnknownJobError(message) from None
