"""All jobs of this machine: whose turn it is, what runs, what has ended.

Everything here runs in the one thread of the loop, and nothing waits.
"""

import contextlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from supervisor.core.gpu.gpu_readings import Gpu
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.managed.job_events import (
    Announce,
    Decline,
    EndRun,
    JobEffect,
    JobEvent,
    NoteStarted,
    RunAdopted,
    RunEnded,
    RunStarted,
    RunTroubled,
    StartDenied,
    StartPostponed,
    TurnAwaited,
)
from supervisor.core.jobs.managed.job_lifecycle import step
from supervisor.core.jobs.managed.job_phase import JobLifecycle, orphaned, recalled
from supervisor.core.jobs.managed.queue_waits import QueueWaits
from supervisor.core.jobs.managed.scheduling import CpuSlots, assign, takes_another_turn
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.spec import SpecError, build_spec
from supervisor.core.lifecycle.disk_alarm import DiskTrouble, DiskUse
from supervisor.core.lifecycle.events import DrainRequested
from supervisor.core.metrics.machine_state import JobsView
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.daemon.job_table import JobTable
from supervisor.daemon.managed_job import ManagedJob, SchedulerError
from supervisor.daemon.run_starter import RunStarter
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.job_book import JobBook, WantedState
from supervisor.host.ledger.ledger import LedgerError, RunRow
from supervisor.runtime.alerts.disk_notifications import TroubleAt
from supervisor.runtime.stored_status import stored_status
from supervisor.runtime.supervisor import Supervisor

SOON_SECONDS = 0.5
"""A run whose time comes so soon advances together with others: to wake up costs more
than to look."""
LONG_QUEUE, LOOK_SECONDS = 1000, 0.2
"""So many jobs that wait are looked at no more often: that takes some milliseconds, and
each request waits for the turn before it."""
BALLAST_SECONDS = 10.0
"""How often room for the ballast is looked for."""


def _nothing() -> None:
    pass


