"""The look into the remote tier before a daemon's job begins: a process of its own.

``python -I -m supervisor.daemon.remote_arrival STATE JOB``, started by ``remote_transfers``. It
asks, claims and fetches, for as long as that takes, while the daemon's loop turns on. Nobody
else may run the job meanwhile: it holds the job's lock, also where its daemon is gone. What
came of it is printed as JSON (``ArrivalOutcome``).
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from uuid import uuid4

from supervisor.core.jobs.remote.remote_tier import next_claim
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import SpecError, build_spec
from supervisor.daemon.remote_transfers import ArrivalOutcome
from supervisor.daemon.run_starter import job_of
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger, LedgerError
from supervisor.host.remote.remote_store import MissingExtraError, RemoteStoreError
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import acquire
from supervisor.runtime.remote_resume import (
    RemoteArrival,
    RemoteUnreachableError,
    arrive,
)
from supervisor.runtime.run_setup import ResumeOptions, finished_before
from supervisor.wire.paths import StatePaths

NICE = 10


def look(paths: StatePaths, name: str) -> ArrivalOutcome:
    """Look into the tier of the job ``name``, as it stands in the ledger."""
    try:
        path = paths.lock(name)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = acquire(path)
        if lock is None:
            return ArrivalOutcome(later="another process supervises it")
        try:
            with contextlib.closing(Ledger(paths.ledger)) as ledger:
                return _looked(paths, name, ledger)
        finally:
            lock.release()
    except (StartRefusedError, MissingExtraError, SpecError) as error:
        return ArrivalOutcome(refused=str(error))
    except (RemoteUnreachableError, RemoteStoreError, LedgerError) as error:
        return ArrivalOutcome(later=str(error))
    except OSError as error:
        return ArrivalOutcome(later=f"{error.strerror}: {error.filename}")


def _looked(paths: StatePaths, name: str, ledger: Ledger) -> ArrivalOutcome:
    book = JobBook(ledger)
    row, tables = book.job(name), book.specs().get(name)
    if row is None or tables is None:
        return ArrivalOutcome(later="it is not in the ledger any more")
    job, choice = job_of(name, build_spec(tables)), ResumeOptions(fresh=row.fresh)
    over = finished_before(job, ledger)  # who submits it again means a new run
    arrival = arrive(job, paths, ledger, Clock(), choice)
    if arrival.host is not None and not over:
        message = (
            f"{name} has finished before, on {arrival.host}: `trainwarden start --fresh"
            f" {name}` begins it anew"
        )
        raise StartRefusedError(message)
    return ArrivalOutcome(
        claim=_claim_of(arrival),
        sentence=arrival.sentence,
        answered=arrival.remote is not None,
    )


def _claim_of(arrival: RemoteArrival) -> str:
    """Ours; of a new run the next one, which its uploader writes down before all else: a
    store that fails now does not keep training from its start."""
    if arrival.claim is not None:
        return arrival.claim.name
    assert arrival.remote is not None  # noqa: S101  # only a claim of before does without
    return next_claim(arrival.remote.standing().claims, uuid4().hex[:16]).name


def main(arguments: list[str]) -> None:
    """``STATE JOB``."""
    if len(arguments) != 2:
        sys.exit("usage: remote_arrival STATE JOB")
    os.nice(NICE)
    outcome = look(StatePaths(Path(arguments[0])), arguments[1])
    sys.stdout.write(json.dumps(outcome.to_json()))


if __name__ == "__main__":
    main(sys.argv[1:])
