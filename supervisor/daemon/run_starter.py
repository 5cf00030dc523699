"""From a job to a run that is driven: begun, resumed, or found running."""

import os
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from supervisor.core.jobs.job_status import JobState
from supervisor.core.jobs.managed.job_phase import JobPhase
from supervisor.core.jobs.spec import Spec
from supervisor.core.lifecycle.notifications import where_to_look
from supervisor.core.text.log_level import JobNotifier
from supervisor.core.text.placed_hints import with_place
from supervisor.daemon.launcher_factory import LauncherFactory
from supervisor.daemon.managed_job import ManagedJob
from supervisor.host.exporter.machine_monitor import MachineMonitor
from supervisor.host.launch.attempt_shim import boot_id
from supervisor.host.launch.launcher import Name, read_shimmed
from supervisor.host.ledger.ledger import Ledger, RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.service.clock import Clock
from supervisor.runtime.alerts.disk_notifications import DiskNotifications
from supervisor.runtime.alerts.run_notifications import (
    NotificationSenders,
    RunNotifications,
)
from supervisor.runtime.run_setup import (
    Begun,
    Job,
    ResumeOptions,
    adopt_end,
    begin,
    planned_start,
    supervisor_for,
)
from supervisor.runtime.status_builder import paths_of
from supervisor.runtime.supervisor import Supervisor
from supervisor.wire.files import open_regular
from supervisor.wire.paths import AttemptPaths, StatePaths
from supervisor.wire.snapshots.seal import script_hash

MAX_SCRIPT_BYTES = 16 * 1024 * 1024
"""A larger file is no script."""


@dataclass(frozen=True, kw_only=True)
class RunStarter:
    """Makes supervisors for entries."""

    paths: StatePaths
    ledger: Ledger
    clock: Clock
    launcher_factory: LauncherFactory
    say: JobNotifier
    observer: MachineMonitor
    senders: NotificationSenders
    """Who tells people of every run."""
    disks: DiskNotifications
    """... and of disks that cannot be written."""
    place: str = ""
    """The option by which commands find this daemon."""

    def start(self, entry: ManagedJob, gpus: tuple[str, ...]) -> Supervisor:
        """Begin the run of a job, or go on with it, on these GPUs and no others.

        Raises:
            SchedulerError, StartRefusedError, LedgerError, OSError: it cannot be.
        """
        runtime_of = self.launcher_factory.runtime_of(entry.row.owner)
        job = job_of(entry.name, with_gpus(entry.spec, gpus))
        row = entry.row
        choice = ResumeOptions(fresh=row.fresh, accept_changes=row.accept_changes)
        begun = begin(
            job, self.paths, self.ledger, self.clock, choice, place=runtime_of.place
        )
        self.say(entry.name, begun.greeting)
        supervisor = self._supervisor(entry, begun, accept_changes=row.accept_changes)
        self._take_up(supervisor, begun)
        supervisor.begin()
        return supervisor

    def refuse_changes(
        self, name: str, spec: Spec, choice: ResumeOptions, *, runs: bool = False
    ) -> None:
        """Raises StartRefusedError, LedgerError: as things are, ``start`` would refuse the
        job ``name``, where whoever asked for it is told no more. ``runs``: it is to be
        drained before."""
        job = job_of(name, spec)
        planned_start(job, self.paths, self.ledger, choice, saves_before=runs)

    def adopt(self, entry: ManagedJob, run: RunRow) -> Supervisor:
        """Go on with a run that an earlier daemon had, running or not.

        Raises:
            SchedulerError, LedgerError, OSError: it cannot be.
        """
        gpus = run.spec.get("gpus")
        spec = entry.spec if gpus is None else with_gpus(entry.spec, tuple(gpus))
        begun = Begun(
            job=job_of(entry.name, spec),
            row=run,
            paths=paths_of(run, self.paths),
            ledger=self.ledger,
            clock=self.clock,
            greeting="",
        )
        supervisor = self._supervisor(entry, begun, accept_changes=False)
        asked = entry.life.phase is not JobPhase.ORPHANED
        if run.state is JobState.DRAINING and not asked:
            supervisor.resume_after("a restart that an earlier daemon had begun")
        self._take_up(supervisor, begun)
        supervisor.begin()
        return supervisor

    def _supervisor(
        self, entry: ManagedJob, begun: Begun, *, accept_changes: bool
    ) -> Supervisor:
        return supervisor_for(
            begun,
            launcher=self.launcher_factory.runtime_of(entry.row.owner).launcher,
            say=partial(self.say, entry.name),
            show=None,  # the loop asks when it wants to know
            observer=self.observer,
            accept_changes=accept_changes,
            notifications=RunNotifications(
                job=entry.name,
                senders=self.senders,
                say=partial(self.say, entry.name),
                look=with_place(where_to_look(entry.name), self.place),
            ),
            disks=self.disks,
        )

    def _take_up(self, supervisor: Supervisor, begun: Begun) -> None:
        """The attempt of an earlier daemon: it runs, or it is over."""
        last = supervisor.run.history.last
        if last is None or last.cause is not None:
            return
        row = begun.row
        name = Name(run_id=row.run_id, job=row.job, number=last.number)
        paths = begun.paths.attempt(last.number)
        attempt = supervisor.launcher.adopt(name, paths=paths)
        # The probe's service remembers what the driver said since it began.
        since = _began(paths)
        if since is not None and begun.job.spec.restart.standby:
            told = RunArchive(self.ledger).began_at(row.id, last.number)
            wall, now = self.clock.wall(), self.clock.now()
            since = not_before(since, told, wall=wall, now=now)
        supervisor.hear_from(self.observer.devices_of(begun.job.spec.gpus, since=since))
        if attempt is None:
            self.say(row.job, f"attempt {last.number} ended while no daemon watched")
            adopt_end(supervisor, begun, last.number)
        else:
            supervisor.take_over(attempt)

    def was_ended_by_the_machine(self, run: RunRow) -> bool:
        """Whether a run was drained by a shutdown of the machine: it was wanted, and
        nobody of this boot has ended it."""
        attempts = self.ledger.attempts(run.id)
        if run.state is not JobState.DRAINED or not attempts:
            return False
        paths = paths_of(run, self.paths).attempt(attempts[-1].number)
        shimmed = read_shimmed(paths)
        return shimmed is not None and shimmed.boot_id != boot_id()


