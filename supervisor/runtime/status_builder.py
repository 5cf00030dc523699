"""The status of a job, from three sources: the run, its page, and the ledger's counts."""

import contextlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.jobs.accounting.snapshot_stats import (
    NO_SNAPSHOTS,
    SnapshotStats,
    of_earlier_boot,
    snapshot_waits,
    tier_statuses,
    together,
)
from supervisor.core.jobs.job_status import (
    AdvisoryStatus,
    AllocatorStatus,
    ErrorStatus,
    JobState,
    JobStatus,
    LoopKind,
    RemoteStatus,
    SliceTrial,
    SnapshotStatus,
    TierStatus,
)
from supervisor.core.liveness.hang_detection import Liveness
from supervisor.core.memory.step_budget import budget_of
from supervisor.core.remediation.confirmation import in_force, pending
from supervisor.core.remediation.history import History
from supervisor.core.remediation.overrides import NOTHING, Overrides
from supervisor.core.remediation.proofs import RESULTS
from supervisor.host.launch.launcher import (
    has_other_clock,
    has_our_clock,
)
from supervisor.host.ledger.ledger import LedgerError, RunRow
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.remote.remote_records import UploadProgress
from supervisor.host.telemetry.attempt_telemetry import Telemetry
from supervisor.host.telemetry.attempt_view import AttemptView
from supervisor.wire.files import read_json
from supervisor.wire.page import (
    ERROR_STAGES,
    PHASE_NAMES,
    ErrorStage,
    MemorySource,
    Page,
    Phase,
)
from supervisor.wire.paths import AttemptPaths, RunPaths, StatePaths
from supervisor.wire.slices import count
from supervisor.wire.snapshots.manifest import DURABLE, MEMORY

NO_STEP = "no step was done, so there is nothing to resume"
BEFORE_STEPS = {Phase.STARTING, Phase.RESTORING, Phase.COMPILING}
UNTRAINED = {None, *BEFORE_STEPS}
"""An attempt in these that has no step yet may still be given its snapshot: that happens
right before its first step."""
HOW_FAR = (
    "epoch", "epochs", "step", "step_in_epoch", "steps_per_epoch", "samples", "loss",
    "loss_step", "snapshot_step", "snapshot_ns",
)  # fmt: skip
"""Fields of a page."""
RESTARTS = {kind for kind in RemedyKind if kind.restarts}
Number = TypeVar("Number", int, float)
Incidents = Mapping[tuple[Cause, RemedyKind], int]
"""How many of each cause were answered by each remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What is known of a run beside its newest page."""

    job: str
    state: JobState
    attempt: int
    message: str
    incidents: Incidents = field(default_factory=Counter[tuple[Cause, RemedyKind]])
    overrides: Overrides = NOTHING
    history: History = field(default_factory=History)
    """Of the attempts, whose newest confirms the overrides."""
    view: AttemptView = field(default_factory=AttemptView)
    """What the newest attempt says of its snapshots, among others."""
    behind: bool = False
    """Whether it has said more, which is still to be read."""
    forecast_seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    remote: RemoteStatus | None = None
    standby: str | None = None
    standby_bytes: int | None = None
    liveness: Liveness | None = None
    """What a hang is judged by; None: not known."""
    refused_age_seconds: float | None = None
    """Since an allocation last found no memory (``allocator_dump.newest_age``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAttempts:
    """What the attempts before the newest count for the run, together."""

    page: Page | None = None
    """Their last pages, ``summed``; None: there was none."""
    tiers: SnapshotStats = NO_SNAPSHOTS

    def and_then(self, page: Page | None, tiers: SnapshotStats) -> "EndedAttempts":
        """One more has ended."""
        whole = self.page if page is None else summed(self.page, page)
        return EndedAttempts(page=whole, tiers=together(self.tiers, tiers))


NONE_ENDED = EndedAttempts()


def by_cause(incidents: Incidents, *, restarts: bool = False) -> dict[Cause, int]:
    """How many incidents there were of each cause; ``restarts``: only those that were
    answered by another attempt."""
    found: Counter[Cause] = Counter()
    for (cause, remedy), times in incidents.items():
        if not restarts or remedy in RESTARTS:
            found[cause] += times
    return dict(found)


def summed(before: Page | None, page: Page) -> Page:
    """Two pages of a run as one: what counts up is added, the rest is the newer's."""
    if before is None:
        return page
    return replace(
        carried(page, before),
        step_seconds_sum=(before.step_seconds_sum or 0.0)
        + (page.step_seconds_sum or 0.0),
        step_counts=_added(before.step_counts, page.step_counts),
        phase_seconds=_added(before.phase_seconds, page.phase_seconds),
    )


