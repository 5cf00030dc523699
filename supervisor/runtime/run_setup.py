"""Set-up of a run: from a job to its ledger row, its decision to resume, its supervisor."""

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from uuid import uuid4

from supervisor.core.backoff import BackOff
from supervisor.core.diagnosis.result import IncidentKind
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.resume_decision import (
    Earlier,
    ResumeDecision,
    StartRefusedError,
    decide_modules,
    decide_start,
    started_by_hand,
)
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.live_incidents import ON_DISK
from supervisor.core.lifecycle.run_state import (
    DiskSaves,
    Offer,
    OpenIncident,
    RunState,
)
from supervisor.core.liveness.hang_detection import Liveness
from supervisor.core.remediation.escalation import RemedyPermissions
from supervisor.core.remediation.history import AttemptHistory, History, Unpromised
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.remediation.policy import Policy
from supervisor.core.text.log_level import Notifier
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.launch.launcher import Launcher, Name
from supervisor.host.launch.unit_main import forget_earlier_runs
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.process.marker_scan import MarkerScan, marker_of
from supervisor.host.service.clock import Clock
from supervisor.host.snapshots.memory_tier import sweep
from supervisor.host.snapshots.snapshot_catalog import newest_step
from supervisor.host.telemetry.attempt_news import UNPROMISED
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.log_follower import LogFollower
from supervisor.runtime.alerts.disk_notifications import DiskNotifications
from supervisor.runtime.alerts.run_notifications import RunNotifications
from supervisor.runtime.attempts.directive_builder import (
    NOTHING_PLANNED,
    PlannedEnds,
    log_cap_of,
    memory_of,
    tiers_of,
)
from supervisor.runtime.attempts.evidence_collector import gather
from supervisor.runtime.status_builder import keep_totals, paths_of
from supervisor.runtime.supervisor import Supervisor
from supervisor.wire.paths import RunPaths, StatePaths
from supervisor.wire.reasons import Changed

SETTLE_SECONDS = 0.2
"""How often a dying attempt of a dead supervisor is looked at."""
OTHER_SCRIPT = (
    "the script or its arguments were changed in the middle of the run, and that was"
    " accepted (--accept-changes)"
)
ENDS = frozenset({IncidentKind.ENDED, IncidentKind.PLANNED})
"""Incidents after which there is no process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A spec with its names resolved."""

    name: str
    spec: Spec
    script: Path
    script_hash: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeOptions:
    """What the person said about an earlier run of the same name."""

    fresh: bool = False
    accept_changes: bool = False
    person: bool = False
    """Somebody waits for an answer."""


def finished_before(job: Job, ledger: Ledger) -> bool:
    """Whether the newest run of this name has finished. Raises LedgerError."""
    latest = ledger.latest_run(job.name)
    return latest is not None and latest.state is JobState.FINISHED


