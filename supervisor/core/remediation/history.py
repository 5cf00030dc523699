"""The history of a run: what became of its attempts, as a remedy looks back on them.

A run may have any number of attempts, its history may not: of those that lie before the
newest progress only what still decides something is kept (``History.thinned``).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise, takewhile

from supervisor.core.advisories.advisory import Advisory, AdvisoryKind
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import AskedEnd, RemedyKind
from supervisor.core.liveness.progress_intervals import ProgressIntervals, together
from supervisor.core.memory.fit_memory import FitMemory
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.remediation.proofs import ResumeProof
from supervisor.wire.records.oom_subject import OomSubject
from supervisor.wire.snapshots.proof import Proof

KEPT = 256
"""Attempts kept whole, at least; thinned when there are twice as many."""
KEPT_RECOVERIES = 32
"""Failures that one process went on after that are kept: more than any budget counts."""
LANDMARKS = 64
"""Older ones that are kept whole, at most."""
KILLS_BEFORE_A_STEP = 10
"""So many in a row, none of which made a step of its own, are no accident. More than
other failures get: starting takes minutes, in which a box that shuts down, or somebody
who stops one process after the other, may well kill several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpromised:
    """A call of ``fit`` that is not promised to end to the bit as it would have."""

    fit: int | None
    """Its number, from 0; None: it is of the whole run, or an older version did not tell."""
    because: str