def carried(page: Page, before: Page | None) -> Page:
    """``page`` of an attempt that has made no step of its own (yet), with how far the ones
    ``before`` had come: that is where it goes on, or what it did not lose."""
    if before is None or page.step or page.phase not in UNTRAINED:
        return page
    return replace(page, **{name: getattr(before, name) for name in HOW_FAR})


def of_a_beginning(page: Page) -> Page:
    """For an attempt that has told nothing yet: how far the one before, whose ``page`` it
    is, had come, and not what became of its process, nor how fast that was."""
    return replace(page, phase=Phase.STARTING, after_error=None, step_seconds=None)


def _added(left: tuple[Number, ...], right: tuple[Number, ...]) -> tuple[Number, ...]:
    return tuple(one + other for one, other in zip(left, right, strict=True))


def job_status(
    facts: RunFacts,
    page: Page | None,
    *,
    pid: int | None,
    now: float,
    earlier: EndedAttempts = NONE_ENDED,
) -> JobStatus:
    """What to show of a run; ``now`` in monotonic seconds. ``page``: of the newest
    attempt."""
    history, view = facts.history, facts.view
    reached: dict[str, Any] = {"effective_batch": history.batch}
    if page is not None:
        whole = summed(earlier.page, page)
        reached |= _reached(carried(page, earlier.page), whole, now=now)
        reached["effective_batch"] = page.effective_batch or history.batch
    if page is not None and view.slices and not facts.behind:
        reached |= {"slices": view.slices, "slice_size": view.slice_size}
    if page is not None and pid is not None:
        reached |= _living(page, now=now)
        reached["hang_seconds"] = _hang_seconds(facts.liveness, page, now)
        reached["forecast_seconds"] = facts.forecast_seconds
        reached["memory_refused_age_seconds"] = _refused_age(facts, page, now)
    if page is not None and pid is not None and not facts.behind:
        reached["snapshot_wait_seconds"] = _waits(view, now)
        reached["slice_trial"] = view.slice_trial
        reached["loop"] = _loop(view, page)
    return JobStatus(
        job=facts.job,
        state=facts.state,
        attempt=facts.attempt,
        pid=pid,
        message=facts.message,
        **_promised(facts, page),
        snapshot_plan=view.snapshot_plan,
        step_needs=None if view.needs is None else budget_of(view.needs),
        remote=facts.remote,
        standby=facts.standby,
        standby_bytes=facts.standby_bytes,
        overrides=_in_force(facts, reached.get("slices"), reached.get("slice_trial")),
        asked=pending(facts.overrides, history.last),
        unmet=history.unmet,
        tiers=UNREAD_TIERS
        if facts.behind
        else tier_statuses(together(earlier.tiers, view.tiers), now=now),
        incidents=by_cause(facts.incidents),
        restarts=by_cause(facts.incidents, restarts=True),
        advisories=_advisories(facts, lives=pid is not None),
        last_error=_last_error(history),
        **reached,
    )


def with_run_peak(status: JobStatus, known_bytes: int | None) -> JobStatus:
    """``status`` with the run peak: what is ``known_bytes`` of all attempts, or what the
    newest has told since."""
    told = (known_bytes, status.memory_peak_bytes)
    found = max((one for one in told if one is not None), default=None)
    return replace(status, run_peak_bytes=found)


def _last_error(history: History) -> ErrorStatus | None:
    for one in reversed(history.attempts):
        if one.error is not None and one.cause is not None:
            return ErrorStatus(attempt=one.number, cause=one.cause, text=one.error)
    return None


UNREAD_TIERS: Mapping[str, TierStatus] = dict.fromkeys(
    (MEMORY, DURABLE), TierStatus(snapshots=None, failures=None)
)
"""Counters that climbed anew from 0 would be a spike in each rate: better none for a while."""


def _waits(view: AttemptView, now: float) -> dict[str, float]:
    plan, since = view.snapshot_plan, view.planned_ns
    if plan is None or since is None:
        return {}
    return snapshot_waits(view.tiers, plan, since_ns=since, now=now)


def _advisories(facts: RunFacts, *, lives: bool) -> tuple[AdvisoryStatus, ...]:
    """``lives``: there is a training process."""
    return tuple(
        AdvisoryStatus(
            kind=one.kind,
            active=lives and attempt == facts.attempt and not one.over,
            attempt=attempt,
            sentence=one.sentence,
            advice=one.advice,
            figures=one.figures,
        )
        for attempt, one in facts.history.advisories.values()
    )


