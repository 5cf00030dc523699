"""The status of a job as its files and the ledger tell it, whoever supervises it."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from supervisor.core.jobs.job_status import (
    JobState,
    JobStatus,
)
from supervisor.core.jobs.managed.job_phase import never_begun, queued
from supervisor.core.jobs.unit_names import attempt_unit
from supervisor.core.liveness.hang_detection import Deadlines, Liveness
from supervisor.core.remediation.history import History
from supervisor.core.remediation.overrides import NOTHING
from supervisor.host.launch.launcher import (
    read_shimmed,
    same_process,
)
from supervisor.host.launch.systemctl import booted, is_active
from supervisor.host.ledger.job_book import JobBook, JobRow, WantedState
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.service.clock import Clock
from supervisor.host.service.lock import is_locked
from supervisor.host.telemetry.allocator_dump import newest_age
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.runtime.status_builder import (
    RunFacts,
    SnapshotTotals,
    ended_attempts,
    in_this_boot,
    job_status,
    paths_of,
    remote_status,
    standby_told,
    with_run_peak,
)
from supervisor.wire.paths import StatePaths

GONE = "its supervisor is gone; run the same command again to resume"
ALONE = "its supervisor is gone, and training goes on; run the same command again once it has ended"
DAEMON_GONE = (
    "its daemon does not run: start it (`trainwarden daemon`, or systemctl start"
    " trainwarden), which takes it up again"
)
UNWATCHED = (
    "training goes on in {}, but its daemon does not run: nobody answers a crash or saves"
    " its state on a stop; start the daemon (`trainwarden daemon`, or systemctl start"
    " trainwarden), which takes it over"
)
NO_DAEMON = "waits for its daemon, which does not run"


def stored_statuses(
    ledger: Ledger, paths: StatePaths, *, now: float
) -> list[JobStatus]:
    """The status of every job as the files tell it: of those that ran, by name, then of
    those that wait for a daemon to begin them, in turn."""
    jobs = {row.name: row for row in JobBook(ledger).jobs()}
    found: list[JobStatus] = []
    for run in ledger.latest_runs():
        job = jobs.get(run.job)
        waits = job is not None and run.state.ended and (job.again or job.fresh)
        if not waits:
            found.append(stored_status(ledger, run, paths, now=now))
            jobs.pop(run.job, None)
    return found + [_not_begun(row) for row in jobs.values()]


def stored_owners(ledger: Ledger) -> dict[str, str]:
    """Whose each job is: its owner's at a daemon, or who began its newest run, as
    ``history`` has it; without those of which it is not known."""
    runs = {run.job: run.user for run in ledger.latest_runs() if run.user is not None}
    return {**runs, **{row.name: row.owner for row in JobBook(ledger).jobs()}}


def _not_begun(row: JobRow) -> JobStatus:
    if row.wanted is WantedState.RUN:
        return queued(row.name, NO_DAEMON)
    return never_begun(row.name)


def stored_status(
    ledger: Ledger, run: RunRow, paths: StatePaths, *, now: float, keep: bool = False
) -> JobStatus:
    """The status of ``run`` as its files tell it, whoever supervises it. ``keep``: of
    ``SnapshotTotals``."""
    attempts = ledger.attempts(run.id)
    number = attempts[-1].number if attempts else 0
    run_paths = paths_of(run, paths)
    files = run_paths.attempt(number)
    totals = SnapshotTotals(RunArchive(ledger), run.id, keep=keep)
    supervised = is_locked(paths.lock(run.job))
    state, message = run.state, run.message
    gone = not state.ended and not supervised
    shimmed = read_shimmed(files) if not state.ended else None
    alive = shimmed is not None and same_process(shimmed)
    if gone:
        pid = shimmed.pid if alive and shimmed is not None else None
        state = JobState.INTERRUPTED
        message = _unsupervised(JobBook(ledger).job(run.job), number, pid)
    telemetry = Telemetry(files)
    telemetry.poll()
    page, view = telemetry.page(), telemetry.view
    if not alive:
        page, tiers = in_this_boot(files, page, totals.of(number, files))
        view = replace(view, tiers=tiers)
        if telemetry.behind:  # of what it told there is more
            view = replace(view, slices=None, slice_size=None)
    history = History(attempts=attempts, budget_since=run.budget_since)
    told = standby_told(run_paths) if supervised else (None, None)
    standby, standby_bytes = told
    facts = RunFacts(
        job=run.job,
        state=state,
        attempt=number,
        message=message,
        incidents=ledger.counts(run.job),
        overrides=run.overrides or NOTHING,
        history=history,
        view=view,
        behind=alive and telemetry.behind,
        remote=remote_status(run_paths, now=now) if _is_sent(run) else None,
        standby=standby,
        standby_bytes=standby_bytes,
        liveness=_limits(run, history) if supervised and alive else None,
        refused_age_seconds=newest_age(files.dumps, wall=Clock().wall()),
    )
    earlier = ended_attempts(run_paths, number, totals)
    pid = shimmed.pid if alive and shimmed is not None else None
    status = job_status(facts, page, pid=pid, now=now, earlier=earlier)
    kept = run.between_attempts
    between: Mapping[str, float] = {} if kept is None else kept.seconds
    status = replace(status, phase_seconds={**status.phase_seconds, **between})
    peak, _ = RunArchive(ledger).device_peak(run.id)
    return with_run_peak(status, peak)


def _unsupervised(job: JobRow | None, attempt: int, pid: int | None) -> str:
    """What is to be said of a run that nobody looks after. ``job``: what a daemon knows of
    it; None: it was in the foreground. ``pid``: its training; None: not to be seen, which
    it may be all the same: systemd knows of an attempt whose files are another user's."""
    if job is None:
        return GONE if pid is None else ALONE
    unit = attempt_unit(job.owner, job.name, attempt)
    if booted() and is_active(unit):
        return UNWATCHED.format(f"its unit {unit}")
    return DAEMON_GONE if pid is None else UNWATCHED.format(f"process {pid}")


def _limits(run: RunRow, history: History) -> Liveness | None:
    """What the supervisor of ``run`` judges a hang by, what it has learned of the newest
    attempt left out: its limits are never shorter."""
    told: dict[str, Any] | None = run.spec.get("liveness")
    if told is None:
        return None
    known = {one.name: told[one.name] for one in fields(Deadlines) if one.name in told}
    limits, earlier = Liveness(deadlines=Deadlines(**known)), history.earlier
    return limits.fresh(earlier.intervals, hangs=earlier.hangs)


def _is_sent(run: RunRow) -> bool:
    """Whether its snapshots go to a remote tier."""
    snapshots: dict[str, Any] = run.spec.get("snapshots") or {}
    return snapshots.get("remote") is not None
