"""What people may ask of the box, and who may.

What somebody asked for is written down before it is done, with who asked.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor.core.jobs.accounting.run_summary import RunSummary
from supervisor.core.jobs.authorization import AccessRules, Caller, Permission
from supervisor.core.jobs.config import UserLimits
from supervisor.core.jobs.managed.job_events import (
    ForgetRequested,
    RestartRequested,
    StartRequested,
    StopRequested,
    SubmitRequested,
)
from supervisor.core.jobs.managed.job_phase import JobLifecycle
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import Spec
from supervisor.daemon.managed_job import (
    ForbiddenError,
    ManagedJob,
    SchedulerError,
    UnknownJobError,
    job_name,
)
from supervisor.daemon.scheduler import Scheduler
from supervisor.host.ledger.job_book import AuditRow, JobBook, JobRow, WantedState
from supervisor.host.ledger.ledger import (
    IncidentRow,
    Ledger,
    LedgerError,
    QuarantineRow,
)
from supervisor.host.service.clock import Clock
from supervisor.runtime.recording.job_locator import JobFiles, job_files
from supervisor.runtime.recording.run_history import RunRecord, record_of, summaries
from supervisor.runtime.run_setup import ResumeOptions

AS_BEFORE = ResumeOptions()
"""From the newest snapshot, of the same script."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiService:
    """Every method may raise SchedulerError (the caller is told) and LedgerError."""

    scheduler: Scheduler
    rules: AccessRules
    jobs: Path | None = None
    """Where job files lie."""
    limits: UserLimits = field(default_factory=UserLimits)

    @property
    def ledger(self) -> Ledger:
        """Where it is written down."""
        return self.scheduler.starter.ledger

    @property
    def book(self) -> JobBook:
        """The daemon's part of the ledger."""
        return self.scheduler.book

    @property
    def clock(self) -> Clock:
        """The box's clock."""
        return self.scheduler.starter.clock

    def submit(
        self,
        caller: Caller,
        tables: dict[str, Any],
        spec: Spec,
        *,
        owner: str | None = None,
        choice: ResumeOptions = AS_BEFORE,
        source: str | None = None,
    ) -> ManagedJob:
        """A new job, or an old one with a new spec: as it was written, and as it is meant.

        Raises:
            SchedulerError, SpecError, LedgerError: nothing was changed.
        """
        name, owner = job_name(spec), owner or caller.name
        self._allow(caller, Permission.OWN, owner=owner)
        known = self.scheduler.entries.get(name)

        self._limit(caller, owner, tables, new=known is None)

        def put() -> None:
            self._accommodate(owner, spec)
            if source is None:  # of a job file its status tells, and the journal
                self._refuse_changes(name, spec, choice)
            self._put(
                caller, name, owner=owner, tables=tables, source=source, choice=choice
            )

        if known is None:
            self.scheduler.write(put)
            life = JobLifecycle(job=name)
            known = ManagedJob(row=self._row(name), spec=spec, life=life)
            self.scheduler.entries[name] = known
        else:
            self._allow(caller, Permission.OWN, owner=known.row.owner)
            self.scheduler.happen(
                known, SubmitRequested(), first=lambda: self.scheduler.write(put)
            )
            known.row, known.spec = self._row(name), spec
            self.scheduler.entries.changed()
        return known

    def _limit(
        self, caller: Caller, owner: str, tables: dict[str, Any], *, new: bool
    ) -> None:
        """Raises SchedulerError: it is more than a user may have."""
        if self.rules.rules(caller):
            return
        most = self.limits.spec_kib
        if len(json.dumps(tables)) > most * 1024:
            message = f"the spec is larger than {most} KiB, the most a user's may be"
            raise SchedulerError(message)
        jobs = self.scheduler.entries.values()
        if new and sum(one.row.owner == owner for one in jobs) >= self.limits.jobs:
            message = (
                f"{owner} has {self.limits.jobs} jobs, the most a user may have: "
                "`trainwarden forget JOB` takes one that has ended off the list"
            )
            raise SchedulerError(message)

    def _accommodate(self, owner: str, spec: Spec) -> None:
        """Raises SchedulerError: jobs of ``owner`` cannot run here, or not as ``spec`` says."""
        launcher = self.scheduler.starter.launcher_factory.runtime_of(owner).launcher
        objection = launcher.objection(spec)
        if objection is not None:
            raise SchedulerError(objection)

    def _put(
        self,
        caller: Caller,
        name: str,
        *,
        owner: str,
        tables: dict[str, Any],
        source: str | None,
        choice: ResumeOptions,
    ) -> None:
        with self._noted(caller, "submit", job=name) as now:
            self.book.put(
                name,
                owner=owner,
                spec=tables,
                source=source,
                fresh=choice.fresh,
                accept_changes=choice.accept_changes,
                now=now,
            )

    def respec(
        self, caller: Caller, entry: ManagedJob, tables: dict[str, Any], spec: Spec
    ) -> None:
        """Another spec for a job; what runs now goes on with the old one."""
        self._allow(caller, Permission.OWN, owner=entry.row.owner)
        self._accommodate(entry.row.owner, spec)

        def put() -> None:
            with self._noted(caller, "respec", job=entry.name):
                self.book.respec(entry.name, tables)

        self.scheduler.write(put)
        entry.reread(self._row(entry.name), spec=spec)
        self.scheduler.entries.changed()

    def _row(self, name: str) -> JobRow:
        row = self.book.job(name)
        assert row is not None  # noqa: S101  # it was put there
        return row

    def entry(self, caller: Caller, name: str, permission: Permission) -> ManagedJob:
        """A job, if ``caller`` may do that to it. Raises SchedulerError."""
        self._allow(caller, Permission.LOOK)
        found = self.scheduler.entries.get(name)
        if found is None:
            message = f"there is no job {name!r}"
            raise UnknownJobError(message)
        self._allow(caller, permission, owner=found.row.owner)
        return found

    def stop(self, caller: Caller, name: str, *, drain: bool) -> ManagedJob:
        """End a job: with its state saved, or at once, at its newest snapshot. Where that
        cannot be written down it is done all the same, and written down later."""
        asked = StopRequested(_request_of(caller), at_once=not drain)
        did = "drain" if drain else "stop"
        return self._ask(caller, name, asked, did=did)

    def start(self, caller: Caller, name: str, choice: ResumeOptions) -> ManagedJob:
        """Let a job run that has ended, or go on with it. Raises SchedulerError, too, where
        its script was changed, and nobody said what then."""
        asked = StartRequested(fresh=choice.fresh)
        return self._ask(caller, name, asked, did="start", choice=choice)

    def restart(self, caller: Caller, name: str) -> ManagedJob:
        """Drain a job and let it go on in a new process."""
        asked = RestartRequested(_request_of(caller))
        return self._ask(caller, name, asked, did="restart")

    def _ask(
        self,
        caller: Caller,
        name: str,
        asked: StartRequested | StopRequested | RestartRequested,
        *,
        did: str,
        choice: ResumeOptions = AS_BEFORE,
    ) -> ManagedJob:
        entry = self.entry(caller, name, Permission.OWN)
        stop = isinstance(asked, StopRequested)

        def write_down() -> None:
            with self._noted(caller, did, job=name):
                self.book.want(
                    name,
                    WantedState.STOP if stop else WantedState.RUN,
                    fresh=choice.fresh,
                    accept_changes=choice.accept_changes,
                )
            entry.reread(self._row(name))

        def first() -> None:
            if not stop:
                runs = entry.life.active
                self._refuse_changes(name, entry.spec, choice, runs=runs)
            try:
                self.scheduler.write(write_down)
            except LedgerError:
                if not stop:
                    raise
                self.scheduler.unwritten[name] = write_down
            else:
                self.scheduler.unwritten.pop(name, None)

        self.scheduler.happen(entry, asked, first=first)
        return entry

    def _refuse_changes(
        self, name: str, spec: Spec, choice: ResumeOptions, *, runs: bool = False
    ) -> None:
        try:
            self.scheduler.starter.refuse_changes(name, spec, choice, runs=runs)
        except StartRefusedError as error:
            raise SchedulerError(str(error)) from error

    def forget(self, caller: Caller, name: str) -> None:
        """Take a job off the list; its incidents stay, and its name is free."""
        entry = self.entry(caller, name, Permission.OWN)

        def write_down() -> None:
            self._refuse_if_in_file(entry)
            with self._noted(caller, "forget", job=name) as now:
                self.ledger.forget(name, now=now)
                self.book.forget(name)

        self.scheduler.happen(
            entry, ForgetRequested(), first=lambda: self.scheduler.write(write_down)
        )
        self.scheduler.unwritten.pop(name, None)
        del self.scheduler.entries[name]

    def _refuse_if_in_file(self, entry: ManagedJob) -> None:
        source = entry.row.source
        if source and self.jobs is not None and (self.jobs / source).exists():
            message = f"{entry.name} stands in the job file {source}: remove that first"
            raise SchedulerError(message)

    def pause(self, caller: Caller, *, paused: bool) -> None:
        """Start nothing more until ``resume``; what runs goes on."""
        self._allow(caller, Permission.RULE)
        by = caller.name if paused else None
        self._set(caller, "paused_by", by, "pause" if paused else "resume")
        self.scheduler.paused_by = by

    def serve(self, caller: Caller, gpu: str, *, in_service: bool) -> None:
        """Take a GPU out of service, or back; who holds it keeps it to its end. One that
        failed, or is out of service, may be gone by now."""
        self._allow(caller, Permission.RULE)
        failed = {row.gpu for row in self.ledger.quarantined()}
        gone = failed | self.scheduler.out_of_service
        if gpu not in {*self.scheduler.gpus(), *gone}:
            known = ", ".join(self.scheduler.gpus()) or "none on this box"
            message = f"there is no GPU {gpu!r}; known: {known}"
            raise UnknownJobError(message)
        without = self.scheduler.out_of_service - {gpu}
        left_out = without if in_service else without | {gpu}
        did = f"{gpu} {'into' if in_service else 'out of'} service"
        self._set(caller, "out_of_service", sorted(left_out), did)
        self.scheduler.out_of_service = left_out

    def sees_all_of(self, caller: Caller, entry: ManagedJob) -> bool:
        """Whether it is a job of theirs, or they may do everything."""
        return self.rules.rules(caller) or entry.row.owner == caller.name

    def incidents(self, caller: Caller, *, job: str | None) -> list[IncidentRow]:
        """What went wrong; of the runs of others without what their output says."""
        self._allow(caller, Permission.LOOK)
        own = self._own_incidents(caller)
        found = self.ledger.incidents(job=job)
        return [one if one.id in own else one.for_others() for one in found]

    def _own_incidents(self, caller: Caller) -> set[int]:
        """Numbers of those that are theirs, or all: a name may have been another's job."""
        place = None
        if not self.rules.rules(caller):
            try:
                factory = self.scheduler.starter.launcher_factory
                place = factory.runtime_of(caller.name).place
            except SchedulerError:  # they have no jobs here
                return set()
            if place is None:
                return set()
        return {one.id for one in self.ledger.incidents(place=place)}

    def acknowledge(self, caller: Caller, incident: int) -> None:
        """Somebody has seen an incident."""
        self._allow(caller, Permission.LOOK)
        found = self.ledger.incidents(incident=incident)
        if not found:
            message = f"there is no incident {incident}"
            raise UnknownJobError(message)
        job, detail = found[0].job, f"incident {incident}"
        if incident not in self._own_incidents(caller):
            message = f"{detail} is of a job of another user"
            raise ForbiddenError(message)
        with self._noted(caller, "acknowledge", job=job, detail=detail) as now:
            self.ledger.acknowledge(incident, by=caller.name, now=now)

    def files(self, caller: Caller, name: str) -> JobFiles:
        """Where a job of one's own keeps its files; they are read with one's own rights."""
        entry = self.entry(caller, name, Permission.OWN)
        found = job_files(self.ledger, entry.name, self.scheduler.starter.paths)
        if found is None:
            message = f"{name} has not begun yet"
            raise UnknownJobError(message)
        return found

    def history(self, caller: Caller) -> list[RunSummary]:
        """All runs that the box has had, the oldest first."""
        self._allow(caller, Permission.LOOK)
        now = self.clock.wall()
        return summaries(self.ledger, self._looks_after, now=now)

    def record(self, caller: Caller, name: str) -> RunRecord:
        """How the newest run of a job of one's own went, attempt by attempt."""
        entry = self.entry(caller, name, Permission.OWN)
        now = self.clock.wall()
        found = record_of(self.ledger, entry.name, self._looks_after, now=now)
        if found is None:
            message = f"{name} has not begun yet"
            raise UnknownJobError(message)
        return found

    def _looks_after(self, job: str) -> bool:
        return job in self.scheduler.entries

    def quarantined(self, caller: Caller) -> list[QuarantineRow]:
        """The GPUs that are kept out of use for what they did."""
        self._allow(caller, Permission.LOOK)
        return self.ledger.quarantined()

    def put_back(self, caller: Caller, gpu: str) -> None:
        """A GPU is no longer kept out of use: the next job may have it."""
        self._allow(caller, Permission.RULE)
        with self._noted(caller, f"{gpu} out of quarantine") as now:
            if not self.ledger.put_back(gpu, now=now):
                message = f"{gpu} is not quarantined; see `trainwarden quarantine`"
                raise UnknownJobError(message)

    def copy_of_ledger(self, caller: Caller) -> bytes:
        """The whole ledger; everybody's specs stand in it."""
        self._allow(caller, Permission.RULE)
        return self.ledger.copied()

    def look(self, caller: Caller) -> None:
        """Raises SchedulerError: they may not even see what is there."""
        self._allow(caller, Permission.LOOK)

    def audit(self, caller: Caller) -> list[AuditRow]:
        """Who did what; for those who rule."""
        self._allow(caller, Permission.RULE)
        return self.book.audit()

    def _allow(
        self, caller: Caller, permission: Permission, *, owner: str | None = None
    ) -> None:
        problem = self.rules.why_not(caller, permission, owner=owner)
        if problem is not None:
            raise ForbiddenError(problem)

    def _set(self, caller: Caller, name: str, value: Any, did: str) -> None:
        def put() -> None:
            with self._noted(caller, did):
                self.book.set(name, value)

        self.scheduler.write(put)

    @contextmanager
    def _noted(
        self, caller: Caller, did: str, *, job: str | None = None, detail: str = ""
    ) -> Generator[float]:
        """What is written in here is written down as done by ``caller``, or none of it
        is; the time of it, in seconds since 1970."""
        now = self.clock.wall()
        with self.ledger.transaction():
            yield now
            who = caller.name
            self.book.note(who=who, did=did, job=job, detail=detail, now=now)


def _request_of(caller: Caller) -> str:
    return f"a request of {caller.name}"