def _promised(facts: RunFacts, page: Page | None) -> dict[str, Any]:
    history = facts.history
    unpromised = history.unpromised
    newest, counts = history.newest_proof, history.all_proofs
    promise = None if unpromised is None else unpromised.because
    exact = None if unpromised is None else False
    if unpromised is None and facts.view.promised:
        # Said before the first step, whose tracing may still take it back.
        if _has_stepped(facts, page):
            exact = True
        elif facts.state.ended:
            promise = NO_STEP
    return {
        "exact": exact,
        "promise": promise,
        "promise_fit": None if unpromised is None else unpromised.fit,
        "proof": None if newest is None else newest.sentence,
        "proofs": {result.value: counts[result] for result in RESULTS},
        "proof_seconds": history.proof_seconds,
    }


def _has_stepped(facts: RunFacts, page: Page | None) -> bool:
    """Whether the run has done a step, in whichever attempt."""
    history = facts.history
    steps = [attempt.last_step for attempt in history.attempts]
    if page is not None:
        steps.append(page.step)
    return history.past.trained or any(steps) or facts.view.first_step is not None


def _in_force(
    facts: RunFacts, slices: int | None, trial: SliceTrial | None
) -> dict[str, object]:
    """How many slices there are is found out while it trains, not as it was planned."""
    found = in_force(facts.overrides, facts.history.last)
    if "slices" in found and trial is not None:
        found["slices"] = count(batch=trial.batch, size=trial.size)
    elif "slices" in found and slices:
        found["slices"] = slices
    return found


_SOURCES = {int(source): source.name.lower() for source in MemorySource}


def _reached(page: Page, whole: Page, *, now: float) -> dict[str, Any]:
    """What stays when the training process has ended; ``whole``: all attempts."""
    return {
        "phase": None if page.phase is None else PHASE_NAMES.get(page.phase),
        "epoch": page.epoch,
        "epochs": page.epochs,
        "step": page.step,
        "step_in_epoch": page.step_in_epoch,
        "steps_per_epoch": page.steps_per_epoch,
        "samples": page.samples,
        "loss": page.loss,
        "loss_step": page.loss_step or None,
        "step_seconds": page.step_seconds,
        "slices": page.slices,
        "slice_size": page.slice_size,
        "snapshot": _snapshot(page, now),
        "memory_limit_bytes": page.memory_limit_bytes,
        "memory_peak_bytes": page.memory_peak_bytes,
        "step_counts": whole.step_counts,
        "step_seconds_sum": whole.step_seconds_sum or 0.0,
        "phase_seconds": dict(
            zip(PHASE_NAMES.values(), whole.phase_seconds, strict=True)
        ),
    }


def _living(page: Page, *, now: float) -> dict[str, Any]:
    """What is told of a training process that is there."""
    return {
        "memory_in_use_bytes": page.memory_in_use_bytes,
        "allocator": _allocator(page),
        "host_rss_bytes": page.host_rss_bytes,
        "heartbeat_age_seconds": _age(page.heartbeat_ns, now),
        "progress_age_seconds": _progress_age(page, now),
        "after_error": _after_error(page),
    }


def _loop(view: AttemptView, page: Page) -> LoopKind | None:
    """What the script does where its phase would say that it starts, or is outside of
    ``fit``: a loop of its own is in no other phase (``Attempt.count_own_step``)."""
    if view.unseen and page.phase == Phase.STARTING:
        return LoopKind.UNSEEN
    own = view.in_own_loop and page.phase == Phase.BETWEEN and page.step
    return LoopKind.OWN if own else None


def _after_error(page: Page) -> str | None:
    """A stage of a newer version is one before the end, too."""
    if not page.after_error:
        return None
    ending = ERROR_STAGES[ErrorStage.ENDING]
    return ERROR_STAGES.get(page.after_error, ending)


def _allocator(page: Page) -> AllocatorStatus | None:
    if page.memory_source is None:
        return None
    return AllocatorStatus(
        pool_bytes=page.memory_pool_bytes,
        largest_free_bytes=page.memory_largest_free_bytes,
        largest_allocatable_bytes=page.memory_largest_allocatable_bytes,
        largest_request_bytes=page.memory_largest_request_bytes,
        fragmentation=page.memory_fragmentation,
        source=_SOURCES.get(page.memory_source),
    )


def _age(ns: int | None, now: float) -> float | None:
    return None if ns is None else max(now - ns / 1e9, 0.0)