@dataclass(kw_only=True)
class Scheduler:
    """The jobs and the GPUs."""

    book: JobBook
    starter: RunStarter
    gpus: Callable[[], tuple[str, ...]]
    """The GPUs of this box, by UUID."""
    quota: int | None = None
    cpu: CpuSlots = field(default_factory=CpuSlots)
    say: Notifier
    entries: JobTable = field(default_factory=JobTable)
    paused_by: str | None = None
    out_of_service: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list[str])
    """Of job files, as they were when they were last read."""
    ballast: Ballast | None = None
    ballast_at: float = 0.0
    ballast_given: bool = False
    """It was given up for want of room, and there is none for it yet."""
    unwritten: dict[str, Callable[[], None]] = field(
        default_factory=dict[str, Callable[[], None]]
    )
    """What was done to a job and could not be written down: done again until it can."""
    looked: tuple[object, float] = (None, 0.0)
    """What decided about the queue when it was looked at last, and until when it holds."""
    look_at: float | None = None
    """When it is looked at again, where that was put off."""
    looked_at: float = -math.inf
    queue_waits: QueueWaits = field(default_factory=QueueWaits)
    waited_before: Mapping[str, float] = field(default_factory=dict[str, float])
    """How many seconds before this daemon each job was put into the queue, or ended."""

    def write(self, down: Callable[[], None]) -> None:
        """Write something down, if need be into the room of the ballast: what people ask
        for goes before what may be wanted later. Raises LedgerError: there is none."""
        try:
            down()
        except LedgerError as error:
            if error.busy or not self._give_room():
                raise
            down()

    def holders(self) -> dict[str, str]:
        """The job that each GPU is given to, by the GPU's UUID."""
        entries = self.entries.busy
        return {gpu: entry.name for entry in entries for gpu in entry.life.gpus}

    def jobs_view(self, counts: Mapping[tuple[JobState, str], int]) -> JobsView:
        """What the exporter tells of the jobs; ``counts``: as ``JobTable`` does."""
        now, entries = self.starter.clock.now(), self.entries
        queued = {entry.name: entry.row.owner for entry in entries.queued}
        self.queue_waits = self.queue_waits.seen(
            queued, now=now, earlier=self.waited_before
        )
        self.waited_before = {}  # what is queued from now on began to wait under us
        return JobsView(
            counts=counts,
            waits=self.queue_waits.longest(queued, now=now),
            holders={
                gpu: (entry.name, entry.row.owner)
                for entry in entries.busy
                for gpu in entry.life.gpus
            },
            unwritten=self._is_late(),
        )

    def load(self, *, before_each: Callable[[], None] = _nothing) -> None:
        """Take up all that the ledger knows. ``before_each``: called before each job, of
        which there may be much to read. Raises LedgerError."""
        self.paused_by = self.book.setting("paused_by")
        self.out_of_service = frozenset(self.book.setting("out_of_service") or ())
        runs = {run.job: run for run in self.starter.ledger.latest_runs()}
        specs, wall = self.book.specs(), self.starter.clock.wall()
        asked = self.book.asked_at()
        ends = {job: run.ended_at for job, run in runs.items() if run.ended_at}
        self.waited_before = {
            job: max(wall - max(asked.get(job, 0.0), ends.get(job, 0.0)), 0.0)
            for job in asked.keys() | ends.keys()
        }
        for row in self.book.jobs():
            before_each()
            try:
                spec = build_spec(specs.pop(row.name))
            except SpecError as error:
                text = f"the stored spec of {row.name} cannot be used: {error}"
                self.say(text, level=LogLevel.ERROR)
                continue
            entry = ManagedJob(row=row, spec=spec, life=JobLifecycle(job=row.name))
            self.entries[row.name] = entry
            self._recall(entry, runs.get(row.name))
        self.entries.changed()

    def _recall(self, entry: ManagedJob, run: RunRow | None) -> None:
        """What became of a job, and of its newest run, before this daemon began."""
        row, wanted = entry.row, entry.row.wanted is WantedState.RUN
        if run is None or row.fresh:
            entry.recall(recalled(row.name, wanted=wanted))
            return
        held = tuple(str(gpu) for gpu in run.spec.get("gpus") or ())
        if run.state.ended:
            # ended by the machine: nobody said stop
            again = self.starter.was_ended_by_the_machine(run) or row.again
            attempts = self.starter.ledger.attempts(run.id)
            last = attempts[-1] if attempts else None
            again = again or self._moves(entry, held, run.state, last)
            life = recalled(
                row.name,
                wanted=wanted,
                again=again,
                ended=self._stored(run),
                ended_at=self._ended_at(run),
            )
            entry.recall(life)
            return
        left = orphaned(row.name, wanted=wanted, again=row.again, gpus=held)
        entry.recall(left, orphan=run)
        self._adopt(entry, run)

    def _adopt(self, entry: ManagedJob, run: RunRow) -> None:
        """Look after a run that an earlier daemon had."""

        def adopted() -> tuple[Supervisor, JobEvent]:
            supervisor = self.starter.adopt(entry, run)
            trains = supervisor.run.state is JobState.LAUNCHING
            return supervisor, RunAdopted(trains=trains)

        self._attend(entry, adopted)
        if entry.life.supervised:
            entry.adopted()

    def _moves(
        self,
        entry: ManagedJob,
        held: tuple[str, ...],
        state: JobState,
        last: AttemptHistory | None,
    ) -> bool:
        """Whether it gave up for one of the GPUs it ``held``, and others would do."""
        return takes_another_turn(
            state,
            None if last is None else last.cause,
            counted=entry.spec.gpu_count is not None,
            held=held,
            quarantined=self._quarantined(),
        )

    def _stored(self, run: RunRow) -> JobStatus:
        now = self.starter.clock.now()
        ledger, paths = self.starter.ledger, self.starter.paths
        return stored_status(ledger, run, paths, now=now, keep=True)

    def _ended_at(self, run: RunRow) -> float:
        """When it ended, in monotonic seconds."""
        clock = self.starter.clock
        ago = 0.0 if run.ended_at is None else max(clock.wall() - run.ended_at, 0.0)
        return clock.now() - ago

    def advance(self, ready: Collection[int] | None = None) -> bool:
        """Let every run advance for which it is time, end those that are over, start
        whose turn it is; whether any did advance. ``ready``: the descriptors that are
        readable; None: it is time for all of them."""
        advanced = False
        for entry in list(self.entries.busy):
            if entry.orphan is not None and self._is_due(entry):
                self._adopt(entry, entry.orphan)
            if entry.supervisor is not None:
                if ready is None or _has_to_do(entry.supervisor, ready):
                    self._attempted(entry, entry.supervisor.advance)
                    advanced = True
                if _is_over(entry.supervisor):
                    self._end(entry, entry.supervisor)
        self._start_some()
        self._write_late()
        self._keep_room()
        return advanced

    def happen(
        self,
        entry: ManagedJob,
        event: JobEvent,
        *,
        first: Callable[[], None] = _nothing,
    ) -> None:
        """Move the life of a job on, and do what follows from it. ``first``: what is to
        be written down before that.

        Raises:
            SchedulerError: it cannot be; LedgerError: it could not be written down.
            Nothing was changed.
        """
        life, effects = step(entry.life, event, now=self.starter.clock.now())
        for effect in effects:
            if isinstance(effect, Decline):
                raise SchedulerError(effect.because)
        first()
        if NoteStarted() in effects:
            self._note_started(entry)
        if not isinstance(event, TurnAwaited):
            self.entries.changed()
        entry.move_on(life)
        for effect in effects:
            self._perform(entry, effect)

    def _perform(self, entry: ManagedJob, effect: JobEffect) -> None:
        match effect:
            case EndRun(by=by, at_once=at_once):
                self._end_run(entry, DrainRequested(by, at_once=at_once))
            case Announce(text=text, level=level):
                self.starter.say(entry.name, text, level=level)
            case NoteStarted() | Decline():
                return  # done before

    def _end_run(self, entry: ManagedJob, asked: DrainRequested) -> None:
        """What follows is begun when this returns, so that whoever asked can be told."""
        assert entry.supervisor is not None  # noqa: S101  # by the table
        entry.supervisor.post(asked)
        self._attempted(entry, entry.supervisor.heed)

    def _attempted(self, entry: ManagedJob, do: Callable[[], None]) -> None:
        """One run that meets a bad disk must not end the daemon of all."""
        try:
            do()
        except OSError as error:
            self.happen(entry, RunTroubled(str(error)))

    def _keep_room(self) -> None:
        """A full disk gets the ballast; when there is room again, it is taken up."""
        now = self.starter.clock.now()
        if self.ballast is None:
            return
        if self._is_late():
            self._give_room()
        elif now >= self.ballast_at:
            self.ballast_at = now + BALLAST_SECONDS
            self.ballast.hold()
            if self.ballast.held:
                self.ballast_given = False

    def _give_room(self) -> bool:
        """Give the ballast up; False: there is none (any more)."""
        if self.ballast is None or not self.ballast.drop():
            return False
        self.ballast_given = True
        text = "the disk is full: its ballast is given up, training goes on"
        self.say(text, level=LogLevel.WARNING)
        return True

    def disk_troubles(self) -> list[TroubleAt]:
        """What could not be written to the state directory, runs' own apart."""
        if not (self.unwritten or self.ballast_given):
            return []
        given = (
            "its ballast is given up" if self.ballast_given else "what was asked for"
        )
        trouble = DiskTrouble(job="", use=DiskUse.LEDGER, because=given)
        return [(self.starter.paths.root, trouble)]

    def _write_late(self) -> None:
        with contextlib.suppress(LedgerError):
            for name in list(self.unwritten):
                self.unwritten[name]()
                del self.unwritten[name]

    def _is_late(self) -> bool:
        """Whether something waits to be written down."""
        if self.unwritten:
            return True
        supervisors = (entry.supervisor for entry in self.entries.busy)
        return any(one is not None and one.recorder.late for one in supervisors)

    def wait_seconds(self, longest: float) -> float:
        """How long ``advance`` may be put off."""
        waits = [
            entry.supervisor.wait_seconds()
            for entry in self.entries.busy
            if entry.supervisor is not None
        ]
        if self.look_at is not None:
            waits.append(max(self.look_at - self.starter.clock.now(), 0.0))
        return min(waits, default=longest)

    @property
    def pressing(self) -> bool:
        """Whether a run has more to do than one ``advance`` did."""
        supervisors = (entry.supervisor for entry in self.entries.busy)
        return any(one is not None and one.pressing for one in supervisors)

    def descriptors(self) -> list[int]:
        """What becomes readable when ``advance`` has something to do."""
        supervisors = (entry.supervisor for entry in self.entries.busy)
        return [
            descriptor
            for supervisor in supervisors
            if supervisor is not None
            for descriptor in supervisor.descriptors()
        ]

    def _end(self, entry: ManagedJob, supervisor: Supervisor) -> None:
        supervisor.finish()
        run, last = supervisor.run, supervisor.run.history.last
        moves = self._moves(entry, entry.life.gpus, run.state, last)
        with contextlib.suppress(LedgerError):  # then in the next turn
            self.happen(entry, RunEnded(supervisor.status(), another_turn=moves))

    def _start_some(self) -> None:
        """Look at the queue again if what decides about it has changed."""
        if not self.entries.queued:
            return
        readings = self.starter.observer.readings()
        out = self.out_of_service | self._quarantined()
        out |= {one.uuid for one in readings if one.lost}
        usable = [gpu for gpu in self.gpus() if gpu not in out]
        numbers = [(one.index, one.uuid) for one in readings]
        decides = self.entries.changes, usable, numbers, self.paused_by
        now = self.starter.clock.now()
        if self.looked[0] == decides and now < self.looked[1]:
            return
        self.look_at = None
        if len(self.entries.queued) > LONG_QUEUE:
            earliest = self.looked_at + LOOK_SECONDS
            if now < earliest:
                self.look_at = earliest
                return
        self.looked_at = now
        later = [one.life.retry_at for one in self.entries.queued]
        self.looked = decides, min((at for at in later if at > now), default=math.inf)
        waiting = [one for one in self.entries.queued if now >= one.life.retry_at]
        if self.paused_by is not None:
            because = f"the box is paused by {self.paused_by}"
            self._wait({entry.name: because for entry in waiting})
        else:
            self._hand_out(waiting, usable, readings)

    def _wait(self, because: Mapping[str, str]) -> None:
        for name, reason in because.items():
            if self.entries[name].life.because != reason:
                self.happen(self.entries[name], TurnAwaited(reason))

    def _hand_out(
        self, waiting: list[ManagedJob], usable: list[str], readings: Sequence[Gpu]
    ) -> None:
        answer = assign(
            (entry.wish(readings) for entry in waiting),
            usable=usable,
            taken={
                entry.name: (entry.row.owner, entry.life.gpus)
                for entry in self.entries.busy
                if entry.life.active
            },
            quota=self.quota,
            cpu=self.cpu,
        )
        self._wait(answer.because)
        for start in answer.starts:
            self._start(self.entries[start.job], start.gpus)

    def kept_out(self) -> dict[str, frozenset[str]]:
        """The GPUs that are given to nobody, as the exporter tells it; what cannot be
        told now is left out."""
        out = {"out_of_service": self.out_of_service}
        with contextlib.suppress(LedgerError):
            kept = self.starter.ledger.quarantined()
            out["quarantine"] = frozenset(row.gpu for row in kept)
        return out

    def _quarantined(self) -> frozenset[str]:
        """GPUs that failed under a run, until a person returns them."""
        try:
            return frozenset(kept.gpu for kept in self.starter.ledger.quarantined())
        except LedgerError:
            return frozenset()  # the gate of whoever gets one asks again

    def _start(self, entry: ManagedJob, gpus: tuple[str, ...]) -> None:
        """Nothing is launched before it is written down that the job has begun: the next
        daemon would begin it anew."""
        self._attend(entry, lambda: (self.starter.start(entry, gpus), RunStarted(gpus)))

    def _note_started(self, entry: ManagedJob) -> None:
        self.book.begun(entry.name)
        entry.has_begun()

    def _is_due(self, entry: ManagedJob) -> bool:
        return self.starter.clock.now() >= entry.life.retry_at

    def _attend(
        self, entry: ManagedJob, make: Callable[[], tuple[Supervisor, JobEvent]]
    ) -> None:
        """Give a job its supervisor, or a reason why it has none."""
        path = self.starter.paths.lock(entry.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if entry.claim(path):
                supervisor, event = make()
                entry.attend(supervisor)
                self.happen(entry, event)
            else:
                self.happen(entry, StartPostponed("another process supervises it"))
        except (SchedulerError, StartRefusedError) as error:
            self.happen(entry, StartDenied(str(error)))
        except LedgerError as error:
            self.happen(entry, StartPostponed(str(error)))
        except OSError as error:
            self.happen(entry, StartPostponed(f"{error.strerror}: {error.filename}"))


def _has_to_do(supervisor: Supervisor, ready: Collection[int]) -> bool:
    """Whether it is time for it to advance: soon is now, so that runs share a turn."""
    due = supervisor.wait_seconds() <= SOON_SECONDS
    return due or any(one in ready for one in supervisor.descriptors())


def _is_over(supervisor: Supervisor) -> bool:
    """Whether a run has ended, and all of it is written down: what is not yet would be
    lost with the one who knows it."""
    return supervisor.exit_code is not None and not supervisor.recorder.late
