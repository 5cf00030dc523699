"""The recorder of a run: in order, once, and later where the disk is full now."""

import contextlib
from collections.abc import Callable, Generator
from dataclasses import asdict, dataclass, field

from supervisor.core.jobs.job_status import JobState, state_words
from supervisor.core.lifecycle.effects import (
    Effect,
    Quarantine,
    RecordIncident,
    ReviseAdvice,
    UpdateIncident,
)
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.metrics.run_counters import (
    KEPT_SECONDS,
    KeptSeconds,
    RunCounters,
)
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.overrides import NOTHING
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.host.ledger.ballast import Ballast
from supervisor.host.ledger.ledger import Ledger, LedgerError, RunRow
from supervisor.host.service.clock import Clock

SNAPSHOT_SECONDS = 300.0
"""How long the news of a newer snapshot may wait to be written down: that waits for the
disk, and everybody whom the loop serves with it. How far an attempt came is asked of its
snapshots themselves, once it has ended."""

NOT_WRITTEN = (
    "{}. This run is {}, and that could not be written down: status and history say something"
    " else of it, and the same command would go on from its newest snapshot"
)


@dataclass(kw_only=True)
class RunRecorder:
    """What becomes of one run, on its way to the ledger."""

    row: RunRow
    ledger: Ledger
    clock: Clock
    say: Notifier
    ballast: Ballast | None = None
    """Room for what has to be written at the end; None: somebody else keeps it."""
    _unwritten: list[Callable[[], None]] = field(
        default_factory=list[Callable[[], None]]
    )
    _open: bool = False
    _newer: AttemptHistory | None = None
    """The attempt, where nothing but its newest snapshot is still to be written down."""
    _newer_due: float = 0.0
    problem: LedgerError | None = None
    """Why the ledger could not be written the last time; None: it could."""
    between: RunCounters = field(init=False)
    """The time between attempts."""
    _between_due: float = 0.0

    def __post_init__(self) -> None:
        kept = self.row.between_attempts
        wall = self.clock.wall()
        self.between = RunCounters(
            seconds={} if kept is None else kept.taken_up(wall=wall)
        )

    @property
    def late(self) -> bool:
        """Whether something waits to be written down."""
        return self.problem is not None

    def changes(self, before: RunState, run: RunState) -> None:
        """Write down what a step changed."""
        last, known = run.history.last, before.history.last
        if last is not None and last is not known and last != known:
            if known is not None and last.only_saved_since(known):
                self._put_off(last)
            else:
                self.attempt(last)
        self.see(run.state)
        stored = (run.state, run.message, run.overrides)
        if stored != (before.state, before.message, before.overrides):
            self._state(run)
        if run.offer is not before.offer:
            offer = run.offer
            self._put(lambda: self.ledger.put_offer(self.row.id, offer))

    def see(self, state: JobState) -> None:
        """The run is in ``state`` now: count the time that it has no attempt."""
        before, now = self.between, self.clock.now()
        self.between = before.seen_in(state, now=now)
        due = self.between.goes_on is not None and now >= self._between_due
        if not due and not self.between.is_news(before):
            return
        self._between_due = now + KEPT_SECONDS
        kept = KeptSeconds(
            seconds=self.between.seconds,
            goes_on=self.between.goes_on,
            at=self.clock.wall(),
        )
        self._put(lambda: self.ledger.put_between(self.row.id, kept))

    def attempt(self, attempt: AttemptHistory) -> None:
        """What is known of an attempt."""
        self._newer = None
        wall = self.clock.wall()
        self._put(lambda: self.ledger.put_attempt(self.row.id, attempt, now=wall))

    def _put_off(self, attempt: AttemptHistory) -> None:
        """It has a newer snapshot, and that is all."""
        if self._newer is None:
            self._newer_due = self.clock.now() + SNAPSHOT_SECONDS
        self._newer = attempt

    def _state(self, run: RunState) -> None:
        overrides = None if run.overrides == NOTHING else asdict(run.overrides)
        ended = self.clock.wall() if run.state.ended else None
        self._put(
            lambda: self.ledger.set_state(
                self.row.id,
                state=run.state,
                message=run.message,
                overrides=overrides,
                ended_at=ended,
            )
        )

    def effect(self, effect: Effect) -> None:
        """An incident, what became of one, or GPUs to keep out of use."""
        ledger, run, wall = self.ledger, self.row.id, self.clock.wall()
        match effect:
            case RecordIncident():
                self._put(lambda: ledger.record_incident(run, effect, now=wall))
            case Quarantine():
                self._put(lambda: ledger.quarantine(run, effect, now=wall))
            case UpdateIncident():
                self._put(lambda: ledger.update_incident(run, effect))
            case ReviseAdvice():
                self._put(lambda: ledger.revise_advice(run, effect))
            case _:
                return

    def quarantined(self) -> frozenset[str] | None:
        """GPUs that are out of use, whoever said so; None: that cannot be told now."""
        try:
            kept = self.ledger.quarantined()
        except LedgerError:
            return None
        return None if self._unwritten else frozenset(row.gpu for row in kept)

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """What is told in here is written in one transaction: after a crash of ours
        all of it is there, or none."""
        self._open = True
        try:
            yield
        finally:
            self._open = False
            self.flush()

    def _put(self, write: Callable[[], None]) -> None:
        self._unwritten.append(write)
        if not self._open:
            self.flush()

    def finish(self, state: JobState) -> None:
        """The run has ended in ``state``: write down all of it, on a full disk into the room
        of the ballast. What cannot be is said: nobody would know of it later."""
        self.flush()
        ballast = self.ballast
        if self.problem is not None and ballast is not None and ballast.drop():
            self.flush()
        if self.problem is not None:
            said = NOT_WRITTEN.format(self.problem, state_words(state))
            self.say(said, level=LogLevel.ERROR)
        if ballast is not None:
            ballast.drop()

    def flush(self) -> None:
        """Write what is due, in order; a full disk delays it, and loses nothing."""
        if self._newer is not None and self.clock.now() >= self._newer_due:
            self.attempt(self._newer)
        if not self._unwritten:
            return
        try:
            with self.ledger.transaction():
                for write in self._unwritten:
                    write()
        except LedgerError as error:
            if not self.late:
                said = f"{error}; training goes on, this is written down later"
                self.say(said, level=LogLevel.WARNING)
            self.problem = error
            return
        self._unwritten.clear()
        self.problem = None