def _progress_age(page: Page, now: float) -> float | None:
    """What an attempt of an older version does within a phase is not known."""
    if not page.progress_ns and page.phase not in BEFORE_STEPS:
        return None
    known = [ns for ns in (page.progress_ns, page.phase_since_ns) if ns]
    return _age(max(known, default=None), now)


def _refused_age(facts: RunFacts, page: Page, now: float) -> float | None:
    """What came before the newest progress is over."""
    refused, moved = facts.refused_age_seconds, _progress_age(page, now)
    known = refused is not None and moved is not None and refused <= moved
    return refused if known else None


def _hang_seconds(liveness: Liveness | None, page: Page, now: float) -> float | None:
    """Heartbeats that stopped with progress, or soon after, have a limit of their own."""
    if liveness is None or page.phase is None:
        return None
    beat, moved = _age(page.heartbeat_ns, now), _progress_age(page, now)
    silent = beat is not None and moved is not None and beat >= 0.5 * moved
    return liveness.earliest(PHASE_NAMES.get(page.phase, ""), silent=silent)


def _snapshot(page: Page, now: float) -> SnapshotStatus | None:
    if page.snapshot_step is None:
        return None
    age = _age(page.snapshot_ns, now)
    return SnapshotStatus(step=page.snapshot_step, age_seconds=age)


def remote_status(paths: RunPaths, *, now: float) -> RemoteStatus | None:
    """How far uploads have come; None: nothing is told. ``now``: monotonic seconds."""
    value = read_json(paths.remote_progress)
    told = None if value is None else UploadProgress.from_json(value)
    if told is None:
        return None
    since = told.whole_ns if has_our_clock(told.boot_id) else None
    return RemoteStatus(
        address=told.address,
        step=told.step,
        snapshots=told.snapshots,
        failures=told.failures,
        sent_bytes=told.sent_bytes,
        kept_bytes=told.kept_bytes,
        age_seconds=_age(since, now),
        sending=told.sending,
        problem=told.problem,
        taken_by=told.taken_by,
    )


def standby_told(paths: RunPaths) -> tuple[str | None, int | None]:
    """How the process stands that waits to be the next attempt, and its bytes of main
    memory; None: none is wanted, none waits."""
    value = read_json(paths.standby_told) or {}
    sentence, size = str(value.get("sentence", ""))[:1000], value.get("bytes")
    return sentence or None, size if isinstance(size, int) else None


def paths_of(run: RunRow, paths: StatePaths) -> RunPaths:
    """Where the files of ``run`` lie; ``paths``: the ledger's own state directory."""
    owner = paths if run.place is None else StatePaths(Path(run.place).resolve())
    return owner.run(run.job, run.number)


def ended_attempts(
    paths: RunPaths, number: int, totals: "SnapshotTotals"
) -> EndedAttempts:
    """Those before ``number``, as their files and the ledger tell it."""
    found = NONE_ENDED
    for one in range(1, number):
        files = paths.attempt(one)
        page = Telemetry(files).page()
        found = found.and_then(*in_this_boot(files, page, totals.of(one, files)))
    return found


class SnapshotTotals:
    """Totals of the snapshots of attempts that have ended.

    The ledger has them. Their event files tell them too, but in a record a second: to read
    those of all attempts again with each daemon would hold up all runs.
    """

    def __init__(self, archive: RunArchive, run: int, *, keep: bool) -> None:
        """``keep``: write down what only an event file tells, of a supervisor that died
        with the attempt, or an older version: for who looks after the run."""
        self._archive, self._run, self._keep = archive, run, keep
        self._known = archive.snapshots(run)

    def of(self, number: int, files: AttemptPaths) -> SnapshotStats:
        """Those of attempt ``number``."""
        known = self._known.get(number)
        if known is not None:
            return known
        telemetry = Telemetry(files)
        telemetry.read_rest()
        telemetry.close()
        told = telemetry.view.tiers
        if self._keep:
            keep_totals(self._archive, self._run, number, told)
        return told


def keep_totals(
    archive: RunArchive, run: int, attempt: int, tiers: SnapshotStats
) -> None:
    """Write down what an attempt that has ended told of its snapshots. Where that cannot be
    now its event file is read once more, by the next supervisor."""
    with contextlib.suppress(LedgerError):
        archive.put_snapshots(run, attempt, tiers)


def in_this_boot(
    files: AttemptPaths, page: Page | None, tiers: SnapshotStats
) -> tuple[Page | None, SnapshotStats]:
    """What an attempt tells, without the times of another boot of the machine."""
    if not has_other_clock(files):
        return page, tiers
    undated = None if page is None else replace(page, snapshot_ns=None)
    return undated, of_earlier_boot(tiers)
