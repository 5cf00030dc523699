"""All jobs of this machine: whose turn it is, what runs, what has ended.

Everything here runs in the one thread of the loop, and nothing waits.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from supervisor.core.history import AttemptHistory
from supervisor.core.placement import GpuReading, named
from supervisor.core.queue import Waiting, assign, takes_another_turn
from supervisor.core.spec import SpecError, build_spec
from supervisor.core.start import StartRefusedError
from supervisor.core.status import JobState, JobStatus
from supervisor.daemon.entries import BoxError, Entry
from supervisor.daemon.starting import Starter
from supervisor.host.ballast import Ballast
from supervisor.host.ledger import LedgerError, RunRow
from supervisor.host.ledger_jobs import JobBook
from supervisor.host.lock import acquire
from supervisor.host.status import stored_status
from supervisor.supervise import Supervisor

BALLAST_SECONDS = 10.0
"""How often room for the ballast is looked for."""


@dataclass(kw_only=True)
class Box:
    """The jobs and the GPUs."""

    book: JobBook
    starter: Starter
    gpus: Callable[[], tuple[str, ...]]
    """The GPUs of this box, by UUID."""
    quota: int | None = None
    say: Callable[[str], None]
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
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
                entry = Entry(row=row, spec=build_spec(row.spec))
            except SpecError as error:
                self.say(f"the stored spec of {row.name} cannot be used: {error}")
                continue
            self.entries[row.name] = entry
            self._recall(entry)

    def _recall(self, entry: Entry) -> None:
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
        if run.state.ended:
            entry.over = True
            entry.ended = self._stored(run)
            return
        self._attend(entry, lambda: self.starter.adopt(entry, run))
        entry.gpus = held

    def _moves(
        self,
        entry: Entry,
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

    def advance(self) -> None:
        """Let every run advance, end those that are over, start whose turn it is."""
        for entry in list(self.entries.values()):
            if entry.supervisor is not None:
                self._advance(entry, entry.supervisor)
                if entry.supervisor.exit_code is not None:
                    self._end(entry)
        self._start_some()
        self._keep_room()

    def _advance(self, entry: Entry, supervisor: Supervisor) -> None:
        """One run that meets a bad disk must not end the daemon of all."""
        try:
            supervisor.advance()
        except OSError as error:
            if entry.because != str(error):
                self.starter.say(entry.name, f"cannot be looked after: {error}")
            entry.because = str(error)

    def _keep_room(self) -> None:
        """A full disk gets the ballast; when there is room again, it is taken up."""
        now = self.starter.clock.now()
        if self.ballast is None:
            return
        if self._is_late():
            if self.ballast.drop():
                self.say("the disk is full: its ballast is given up, training goes on")
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

    def descriptors(self) -> list[int]:
        """What becomes readable when ``advance`` has something to do."""
        supervisors = (entry.supervisor for entry in self.entries.values())
        return [
            descriptor
            for supervisor in supervisors
            if supervisor is not None
            for descriptor in supervisor.descriptors()
        ]

    def _end(self, entry: Entry) -> None:
        supervisor = entry.supervisor
        assert supervisor is not None  # noqa: S101  # asked by who calls
        supervisor.finish()
        run = supervisor.run
        if self._moves(entry, entry.gpus, run.state, run.history.last):
            self.starter.say(entry.name, "takes its turn again, for another GPU")
            entry.again = True
        entry.ended, entry.supervisor, entry.gpus = supervisor.status(), None, ()
        entry.over, entry.again = not entry.again, False
        if entry.lock is not None:
            entry.lock.release()
            entry.lock = None

    def _start_some(self) -> None:
        waiting = [entry for entry in self.entries.values() if entry.waits]
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
            (_wish(entry, readings) for entry in waiting),
            usable=usable,
            taken={
                entry.name: (entry.row.owner, entry.gpus)
                for entry in self.entries.values()
                if entry.supervisor is not None
            },
            quota=self.quota,
        )
        for name, because in answer.because.items():
            self.entries[name].because = because
        for start in answer.starts:
            self._start(self.entries[start.job], start.gpus)

    def _quarantined(self) -> frozenset[str]:
        """GPUs that failed under a run, until a person returns them."""
        try:
            return frozenset(kept.gpu for kept in self.starter.ledger.quarantined())
        except LedgerError:
            return frozenset()  # the gate of whoever gets one asks again

    def _start(self, entry: Entry, gpus: tuple[str, ...]) -> None:
        self._attend(entry, lambda: self.starter.start(entry, gpus))
        if entry.supervisor is not None:
            entry.gpus = gpus
            self.book.begun(entry.name)
            entry.row = dataclasses.replace(
                entry.row, fresh=False, accept_changes=False
            )

    def _attend(self, entry: Entry, make: Callable[[], Any]) -> None:
        """Give an entry its supervisor, or a reason why it has none."""
        path = self.starter.paths.lock(entry.name)
        problem: str | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = acquire(path)
            if lock is None:
                entry.because = "another process supervises it"
                return
            entry.lock = lock
            entry.supervisor = make()
        except (BoxError, StartRefusedError, LedgerError) as error:
            problem = str(error)
        except OSError as error:
            problem = f"{error.strerror}: {error.filename}"
        if problem is not None:
            self._refuse(entry, problem)

    def _refuse(self, entry: Entry, problem: str) -> None:
        if entry.lock is not None:
            entry.lock.release()
            entry.lock = None
        if entry.because != problem:
            self.starter.say(entry.name, f"cannot start: {problem}")
        entry.because, entry.over = problem, True
        entry.ended = dataclasses.replace(entry.status(), message=problem)


def _wish(entry: Entry, readings: Sequence[GpuReading]) -> Waiting:
    """What a job asks for. One that asks for no GPU gets none: those of the box are not
    all its own, as they are in the foreground."""
    spec = entry.spec
    chosen = None
    if spec.gpus is not None:
        chosen = tuple(dict.fromkeys(named(spec.gpus, readings)))
    return Waiting(
        job=entry.name,
        owner=entry.row.owner,
        wants=spec.gpu_count or 0 if chosen is None else chosen,
        priority=spec.priority,
        turn=entry.row.turn,
    )
