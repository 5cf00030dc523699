"""What to do about a diagnosis: a rung of its ladder, within the budgets.

A rung is used only if those before it did not help. Budgets count progress: a restart
that brings a newer snapshot earns its budget back. All of it follows from the history
that the ledger keeps, so a supervisor that starts anew decides as the one before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.result import Diagnosis, Remedy, RemedyKind
from supervisor.core.remediation.conditions import culprits
from supervisor.core.remediation.confirmation import in_vain, sentence
from supervisor.core.remediation.escalation import (
    Change,
    EscalationPlan,
    FailureContext,
    RemedyPermissions,
    RemedyStep,
)
from supervisor.core.remediation.history import History
from supervisor.core.remediation.observations import FOR_MEMORY
from supervisor.core.remediation.overrides import Overrides, changes
from supervisor.core.remediation.remedy_table import ladder_for
from supervisor.core.remediation.subject_remedies import STOPS
from supervisor.core.text.units import shortened
from supervisor.wire.oom_subject import OomSubject

OVERALL_FACTOR = 3
"""Fruitless restarts of any cause in a row: this many budgets, then stop. Two causes
that take turns must not restart a run for ever."""

FEW_RETRIES: Mapping[Cause, int] = {
    Cause.USER_ERROR: 1,
    Cause.VERSION_MISMATCH: 1,
}
"""The script's own error may come from outside (a file that was not there), so after
progress it is tried once more; the same again is its own fault."""

AT_ONCE = frozenset({Cause.USER_ERROR, Cause.VERSION_MISMATCH})
"""Before the first step these stop a run at once; one that has trained before gets its
retry: what it failed at worked a while ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A remedy, and what is in force from now on."""

    remedy: Remedy
    treatment: Overrides
    rung: str | None = None
    """Which rung of the ladder it is; None: none."""
    quarantine: tuple[str, ...] = ()
    """GPUs to keep out of use on this box until a person puts them back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Answers one question: what now?"""

    run_id: str
    without_progress: int
    """Fruitless restarts in a row for one cause before giving up."""
    back_off: BackOff
    allow_inexact: bool
    terms: RemedyPermissions = field(default_factory=RemedyPermissions)

    def decide(
        self,
        diagnosis: Diagnosis,
        evidence: Evidence,
        history: History,
        treatment: Overrides,
        *,
        quarantined: frozenset[str] = frozenset(),
    ) -> Verdict:
        """The remedy for a failed attempt, the newest in ``history``.

        ``treatment`` is what was in force in it.
        """
        case = FailureContext(
            diagnosis=diagnosis,
            evidence=evidence,
            history=history,
            treatment=treatment,
            terms=self.terms,
            gpus=evidence.gpus,
            quarantined=quarantined,
        )
        ladder = ladder_for(case)
        bad = culprits(case) if ladder.quarantines else ()
        stop = self._reason_to_stop(case, ladder)
        chosen = None if stop else _choose(case, ladder)
        if chosen is None:
            because = stop or _nothing_left(case, ladder)
            if case.history.unmet and case.evidence.refused is None:
                because = f"{because} ({sentence(case.history.unmet)})"
            remedy = Remedy(kind=RemedyKind.STOP, because=because)
            return Verdict(remedy=remedy, treatment=treatment, quarantine=bad)
        rung, change = chosen
        remedy = Remedy(
            kind=rung.kind,
            because=change.because or rung.because,
            changes=changes(treatment, change.treatment),
            wait_seconds=self._wait(diagnosis.cause, history),
        )
        return Verdict(
            remedy=remedy, treatment=change.treatment, rung=rung.name, quarantine=bad
        )

    def _reason_to_stop(
        self, case: FailureContext, ladder: EscalationPlan
    ) -> str | None:
        cause, history = case.diagnosis.cause, case.history
        if case.evidence.refused is not None:
            return case.evidence.refused.sentence
        if cause in AT_ONCE and not case.evidence.steps_done and not history.trained:
            return "training failed before its first step; a restart cannot help"
        budget = min(self.without_progress, FEW_RETRIES.get(cause, 1_000_000))
        fruitless = history.fruitless(cause)
        if fruitless >= budget:
            again = f"{fruitless} restarts" if fruitless != 1 else "a restart"
            tried = f"{again} for {cause} brought no progress"
            return f"{tried}: {ladder.stop}" if len(ladder.rungs) > 1 else tried
        overall = OVERALL_FACTOR * self.without_progress
        if history.fruitless() + history.unknown() >= overall:
            return f"{overall} restarts for several causes brought no progress"
        return None

    def _wait(self, cause: Cause, history: History) -> float:
        failures = history.fruitless(cause)
        if not failures:
            return 0.0  # the first restart, or one after progress, costs no wait
        return self.back_off.wait_seconds(failures=failures, key=self.run_id)


def _choose(
    case: FailureContext, ladder: EscalationPlan
) -> tuple[RemedyStep, Change] | None:
    """The first rung that applies and was not used up; upwards first."""
    cause = case.diagnosis.cause
    tried = [case.history.tried(cause)]
    if ladder.climbs:
        tried.insert(0, case.history.ever_tried(cause))
    for used in tried:
        for rung in ladder.rungs:
            if rung.uses is None or used[rung.name] < rung.uses:
                change = _apply(rung, case)
                if change is not None:
                    return rung, change
    return None


def _apply(rung: RemedyStep, case: FailureContext) -> Change | None:
    if rung.needs and not rung.needs & case.terms.allowed:
        return None
    change = rung.change(case) if rung.holds(case) else None
    known = case.history.unmet
    if change is not None and in_vain(case.treatment, change.treatment, known=known):
        return None
    return change


def _nothing_left(case: FailureContext, ladder: EscalationPlan) -> str:
    """The end of the ladder, with the failure itself where the sentence needs it."""
    cause = case.diagnosis.cause
    if cause in FOR_MEMORY and ladder.stop in STOPS.values():
        return ladder.stop
    if cause in FOR_MEMORY and case.history.batch is None:
        return STOPS[OomSubject.OUTSIDE]
    if cause is Cause.DATA_ERROR and case.diagnosis.because:
        return f"{ladder.stop}: {shortened(case.diagnosis.because[0].text, 200)}"
    return ladder.stop
