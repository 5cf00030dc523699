"""What to do about a diagnosis: the ladder of remedies, as values.

A remedy further down a ladder is used only if the one before did not help. Budgets
count progress: a restart that brings a newer snapshot earns its budget back.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.core.backoff import BackOff
from supervisor.core.batching import Observation, Plan, next_plan
from supervisor.core.causes import Cause
from supervisor.core.evidence import Evidence
from supervisor.core.history import History
from supervisor.core.verdicts import Diagnosis, Remedy, RemedyKind

OVERALL_FACTOR = 3
"""Fruitless restarts of any cause in a row: this many budgets, then stop. Two causes
that take turns must not restart a run for ever."""

FEW_RETRIES: Mapping[Cause, int] = {
    Cause.USER_ERROR: 1,
    Cause.DATA_ERROR: 1,
    Cause.VERSION_MISMATCH: 1,
}
"""The script's own error may come from outside (a file that was not there), so after
progress it is tried once more; the same again is its own fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A remedy, and how the next attempt slices its batch."""

    remedy: Remedy
    plan: Plan | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Answers one question: what now?"""

    run_id: str
    without_progress: int
    """Fruitless restarts in a row for one cause before giving up."""
    back_off: BackOff
    allow_inexact: bool

    def decide(
        self,
        diagnosis: Diagnosis,
        evidence: Evidence,
        history: History,
        plan: Plan | None,
    ) -> Verdict:
        """The remedy for a failed attempt, the newest in ``history``.

        ``plan`` is how that attempt sliced its batch; None: it did not.
        """
        cause = diagnosis.cause
        stop = self._reason_to_stop(diagnosis, evidence, history)
        if stop is not None:
            remedy = Remedy(kind=RemedyKind.STOP, because=stop)
            return Verdict(remedy=remedy, plan=plan)
        if _wants_smaller_slices(cause, history, evidence):
            return self._smaller_slices(cause, history, plan)
        return self._again(cause, history, plan)

    def _reason_to_stop(
        self, diagnosis: Diagnosis, evidence: Evidence, history: History
    ) -> str | None:
        cause = diagnosis.cause
        if evidence.refused is not None:
            return evidence.refused
        if cause in AT_ONCE and not evidence.steps_done:
            return "training failed before its first step; a restart cannot help"
        budget = min(self.without_progress, FEW_RETRIES.get(cause, 1_000_000))
        fruitless = history.fruitless(cause)
        if fruitless >= budget:
            again = f"{fruitless} restarts" if fruitless != 1 else "a restart"
            return f"{again} for {cause} brought no progress"
        overall = OVERALL_FACTOR * self.without_progress
        if history.fruitless() + history.unknown() >= overall:
            return f"{overall} restarts for several causes brought no progress"
        return None

    def _smaller_slices(
        self, cause: Cause, history: History, plan: Plan | None
    ) -> Verdict:
        planned = next_plan(observations(history), batch=history.batch)
        if planned is None:
            because = (
                "not even one sample at a time fits below the memory limit"
                if history.batch is not None
                else "it ran out of memory outside of training steps, where slices of "
                "the batch cannot help"
            )
            remedy = Remedy(kind=RemedyKind.STOP, because=because)
            return Verdict(remedy=remedy, plan=plan)
        before = None if plan is None else plan.slices
        remedy = Remedy(
            kind=RemedyKind.MICROBATCH,
            because=planned.because,
            changes={"slices": [before or 1, planned.slices]},
            wait_seconds=self._wait(cause, history),
        )
        return Verdict(remedy=remedy, plan=planned)

    def _again(self, cause: Cause, history: History, plan: Plan | None) -> Verdict:
        because = AGAIN.get(cause, "a fresh process goes on from the newest snapshot")
        remedy = Remedy(
            kind=RemedyKind.RESTART,
            because=because,
            wait_seconds=self._wait(cause, history),
        )
        return Verdict(remedy=remedy, plan=plan)

    def _wait(self, cause: Cause, history: History) -> float:
        failures = history.fruitless(cause)
        if not failures:
            return 0.0  # the first restart, or one after progress, costs no wait
        return self.back_off.wait_seconds(failures=failures, key=self.run_id)


AT_ONCE = frozenset({Cause.USER_ERROR, Cause.VERSION_MISMATCH})
"""Before the first step these stop a run at once."""

SLICES_HELP = frozenset({Cause.DEVICE_OOM})
SLICES_HELP_LATER = frozenset(
    {
        Cause.DEVICE_OOM_FRAGMENTATION,
        Cause.CUDNN_ALLOC,
        Cause.CUDNN_INIT,
        Cause.CUBLAS,
    }
)
"""These are tried once more in a fresh process, with the same batch, before."""

AGAIN: Mapping[Cause, str] = {
    Cause.DEVICE_OOM_FRAGMENTATION: "a fresh process has its memory in one piece",
    Cause.PREEMPTED: "nothing was wrong with training: go on from the newest snapshot",
    Cause.HOST_OOM: "a fresh process has given its host memory back",
}


def observations(history: History) -> tuple[Observation, ...]:
    """What the attempts showed about memory, for the planner of slices."""
    return tuple(
        Observation(
            slice_size=attempt.slice_size or attempt.batch,
            peak_bytes=attempt.peak_bytes,
            failed=attempt.cause in SLICES_HELP | SLICES_HELP_LATER,
            limit_bytes=attempt.limit_bytes,
            jit=attempt.jit,
        )
        for attempt in history.attempts
        if attempt.batch is not None
    )


def _wants_smaller_slices(cause: Cause, history: History, evidence: Evidence) -> bool:
    if cause in SLICES_HELP:
        return True
    if cause is Cause.DEVICE_OOM_FRAGMENTATION and evidence.steps_done == 0:
        return True  # it failed in its first step: that process was a fresh one
    return cause in SLICES_HELP_LATER and history.fruitless(cause) > 0