def as_it_began(job: Job, ledger: Ledger) -> Job:
    """``job`` with the script of the run that goes on, which may have been edited while
    it waited for its turn: the training side keeps it (``pinned_script``). Raises
    LedgerError."""
    latest = ledger.latest_run(job.name)
    if latest is None or latest.state is JobState.FINISHED:
        return job
    same = latest.script == str(job.script)
    same = same and tuple(latest.spec.get("args", ())) == job.spec.args
    return replace(job, script_hash=latest.script_hash) if same else job


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that is written down and may start."""

    job: Job
    row: RunRow
    paths: RunPaths
    ledger: Ledger
    clock: Clock
    greeting: str
    modules: Changed = Changed.AS_KEPT
    """What the first attempt does about those that changed."""
    by_hand: bool = False
    """A person let an earlier run go on."""


def begin(
    job: Job,
    paths: StatePaths,
    ledger: Ledger,
    clock: Clock,
    choice: ResumeOptions,
    *,
    place: str | None = None,
    seed: int | None = None,
) -> Begun:
    """Write the run down: a new one, or the newest one again.

    ``place``: the state directory of another user, which holds the run's files: there
    nothing is made or removed from here. ``seed``: of a new run; None: drawn.

    Raises:
        StartRefusedError: a person has to decide first.
        LedgerError, OSError: it cannot be written down.
    """
    latest = ledger.latest_run(job.name)
    earlier = None if latest is None else _earlier(latest, paths, job.spec)
    start = _start(job, earlier, choice)
    spec, edited = job.spec.model_dump(mode="json"), False
    if latest is not None and start is ResumeDecision.RESUME:
        edited = latest.script_hash != job.script_hash
        if edited:  # before the new hash is there: a kill in between must not hide it
            _withdraw_promise(ledger, latest.id, now=clock.wall())
        ledger.resume_run(
            latest.id, script_hash=job.script_hash, spec=spec, now=clock.wall()
        )
        row = ledger.latest_run(job.name) or latest
    else:
        row = ledger.begin_run(
            run_id=uuid4().hex,
            job=job.name,
            script=str(job.script),
            script_hash=job.script_hash,
            seed=secrets.randbits(63) if seed is None else seed,
            spec=spec,
            now=clock.wall(),
            place=place,
        )
    run_paths = paths_of(row, paths)
    greeting = _greeting(job, row, run_paths, start)
    if row.id != (latest or row).id:
        greeting += _name_before(job, latest)
    if edited:
        greeting += f"; {UNPROMISED}: {OTHER_SCRIPT}"
    if row.place is None:
        _make_room(job, row, run_paths)
    return Begun(
        job=job,
        row=row,
        paths=run_paths,
        ledger=ledger,
        clock=clock,
        greeting=greeting,
        modules=decide_modules(
            earlier, start, person=choice.person, accept_changes=choice.accept_changes
        ),
        by_hand=started_by_hand(earlier, start, person=choice.person),
    )


def _withdraw_promise(ledger: Ledger, run: int, *, now: float) -> None:
    """The run began with another script: nothing that is to come can be to the bit what
    that would have made. Kept with the newest attempt, as what that said itself is."""
    attempts = ledger.attempts(run)
    if attempts:
        other = Unpromised(fit=None, because=OTHER_SCRIPT)
        ledger.put_attempt(run, replace(attempts[-1], unpromised=other), now=now)


def planned_start(
    job: Job,
    paths: StatePaths,
    ledger: Ledger | None,
    choice: ResumeOptions,
    *,
    saves_before: bool = False,
) -> str:
    """How ``begin`` would begin, as a sentence; nothing is written. ``ledger``: None
    where nothing ever ran. ``saves_before``: its attempt runs, and saves its state before
    it ends. Raises StartRefusedError, LedgerError."""
    latest = None if ledger is None else ledger.latest_run(job.name)
    earlier = None if latest is None else _earlier(latest, paths, job.spec)
    if earlier is not None and saves_before:
        earlier = replace(earlier, has_snapshot=True)
    start = _start(job, earlier, choice)
    if latest is None or start is ResumeDecision.FRESH:
        return f"a new run of {job.script}{_name_before(job, latest)}"
    return _greeting(job, latest, paths_of(latest, paths), start)


def _start(job: Job, earlier: Earlier | None, choice: ResumeOptions) -> ResumeDecision:
    return decide_start(
        earlier,
        job=job.name,
        script=str(job.script),
        script_hash=job.script_hash,
        fresh=choice.fresh,
        accept_changes=choice.accept_changes,
    )


def _earlier(latest: RunRow, paths: StatePaths, spec: Spec) -> Earlier:
    tiers = tiers_of(latest, spec, paths_of(latest, paths))
    return Earlier(
        state=latest.state,
        script=latest.script,
        script_hash=latest.script_hash,
        has_snapshot=newest_step(*tiers) != 0,
    )


def _make_room(job: Job, row: RunRow, paths: RunPaths) -> None:
    forget_earlier_runs(paths.root)
    paths.snapshots.mkdir(parents=True, exist_ok=True, mode=0o700)
    memory = memory_of(row, job.spec)
    if (
        memory is not None
    ):  # what cannot be given back of dead runs is tried again later
        sweep(memory.parent, but=memory)


def _name_before(job: Job, latest: RunRow | None) -> str:
    """What a name was before a new run of another script took it, and what becomes of that;
    empty: it was of the same one, or of none."""
    if latest is None or latest.script == str(job.script):
        return ""
    return (
        f"; the name {job.name!r} was that of {latest.script} before: the snapshots of its"
        " run are removed as this one begins, its logs and incidents stay (--name gives"
        " another name)"
    )


def _greeting(job: Job, row: RunRow, paths: RunPaths, start: ResumeDecision) -> str:
    if start is ResumeDecision.FRESH:
        return f"new run of {job.script}, kept in {paths.root}"
    step = newest_step(*tiers_of(row, job.spec, paths))
    where = f"from the snapshot at step {step}" if step else "without a snapshot"
    return f"resuming {job.script} {where}"


def supervisor_for(
    begun: Begun,
    *,
    launcher: Launcher,
    say: Notifier,
    show: Callable[[JobStatus], None] | None,
    observer: MachineMonitor,
    accept_changes: bool = False,
    planned: PlannedEnds = NOTHING_PLANNED,
    notifications: RunNotifications | None = None,
    disks: DiskNotifications | None = None,
    ballast: Ballast | None = None,
) -> Supervisor:
    """What drives the run; it does not know yet what its last supervisor left undone.

    ``observer``: of the machine, one for all runs; the rest as ``Supervisor`` has it.
    """
    attempts = begun.ledger.attempts(begun.row.id)
    row, spec = begun.row, begun.job.spec
    run = RunState(
        policy=policy_of(row, spec),
        grace_seconds=spec.drain.grace,
        attempt=attempts[-1].number if attempts else 0,
        history=History(attempts=attempts, budget_since=row.budget_since).thinned(),
        overrides=row.overrides or NOTHING,
        liveness=Liveness(deadlines=spec.liveness.deadlines),
        quarantined=frozenset(kept.gpu for kept in begun.ledger.quarantined()),
        open_incident=open_incident_of(begun.ledger, row, attempts, begun.clock),
        offer=offer_of(row, attempts),
        on_disk=on_disk_of(begun.ledger, row),
    )
    return Supervisor(
        row=row,
        spec=spec,
        run=run,
        paths=begun.paths,
        ledger=begun.ledger,
        launcher=launcher,
        clock=begun.clock,
        say=say,
        show=show,
        accept_changes=accept_changes,
        changed_modules=begun.modules,
        by_hand=begun.by_hand,
        population=observer.population,
        planned=planned,
        devices=observer.devices_of(spec.gpus),
        notifications=notifications,
        disks=disks,
        ballast=ballast,
    )


def offer_of(row: RunRow, attempts: Sequence[AttemptHistory]) -> Offer | None:
    """What an earlier supervisor allowed the newest attempt, which may have gone on by it
    since; None: nothing, or that attempt has ended."""
    last, offer = attempts[-1] if attempts else None, row.offer
    if last is None or last.cause is not None or offer is None:
        return None
    return offer if offer.ended.number == last.number else None


def open_incident_of(
    ledger: Ledger, row: RunRow, attempts: Sequence[AttemptHistory], clock: Clock
) -> OpenIncident | None:
    """The incident that an earlier supervisor ended with, as long as no attempt followed:
    of one that did nobody here knows when it made its first step. None: there is none.
    Where a person has started the run since, the time until then is not lost by it."""
    last = attempts[-1] if attempts else None
    if last is None or last.cause is None:
        return None
    found = [one for one in ledger.incidents(run=row.id) if one.happened in ENDS]
    newest = found[-1] if found else None
    if newest is None or newest.attempt != last.number or newest.recovery:
        return None
    by_hand = last.number < row.budget_since
    if newest.downtime_seconds is not None and not by_hand:
        return None
    ago = clock.wall() - datetime.fromisoformat(newest.at).timestamp()
    return OpenIncident(
        attempt=newest.attempt,
        failed_step=newest.failed_step,
        at=None if by_hand else clock.now() - max(ago, 0.0),
    )


def on_disk_of(ledger: Ledger, row: RunRow) -> DiskSaves:
    """Whether an earlier supervisor could write snapshots to disk last."""
    found = [one.advice for one in ledger.incidents(run=row.id)
             if one.happened == IncidentKind.UNSAVED_ON_DISK]  # fmt: skip
    return DiskSaves.FAILING if ON_DISK in found else DiskSaves.SAVED


def refuse_if_it_trains(job: str, ledger: Ledger) -> None:
    """An attempt that a daemon left behind trains on, and ends for nobody here.

    Raises:
        StartRefusedError: that is so, or cannot be seen.
    """
    latest = ledger.latest_run(job)
    if latest is None or latest.state.ended or not JobBook(ledger).knows(job):
        return
    try:
        left = MarkerScan().wait_for(marker_of(latest.run_id))
    except OSError as error:
        message = f"it cannot be seen whether {job} still trains: {error}; try again"
        raise StartRefusedError(message) from error
    if left:
        pids = ", ".join(map(str, left))
        message = (
            f"{job} still trains (process {pids}), though its daemon is gone: start the "
            "daemon, which takes it over, or choose another name with --name"
        )
        raise StartRefusedError(message)


def settle(supervisor: Supervisor, begun: Begun) -> None:
    """Take up what an earlier supervisor of this run left; waits for its attempt."""
    last = supervisor.run.history.last
    if last is not None and last.cause is None:
        _await_end(begun.row, supervisor.say)
        adopt_end(supervisor, begun, last.number)


def adopt_end(supervisor: Supervisor, begun: Begun, number: int) -> None:
    """Let ``supervisor`` begin with the end of an attempt that nobody watched to it."""
    files, launcher = begun.paths.attempt(number), supervisor.launcher
    name = Name(run_id=begun.row.run_id, job=begun.row.job, number=number)
    telemetry = Telemetry(files)
    exited = gather(
        files,
        telemetry=telemetry,
        log=LogFollower(files.output, cap=log_cap_of(begun.job.spec)),
        cpu_limit=begun.job.spec.memory.cpu,
        snapshots=tiers_of(begun.row, begun.job.spec, begun.paths),
        unit=launcher.told(name, paths=files),
    )
    telemetry.close()
    archive = RunArchive(begun.ledger)
    keep_totals(archive, begun.row.id, number, telemetry.view.tiers)
    supervisor.adopt(
        exited,
        recovery=telemetry.recovery.events,
        unpromised=telemetry.unpromised,
    )


def policy_of(row: RunRow, spec: Spec) -> Policy:
    """The policy that a spec describes."""
    return Policy(
        run_id=row.run_id,
        without_progress=spec.restart.without_progress,
        back_off=BackOff(
            first_seconds=spec.restart.back_off,
            most_seconds=spec.restart.back_off_max,
        ),
        terms=RemedyPermissions(
            allowed=spec.remedies.allowed,
            gpus=spec.gpus,
            patience_seconds=spec.remedies.patience,
            slice_size=spec.compute.slice,
            precision=spec.compute.precision,
        ),
        proof=spec.restart.proof,
        in_place=spec.remedies.in_place,
    )


def _await_end(row: RunRow, say: Notifier) -> None:
    """Wait for the attempt of a supervisor that died: its shim drains it now."""
    said, environments, marker = False, MarkerScan(), marker_of(row.run_id)
    while left := environments.wait_for(marker):
        if not said:
            names = ", ".join(f"{pid} ({one.name})" for pid, one in left.items())
            say(f"waiting for the attempt of an earlier supervisor to end: {names}")
            said = True
        time.sleep(SETTLE_SECONDS)