def _began(paths: AttemptPaths) -> float | None:
    """When the attempt that runs began, in monotonic seconds; those stand still while
    the machine sleeps, the ticks of /proc do not (time_namespaces(7), proc(5))."""
    shimmed = read_shimmed(paths)
    if shimmed is None:
        return None
    awake, booted = map(time.clock_gettime, (time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME))
    return shimmed.started_ticks / os.sysconf("SC_CLK_TCK") + awake - booted


def not_before(
    since: float, began_at: float | None, *, wall: float, now: float
) -> float:
    """When the attempt that runs began: its process, which began at ``since`` (monotonic
    seconds, as ``now``), may have stood by while the one before it trained. ``began_at``:
    what the ledger says (seconds since 1970, as ``wall``)."""
    return since if began_at is None else min(max(since, now - (wall - began_at)), now)


def with_gpus(spec: Spec, gpus: tuple[int | str, ...]) -> Spec:
    """The spec of a job that was given these."""
    return spec.model_copy(update={"gpus": gpus})


def job_of(name: str, spec: Spec) -> Job:
    """The job ``name``, with its names resolved."""
    base = Path(spec.working_directory or "/")
    script = base / spec.script
    content = read_script(script)
    digest = "" if content is None else script_hash(content, spec.args)
    return Job(name=name, spec=spec, script=script, script_hash=digest)


def read_script(path: Path) -> bytes | None:
    """The script, for its hash; None: it is not ours to read, and the training side
    alone can tell whether it changed."""
    try:
        with open_regular(path, links=True) as file:
            content = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError:
        return None
    return content if len(content) <= MAX_SCRIPT_BYTES else None