def weakest(told: Iterable[Unpromised | None]) -> Unpromised | None:
    """The first of ``told``, of the earliest call: all that follows builds on it."""
    found = [one for one in told if one is not None]
    return min(found, key=lambda one: -1 if one.fit is None else one.fit, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptHistory(FitMemory):
    """One attempt, and what its newest call of ``fit`` showed. None: not known."""

    number: int
    cause: Cause | None = None
    """None while it runs."""
    error: str | None = None
    """What it said itself as it failed, in one line; None: it did not, or it is not known."""
    outside: bool = False
    """Whether kernel or systemd tell that somebody outside ended it."""
    asked: AskedEnd | None = None
    """How it ended as we had asked it to; None: we had not, or an older version did not
    keep it."""
    started: bool = True
    """False: no process came of it, so it tells nothing about training."""
    remedy: RemedyKind | None = None
    """What was done about its end."""
    remedy_step: str | None = None
    """Which remedy step of the cause's escalation that was."""
    overrides: Overrides | None = None
    """What was in force in it; None: nothing that a remedy had asked for."""
    applied: Mapping[str, bool] | None = None
    """What it said of all that remedies asked for (``confirmation.NAMES``): whether it
    is in force. None: nothing was asked, or nobody heard of it yet."""
    unmet: Mapping[str, object] = field(default_factory=dict[str, object])
    """What was asked for and did not come into force in it (``overrides.described``)."""
    restored_step: int | None = None
    """The step it went on from; None: it never got that far."""
    last_step: int | None = None
    """Steps of the run that were done when it ended."""
    snapshot_step: int | None = None
    """Newest whole snapshot when it ended; 0 where there was none."""
    earlier_fits: tuple[FitMemory, ...] = ()
    """What was measured in earlier calls, oldest first."""
    subject: OomSubject | None = None
    """What memory was asked for when it ran out; None: it did not, or not known."""
    unpromised: Unpromised | None = None
    """The first call of which bits are not promised; None: there was none."""
    proof: ResumeProof | None = None
    """Of its resume."""
    advisories: tuple[Advisory, ...] = ()
    """What makes it slower or larger than it need be, and what did for a while."""
    rss_bytes: int | None = None
    """Host memory of the training process at its end."""
    intervals: tuple[ProgressIntervals, ...] = ()
    """How long it took from one sign of progress to the next, by phase."""
    recovery: int = 0
    """Which failure of its process it went on after, from 1; 0: it is the whole attempt."""
    recoveries: tuple["AttemptHistory", ...] = ()
    """Itself as it was at each of the newest failures that its process went on after."""

    @property
    def ends(self) -> tuple["AttemptHistory", ...]:
        """Each of its failures, and last its end, or how it is now."""
        return (*self.recoveries, self)

    @property
    def recovered(self) -> int:
        """How many failures its process went on after."""
        return self.recoveries[-1].recovery if self.recoveries else 0

    def went_on(self, ended: "AttemptHistory", **known: object) -> "AttemptHistory":
        """It goes on in its process after ``ended``, with what is ``known`` from there."""
        kept = (*self.recoveries, replace(ended, recoveries=()))[-KEPT_RECOVERIES:]
        return replace(self, recoveries=kept, **known)  # type: ignore[arg-type]  # by name

    @property
    def fit_memory(self) -> FitMemory:
        """What the newest call showed, without the attempt."""
        return FitMemory(
            **{one.name: getattr(self, one.name) for one in fields(FitMemory)}
        )

    @property
    def trained(self) -> bool:
        """Whether it made a step."""
        return (self.last_step or 0) > (self.restored_step or 0)

    @property
    def disproved(self) -> bool:
        """Whether its resume did not continue to the bit."""
        return self.proof is not None and self.proof.result is Proof.DIFFERS

    def only_saved_since(self, before: "AttemptHistory") -> bool:
        """Whether it is as it was ``before``, but for a newer snapshot than it had."""
        had = before.snapshot_step
        return had is not None and replace(self, snapshot_step=had) == before


RemedySteps = Counter[tuple[Cause, str]]
"""How often each remedy step was used, by the cause it was used for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Attempts that are not kept any more, added up."""

    failures: int = 0
    trained: bool = False
    """Whether one that counts made a step."""
    remedy_steps: RemedySteps = field(default_factory=RemedySteps)
    """Those of attempts that count."""
    intervals: tuple[ProgressIntervals, ...] = ()
    unpromised: Unpromised | None = None
    proofs: Counter[Proof] = field(default_factory=Counter[Proof])
    proof_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The attempts of a run, oldest first."""

    attempts: tuple[AttemptHistory, ...] = ()
    """The newest, and a few older ones."""
    past: Past = Past()
    """The others."""
    budget_since: int = 1
    """Number of the first attempt that counts against budgets: when a person starts
    a run again, old failures stay known but are forgiven."""

    @property
    def last(self) -> AttemptHistory | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None

    @property
    def ends(self) -> tuple[AttemptHistory, ...]:
        """Of all attempts, their failures in one process among them, oldest first."""
        return tuple(end for attempt in self.attempts for end in attempt.ends)

    @property
    def batch(self) -> int | None:
        """The effective batch, as the newest attempt that knew it had it."""
        known = [a.batch for a in self.attempts if a.batch is not None]
        return known[-1] if known else None

    @property
    def unmet(self) -> dict[str, object]:
        """What was asked for and did not come into force, in any attempt that counts:
        whoever starts a run again may have changed what stood in the way."""
        return {
            name: value
            for attempt in self._counted()
            for name, value in attempt.unmet.items()
        }

    @property
    def failures(self) -> int:
        """How many attempts came to an end that nobody wanted."""
        wanted = {None, Cause.NONE, Cause.PREEMPTED}
        known = sum(one.cause not in wanted for one in self.ends)
        return known + self.past.failures

    @property
    def trained(self) -> bool:
        """Whether any attempt made a step since a person started the run."""
        return self.past.trained or any(one.trained for one in self._counted())

    @property
    def fits(self) -> tuple[FitMemory, ...]:
        """What is known of the calls of ``fit`` of all attempts; the newest is last."""
        return tuple(
            one for a in self.attempts for one in (*a.earlier_fits, a.fit_memory)
        )

    @property
    def unpromised(self) -> Unpromised | None:
        """The weakest promise of all calls of ``fit``; None: bits are promised."""
        return weakest((self.past.unpromised, *(a.unpromised for a in self.attempts)))

    def proofs(self, *, overrides: Overrides | None) -> Counter[Proof]:
        """What came of the proofs with these in force."""
        return _proofs(a for a in self.ends if a.overrides == overrides)

    @property
    def all_proofs(self) -> Counter[Proof]:
        """What came of the proofs of all resumes."""
        return self.past.proofs + _proofs(self.ends)

    @property
    def proof_seconds(self) -> float:
        """What they took together."""
        known = (a.proof.seconds or 0.0 for a in self.ends if a.proof is not None)
        return self.past.proof_seconds + sum(known)

    @property
    def newest_proof(self) -> ResumeProof | None:
        """Of the newest attempt that said how it came out."""
        told = (a.proof for a in reversed(self.ends) if a.proof is not None)
        return next((one for one in told if one.result is not Proof.BEGUN), None)

    @property
    def advisories(self) -> dict[AdvisoryKind, tuple[int, Advisory]]:
        """The newest of each kind, and the attempt that it is about."""
        return {
            one.kind: (attempt.number, one)
            for attempt in self.attempts
            for one in attempt.advisories
        }

    @property
    def intervals(self) -> dict[str, ProgressIntervals]:
        """How long progress usually took, by phase."""
        known = (one for attempt in self.attempts for one in attempt.intervals)
        return together((*self.past.intervals, *known))

    @property
    def hangs(self) -> int:
        """How many restarts in a row, up to now, that followed a hang brought no progress."""
        last = self.last
        if last is None or last.cause is not Cause.STALLED:
            return 0
        return self.fruitless(Cause.STALLED)

    @property
    def earlier(self) -> "History":
        """Without the newest attempt: as it was when that was launched."""
        return replace(self, attempts=self.attempts[:-1])

    def begun(self, number: int) -> "History":
        """With a new attempt at the end."""
        longer = (*self.attempts, AttemptHistory(number=number))
        return replace(self, attempts=longer).thinned()

    def updated(self, **known: object) -> "History":
        """With the newest attempt changed. Without attempts: unchanged."""
        if not self.attempts:
            return self
        newest = replace(self.attempts[-1], **known)  # type: ignore[arg-type]  # by name
        return replace(self, attempts=(*self.attempts[:-1], newest))

    def fruitless(self, cause: Cause | None = None, *, outside: bool = False) -> int:
        """Restarts in a row, up to now, that brought no newer snapshot.

        With ``cause`` the row ends at a failure of another cause. An attempt whose
        snapshots are not known neither counts nor ends the row. Nor does a snapshot
        that only lies nearer to the step at which it failed for the same cause again.
        What was ended from outside counts only with ``outside``: it says nothing about
        training, unless that ends at one and the same step each time, or never begins.
        """
        row = self._row(cause, outside=outside)
        known = sum(a.snapshot_step is not None for a in row)
        return max(known - 1, 0)

    def same_end(self, cause: Cause | None = None) -> int | None:
        """The step after which restarts that count as fruitless ended once more, though they
        had a newer snapshot, the newest of them; None: none had one."""
        row = [a for a in self._row(cause) if a.snapshot_step is not None]
        return next(
            (
                newer.last_step
                for newer, older in pairwise(row)
                if (newer.snapshot_step or 0) > (older.snapshot_step or 0)
            ),
            None,
        )

    def unknown(self) -> int:
        """Restarts in a row of which nobody knows whether they brought anything."""
        counted = self._counted()[1:]
        rows = [a.snapshot_step is None for a in reversed(counted) if not a.outside]
        return rows.index(False) if False in rows else len(rows)

    def unstarted(self) -> int:
        """Launches in a row, up to now, that no process came of."""
        count = 0
        for attempt in reversed(self.attempts):
            if attempt.started or attempt.number < self.budget_since:
                break
            count += 1
        return count

    def tried(self, cause: Cause) -> Counter[str]:
        """How often each remedy step was used for ``cause`` since there was progress."""
        return _remedy_steps(self._row(None), cause)

    def ever_tried(self, cause: Cause) -> Counter[str]:
        """How often each remedy step was used for ``cause`` since a person started the run."""
        past = self.past.remedy_steps.items()
        before = Counter({step: times for (of, step), times in past if of is cause})
        return _remedy_steps(self._counted(), cause) + before

    def thinned(self, kept: int = KEPT) -> "History":
        """The same to all who ask, in bounded room.

        Unchanged up to twice ``kept`` attempts; what lies behind the newest progress is
        never touched, since budgets count it one by one.
        """
        if len(self.attempts) <= 2 * kept + LANDMARKS:
            return self
        ends = max(len(self._row(None)), self.unknown() + 1) + 1
        row = len({end.number for end in self.ends[-ends:]})
        older = self.attempts[: -max(kept, row)]
        landmarks = _landmarks(older)
        kept_numbers = {attempt.number for attempt in landmarks}
        dropped = [a for a in older if a.number not in kept_numbers]
        newer = self.attempts[len(older) :]
        past = self._with(dropped)
        return replace(self, attempts=(*landmarks, *newer), past=past)

    def _with(self, dropped: Sequence[AttemptHistory]) -> Past:
        """The past, and these."""
        gone = History(attempts=tuple(dropped), budget_since=self.budget_since)
        remedy_steps = Counter(
            (a.cause, a.remedy_step)
            for a in gone._counted()
            if a.cause is not None and a.remedy_step is not None
        )
        known = (one for attempt in dropped for one in attempt.intervals)
        return Past(
            failures=self.past.failures + gone.failures,
            trained=self.past.trained or gone.trained,
            remedy_steps=self.past.remedy_steps + remedy_steps,
            intervals=tuple(together((*self.past.intervals, *known)).values()),
            proofs=self.past.proofs + gone.all_proofs,
            proof_seconds=self.past.proof_seconds + gone.proof_seconds,
            unpromised=weakest(
                (self.past.unpromised, *(attempt.unpromised for attempt in dropped))
            ),
        )

    def _counted(self) -> tuple[AttemptHistory, ...]:
        since = self.budget_since
        return tuple(a for a in self.ends if a.started and a.number >= since)

    def _row(
        self, cause: Cause | None, *, outside: bool = False
    ) -> list[AttemptHistory]:
        """The newest attempts, newest first, up to the last that brought progress."""
        row: list[AttemptHistory] = []
        newer: AttemptHistory | None = None
        counted = self._counted()
        accidents = set[int]() if outside else _accidents(counted)
        for attempt in reversed(counted):
            if attempt.number in accidents and not attempt.recovery:
                continue
            if cause is not None and attempt.cause is not cause:
                break
            if newer is not None and _progress(attempt, newer):
                break
            if attempt.disproved:
                continue  # it ended for that alone: no restart that brought nothing
            row.append(attempt)
            newer = newer if attempt.snapshot_step is None else attempt
        return row


def _accidents(attempts: Sequence[AttemptHistory]) -> set[int]:
    """Numbers of those that were killed from outside for nothing in the script."""
    killed = [one for one in attempts if one.outside]
    early = list(takewhile(lambda a: a.outside and not a.trained, reversed(attempts)))
    begins = len(early) < KILLS_BEFORE_A_STEP
    times = Counter(one.last_step for one in killed if one.trained)
    return {
        a.number for a in killed if (times[a.last_step] < 2 if a.trained else begins)
    }


def _progress(before: AttemptHistory, after: AttemptHistory) -> bool:
    """Whether ``after`` got further, as far as the snapshots of both are known."""
    if before.snapshot_step is None or after.snapshot_step is None:
        return False
    same_place = before.last_step is not None and (
        (before.cause, before.last_step) == (after.cause, after.last_step)
    )
    return after.snapshot_step > before.snapshot_step and not same_place


def _remedy_steps(attempts: Iterable[AttemptHistory], cause: Cause) -> Counter[str]:
    return Counter(
        a.remedy_step
        for a in attempts
        if a.cause is cause and a.remedy_step is not None
    )


def _proofs(attempts: Iterable[AttemptHistory]) -> Counter[Proof]:
    return Counter(a.proof.result for a in attempts if a.proof is not None)


def _landmarks(older: Sequence[AttemptHistory]) -> tuple[AttemptHistory, ...]:
    """Those that something is still read from, though they are old."""
    marks = {
        kind: attempt
        for attempt in sorted(older, key=lambda a: (a.peak_bytes or 0, a.number))
        for kind in _of_memory(attempt)
    }
    marks |= {kind: attempt for attempt in older for kind in _newest(attempt)}
    of_the_host = (
        a for a in older if a.cause is Cause.HOST_OOM and a.rss_bytes is not None
    )
    smallest = min(of_the_host, key=lambda a: a.rss_bytes or 0, default=None)
    marked = {attempt.number for attempt in (*marks.values(), smallest) if attempt}
    numbers = sorted(marked)[-LANDMARKS:]
    return tuple(attempt for attempt in older if attempt.number in numbers)


def _of_memory(attempt: AttemptHistory) -> Iterator[tuple[object, ...]]:
    """The highest peak of each size of a slice, as the planner of slices compares them."""
    if attempt.batch is not None:
        yield "peak", attempt.size, attempt.limit_bytes, attempt.jit, attempt.cause
    for one in attempt.peaks:
        yield "peaks", one.slice_size, attempt.limit_bytes, attempt.jit


def _newest(attempt: AttemptHistory) -> Iterator[tuple[object, ...]]:
    """What the newest of a kind is asked for."""
    yield "cause", attempt.cause, attempt.slice_size
    if attempt.proof is not None:
        yield "proof", attempt.proof.result
    if attempt.batch is not None:
        yield "batch", None
    if attempt.remedy is RemedyKind.MICROBATCH:
        yield "sliced", None
