"""All jobs of this machine: whose turn it is, what runs, what has ended.

Everything here runs in the one thread of the loop, and nothing waits.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from supervisor.core.backoff import doubled
from supervisor.core.jobs.job_status import JobState, JobStatus
from supervisor.core.jobs.resume_decision import StartRefusedError
from supervisor.core.jobs.scheduling import assign, takes_another_turn
from supervisor.core.jobs.spec import SpecError, build_spec
from supervisor.core.lifecycle.events import DrainRequested, Event
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.daemon.managed_job import ManagedJob, SchedulerError
from supervisor.daemon.run_starter import RunStarter
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.job_book import JobBook
from supervisor.host.ledger.ledger import LedgerError, RunRow
from supervisor.host.service.lock import acquire
from supervisor.runtime.status_builder import stored_status
from supervisor.runtime.supervisor import Supervisor

SOON_SECONDS = 0.5
"""A run whose time comes so soon advances together with others: to wake up costs more
than to look."""
BALLAST_SECONDS = 10.0
"""How often room for the ballast is looked for."""
RETRY_SECONDS_MOST = 60.0
"""What could not be done is tried again 1, 2, 4 … seconds later, at most this."""


@dataclass(kw_only=True)
class Scheduler:
    """The jobs and the GPUs."""

    book: JobBook
    starter: RunStarter
    gpus: Callable[[], tuple[str, ...]]
    """The GPUs of this box, by UUID."""
    quota: int | None = None
    say: Notifier
    entries: dict[str, ManagedJob] = field(default_factory=dict[str, ManagedJob])
    paused_by: str | None = None
    out_of_service: frozenset[str] = frozenset()
    problems: list[str] = field(default_factory=list[str])
    """Of job files, as they were when they were last read."""
    ballast: Ballast | None = None
    ballast_at: float = 0.0

    def load(self) -> None:
        """Take up all that the ledger knows. Raises LedgerError."""
        self.paused_by = self.book.setting("paused_by")
        self.out_of_service = frozenset(self.book.setting("out_of_service") or ())
        for row in self.book.jobs():
            try:
                entry = ManagedJob(row=row, spec=build_spec(row.spec))
            except SpecError as error:
                text = f"the stored spec of {row.name} cannot be used: {error}"
                self.say(text, level=LogLevel.ERROR)
                continue
            self.entries[row.name] = entry
            self._recall(entry)

    def _recall(self, entry: ManagedJob) -> None:
        """What became of a job before this daemon began."""
        run = self.starter.ledger.latest_run(entry.name)
        if run is None or entry.row.fresh:
            return
        if self.starter.was_ended_by_the_machine(run):
            return  # and nobody said stop: it takes its turn again
        held = tuple(str(gpu) for gpu in run.spec.get("gpus") or ())
        attempts = self.starter.ledger.attempts(run.id)
        if self._moves(entry, held, run.state, attempts[-1] if attempts else None):
            return
        if run.state.ended and entry.row.again:
            return  # it was asked to start, and waits for its turn
        if run.state.ended:
            entry.over = True
            entry.ended = self._stored(run)
            return
        entry.left, entry.gpus = run, held
        self._take_up(entry, run)

    def _take_up(self, entry: ManagedJob, run: RunRow) -> None:
        """Look after a run that an earlier daemon had. Until that can be done its
        training may go on by itself: its GPUs are nobody else's."""
        self._attend(entry, lambda: self._adopted(entry, run))
        if entry.supervisor is not None:
            entry.left = None

    def _adopted(self, entry: ManagedJob, run: RunRow) -> Supervisor:
        supervisor = self.starter.adopt(entry, run)
        if entry.row.again and supervisor.run.state is JobState.LAUNCHING:
            entry.again = True  # it still runs: the restart is not done
            supervisor.post(DrainRequested("an earlier restart"))
        elif entry.row.again:
            self._note_begun(entry)
        return supervisor

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
        return stored_status(self.starter.ledger, run, self.starter.paths, now=now)

    def advance(self, ready: Collection[int] | None = None) -> bool:
        """Let every run advance for which it is time, end those that are over, start
        whose turn it is; whether any did advance. ``ready``: the descriptors that are
        readable; None: it is time for all of them."""
        advanced = False
        for entry in list(self.entries.values()):
            if entry.left is not None and self._is_due(entry):
                self._take_up(entry, entry.left)
            if entry.supervisor is not None:
                if ready is None or _has_to_do(entry.supervisor, ready):
                    self._attempted(entry, entry.supervisor.advance)
                    advanced = True
                if _is_over(entry.supervisor):
                    self._end(entry)
        self._start_some()
        self._keep_room()
        return advanced

    def ask(self, entry: ManagedJob, event: Event) -> None:
        """Something is asked of the run of a job, if it runs: what follows is begun when
        this returns, so that whoever asked can be told."""
        if entry.supervisor is not None:
            entry.supervisor.post(event)
            self._attempted(entry, entry.supervisor.heed)

    def _attempted(self, entry: ManagedJob, do: Callable[[], None]) -> None:
        """One run that meets a bad disk must not end the daemon of all."""
        try:
            do()
        except OSError as error:
            if entry.because != str(error):
                text = f"cannot be looked after: {error}"
                self.starter.say(entry.name, text, level=LogLevel.WARNING)
            entry.because = str(error)

    def _keep_room(self) -> None:
        """A full disk gets the ballast; when there is room again, it is taken up."""
        now = self.starter.clock.now()
        if self.ballast is None:
            return
        if self._is_late():
            if self.ballast.drop():
                text = "the disk is full: its ballast is given up, training goes on"
                self.say(text, level=LogLevel.WARNING)
        elif now >= self.ballast_at:
            self.ballast_at = now + BALLAST_SECONDS
            self.ballast.hold()

    def _is_late(self) -> bool:
        """Whether something waits to be written down."""
        supervisors = (entry.supervisor for entry in self.entries.values())
        return any(one is not None and one.recorder.late for one in supervisors)

    def wait_seconds(self, longest: float) -> float:
        """How long ``advance`` may be put off."""
        waits = (
            entry.supervisor.wait_seconds()
            for entry in self.entries.values()
            if entry.supervisor is not None
        )
        return min(waits, default=longest)

    @property
    def pressing(self) -> bool:
        """Whether a run has more to do than one ``advance`` did."""
        supervisors = (entry.supervisor for entry in self.entries.values())
        return any(one is not None and one.pressing for one in supervisors)

    def descriptors(self) -> list[int]:
        """What becomes readable when ``advance`` has something to do."""
        supervisors = (entry.supervisor for entry in self.entries.values())
        return [
            descriptor
            for supervisor in supervisors
            if supervisor is not None
            for descriptor in supervisor.descriptors()
        ]

    def _end(self, entry: ManagedJob) -> None:
        supervisor = entry.supervisor
        assert supervisor is not None  # noqa: S101  # asked by who calls
        supervisor.finish()
        run = supervisor.run
        if self._moves(entry, entry.gpus, run.state, run.history.last):
            self.starter.say(entry.name, "takes its turn again, for another GPU")
            entry.again = True
        entry.ended, entry.supervisor, entry.gpus = supervisor.status(), None, ()
        finished = run.state is JobState.FINISHED  # by itself, before it was restarted
        if finished and entry.row.again:
            with contextlib.suppress(LedgerError):
                self._note_begun(entry)
        entry.over, entry.again = finished or not entry.again, False
        if entry.over and run.state is JobState.DRAINED:
            self.starter.say(entry.name, f"trainwarden start {entry.name} resumes it")
        entry.unlock()

    def _start_some(self) -> None:
        entries = self.entries.values()
        waiting = [entry for entry in entries if entry.waits and self._is_due(entry)]
        if not waiting:
            return
        if self.paused_by is not None:
            for entry in waiting:
                entry.because = f"the box is paused by {self.paused_by}"
            return
        out = self.out_of_service | self._quarantined()
        usable = [gpu for gpu in self.gpus() if gpu not in out]
        readings = self.starter.observer.readings()
        answer = assign(
            (entry.wish(readings) for entry in waiting),
            usable=usable,
            taken={
                entry.name: (entry.row.owner, entry.gpus)
                for entry in entries
                if entry.active
            },
            quota=self.quota,
        )
        for name, because in answer.because.items():
            self.entries[name].because = because
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
        self._attend(entry, lambda: self._begun(entry, gpus))
        if entry.supervisor is not None:
            entry.gpus = gpus

    def _begun(self, entry: ManagedJob, gpus: tuple[str, ...]) -> Supervisor:
        """Nothing is launched before it is written down that the job has begun: the next
        daemon would begin it anew."""
        supervisor = self.starter.start(entry, gpus)
        self._note_begun(entry)
        return supervisor

    def _note_begun(self, entry: ManagedJob) -> None:
        self.book.begun(entry.name)
        entry.row = dataclasses.replace(
            entry.row, fresh=False, accept_changes=False, again=False
        )

    def _is_due(self, entry: ManagedJob) -> bool:
        return self.starter.clock.now() >= entry.retry_at

    def _attend(self, entry: ManagedJob, make: Callable[[], Any]) -> None:
        """Give an entry its supervisor, or a reason why it has none."""
        path = self.starter.paths.lock(entry.name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            entry.lock = acquire(path)
            if entry.lock is None:
                self._postpone(entry, "another process supervises it")
            else:
                entry.supervisor = make()
                entry.retry_at, entry.tries = 0.0, 0
        except (SchedulerError, StartRefusedError) as error:
            self._refuse(entry, str(error))
        except LedgerError as error:
            self._postpone(entry, str(error))
        except OSError as error:
            self._postpone(entry, f"{error.strerror}: {error.filename}")

    def _refuse(self, entry: ManagedJob, problem: str) -> None:
        """A person has to do something first; for a run that goes on by itself, it is
        only not looked after until then."""
        if entry.left is not None:
            self._postpone(entry, problem)
            return
        entry.unlock()
        if entry.because != problem:
            text = f"cannot start: {problem}"
            self.starter.say(entry.name, text, level=LogLevel.ERROR)
        entry.because, entry.over = problem, True
        entry.ended = dataclasses.replace(entry.status(), message=problem)

    def _postpone(self, entry: ManagedJob, problem: str) -> None:
        """Such as a full disk: that passes by."""
        entry.unlock()
        what = "cannot start" if entry.left is None else "cannot be looked after"
        because = f"{what}, tried again and again: {problem}"
        if entry.because != because:
            self.starter.say(entry.name, because, level=LogLevel.WARNING)
        entry.because = because
        wait = doubled(1.0, times=entry.tries, most_seconds=RETRY_SECONDS_MOST)
        entry.retry_at = self.starter.clock.now() + wait
        entry.tries += 1


def _has_to_do(supervisor: Supervisor, ready: Collection[int]) -> bool:
    """Whether it is time for it to advance: soon is now, so that runs share a turn."""
    due = supervisor.wait_seconds() <= SOON_SECONDS
    return due or any(one in ready for one in supervisor.descriptors())


def _is_over(supervisor: Supervisor) -> bool:
    """Whether a run has ended, and all of it is written down: what is not yet would be
    lost with the one who knows it."""
    return supervisor.exit_code is not None and not supervisor.recorder.late
