"""The policy: a remedy step of the escalation of a diagnosis, within the budgets.

A remedy step is used only if those before it did not help. Budgets count progress: a restart
that brings a newer snapshot earns its budget back, unless it ends where the one before did,
for the same cause. All of it follows from the history
that the ledger keeps, so a supervisor that starts anew decides as the one before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from supervisor.core.backoff import BackOff
from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.examination import unsliceable
from supervisor.core.diagnosis.explain import diagnosis_headline
from supervisor.core.diagnosis.result import Diagnosis, Remedy, RemedyKind
from supervisor.core.remediation.conditions import named_by_driver
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
from supervisor.core.remediation.proofs import ProofRule, to_prove
from supervisor.core.remediation.remedy_table import FRESH, escalation_for
from supervisor.core.remediation.subject_remedies import STOPS
from supervisor.core.text.units import shortened
from supervisor.wire.reasons import RefusalReason
from supervisor.wire.records.oom_subject import OomSubject

OVERALL_FACTOR = 3
"""Fruitless restarts of any cause in a row: this many budgets, then stop. Two causes
that take turns must not restart a run for ever."""

FEW_RETRIES: Mapping[Cause, int] = {
    Cause.USER_ERROR: 1,
    Cause.VERSION_MISMATCH: 1,
}
"""The script's own error may come from outside (a file that was not there), so after
progress it is tried once more; the same again is its own fault."""

TOO_LARGE = (
    "memory ran out before a step was done, and on this backend of Keras a batch cannot be "
    "worked through in slices: make it smaller in the script (batch_size of fit, or batch "
    "of the data); gradient_accumulation_steps of the optimizer keeps the effective batch"
)
NO_MORE_ROOM = (
    "it runs out of memory each time, and on this backend of Keras a batch cannot be worked "
    "through in slices: make it smaller in the script (batch_size of fit, or batch of the "
    "data); gradient_accumulation_steps of the optimizer keeps the effective batch"
)
BESIDE_OTHERS = (
    "a step does not fit beside what others hold on the GPU, and on this backend of Keras a "
    "batch cannot be worked through in slices: end them, or give the job another GPU"
)
AT_ONCE = frozenset({Cause.USER_ERROR, Cause.VERSION_MISMATCH})
"""Before the first step these stop a run at once; one that has trained before gets its
retry: what it failed at worked a while ago."""
PASSING = frozenset({RefusalReason.DEVICE_GONE})
"""Refusals that may pass without a person: a driver that comes back, say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A remedy, and what is in force from now on."""

    remedy: Remedy
    overrides: Overrides
    remedy_step: str | None = None
    """Which remedy step of the escalation it is; None: none."""
    quarantine: tuple[str, ...] = ()
    """GPUs to keep out of use on this box until a person puts them back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Answers one question: what now?"""

    run_id: str
    without_progress: int
    """Fruitless restarts in a row for one cause before giving up."""
    back_off: BackOff
    terms: RemedyPermissions = field(default_factory=RemedyPermissions)
    proof: ProofRule = "off"
    """Which restarts prove themselves."""
    in_place: bool = False
    """Whether an attempt may go on in its process after a step that failed."""

    def proves(self, history: History, overrides: Overrides | None) -> bool:
        """Whether the attempt after ``history`` does; ``overrides``: what it will have
        in force, as a history keeps it."""
        if history.last is None:
            return False
        last = history.last.proof
        return to_prove(
            self.proof,
            history.proofs(overrides=overrides),
            last=None if last is None else last.result,
        )

    def decide(
        self,
        diagnosis: Diagnosis,
        evidence: Evidence,
        history: History,
        overrides: Overrides,
        *,
        quarantined: frozenset[str] = frozenset(),
    ) -> Decision:
        """The remedy for a failed attempt, the newest in ``history``.

        ``overrides`` is what was in force in it.
        """
        case = FailureContext(
            diagnosis=diagnosis,
            evidence=evidence,
            history=history,
            overrides=overrides,
            terms=self.terms,
            gpus=evidence.gpus,
            quarantined=quarantined,
        )
        escalation = escalation_for(case)
        if unsliceable(evidence):
            escalation = _without_slices(escalation, case)
        bad = named_by_driver(case) if escalation.quarantines else ()
        stop = self._reason_to_stop(case, escalation)
        chosen = None if stop else _choose(case, escalation)
        if chosen is None:
            because = stop or _nothing_left(case, escalation)
            if case.history.unmet and case.evidence.refused is None:
                because = f"{because} ({sentence(case.history.unmet)})"
            remedy = Remedy(kind=RemedyKind.STOP, because=because)
            return Decision(remedy=remedy, overrides=overrides, quarantine=bad)
        remedy_step, change = chosen
        remedy = Remedy(
            kind=remedy_step.kind,
            because=_because(remedy_step, change, history),
            changes=changes(overrides, change.overrides, asked=self.terms.asked),
            wait_seconds=self._wait(diagnosis.cause, history),
        )
        return Decision(
            remedy=remedy,
            overrides=change.overrides,
            remedy_step=remedy_step.name,
            quarantine=bad,
        )

    def _reason_to_stop(
        self, case: FailureContext, escalation: EscalationPlan
    ) -> str | None:
        cause, history = case.diagnosis.cause, case.history
        refused = case.evidence.refused
        lasting = refused is not None and refused.reason not in PASSING
        if refused is not None and lasting and not unsliceable(case.evidence):
            return refused.sentence
        if cause in AT_ONCE and not case.evidence.steps_done and not history.trained:
            return "training failed before its first step; a restart cannot help"
        budget = min(self.without_progress, FEW_RETRIES.get(cause, 1_000_000))
        fruitless = history.fruitless(cause)
        if fruitless >= budget:
            again = f"{fruitless} restarts" if fruitless != 1 else "a restart"
            several = len(escalation.remedy_steps) > 1
            told = diagnosis_headline(case.diagnosis)
            why = escalation.stop if several else told
            if refused is not None and not lasting:
                why = refused.sentence
            missed = _may_be_missed(history, cause)
            return (
                f"{again} brought no progress{_same_end(history, cause)}: {why}{missed}"
            )
        overall = OVERALL_FACTOR * self.without_progress
        if history.fruitless() + history.unknown() >= overall:
            again = f"{overall} restarts for several causes brought no progress"
            return f"{again}{_same_end(history)}"
        return None

    def _wait(self, cause: Cause, history: History) -> float:
        failures = history.fruitless(cause, outside=True)
        if not failures:
            return 0.0  # the first restart, or one after progress, costs no wait
        return self.back_off.wait_seconds(failures=failures, key=self.run_id)


def _may_be_missed(history: History, cause: Cause) -> str:
    """Of a script that fails right where it was resumed, and ran past there before: what a
    restart does not give back to it."""
    last, unpromised = history.last, history.unpromised
    if cause is not Cause.USER_ERROR or last is None or unpromised is None:
        return ""
    if not last.restored_step or (last.last_step or 0) > last.restored_step:
        return ""
    return (
        f". It had gone on from step {last.restored_step}, and may miss what a restart does"
        f" not give back ({unpromised.because}); run with --fresh it begins anew"
    )


def _same_end(history: History, cause: Cause | None = None) -> str:
    """Why newer snapshots were none, where there were any: who sees them in the log would
    take the count for a mistake."""
    step = history.same_end(cause)
    return (
        ""
        if step is None
        else f" (newer snapshots, but it ended after step {step} again)"
    )


def _because(remedy_step: RemedyStep, change: Change, history: History) -> str:
    """Why, and from where training goes on: what is not saved is done again."""
    because = change.because or remedy_step.because
    if history.last is not None and history.last.snapshot_step == 0:
        return f"{because}; nothing is saved yet: the script runs from its top"
    if remedy_step.kind is RemedyKind.RESTART:
        return f"{because}: go on from the newest snapshot"
    return because


def _without_slices(escalation: EscalationPlan, case: FailureContext) -> EscalationPlan:
    """What is left where the batch cannot be sliced: in whole batches. Others on the GPU
    are waited for each time; else a fresh process may do what one has done before."""
    whole = tuple(
        replace(one, change=_whole_batches(one))
        for one in escalation.remedy_steps
        if one.kind is not RemedyKind.MICROBATCH
    )
    if len(whole) == len(escalation.remedy_steps):
        return replace(escalation, remedy_steps=whole)
    if any(one.kind is RemedyKind.WAIT for one in whole):
        often = tuple(
            replace(one, uses=None) if one.kind is RemedyKind.WAIT else one
            for one in whole
        )
        return replace(escalation, remedy_steps=often, stop=BESIDE_OTHERS)
    if case.evidence.refused is not None or not _fitted_once(case):
        return replace(escalation, remedy_steps=whole, stop=TOO_LARGE)
    again = replace(FRESH, change=_whole_batches(FRESH))
    return replace(escalation, remedy_steps=(*whole, again), stop=NO_MORE_ROOM)


def _fitted_once(case: FailureContext) -> bool:
    """Whether a whole step is known to have fitted. A step that JAX was given counts as
    done before the device has done it, so the first of an attempt may be the one that
    failed."""
    before = case.history.attempts[:-1]
    earlier = case.history.past.trained or any(one.trained for one in before)
    return earlier or (case.evidence.steps_done or 0) > 1


def _whole_batches(
    remedy_step: RemedyStep,
) -> Callable[[FailureContext], Change | None]:
    def change(case: FailureContext) -> Change | None:
        made = remedy_step.change(case)
        if made is None:
            return None
        return replace(made, overrides=replace(made.overrides, plan=None))

    return change


def _choose(
    case: FailureContext, escalation: EscalationPlan
) -> tuple[RemedyStep, Change] | None:
    """The first remedy step that applies and was not used up; upwards first."""
    cause = case.diagnosis.cause
    tried = [case.history.tried(cause)]
    if escalation.climbs:
        tried.insert(0, case.history.ever_tried(cause))
    for used in tried:
        for remedy_step in escalation.remedy_steps:
            if remedy_step.uses is None or used[remedy_step.name] < remedy_step.uses:
                change = _apply(remedy_step, case)
                if change is not None:
                    return remedy_step, change
    return None


def _apply(remedy_step: RemedyStep, case: FailureContext) -> Change | None:
    if remedy_step.needs and not remedy_step.needs & case.terms.allowed:
        return None
    change = remedy_step.change(case) if remedy_step.holds(case) else None
    known = case.history.unmet
    if change is not None and in_vain(case.overrides, change.overrides, known=known):
        return None
    return change


def _nothing_left(case: FailureContext, escalation: EscalationPlan) -> str:
    """The end of the escalation, with the failure itself where the sentence needs it."""
    cause = case.diagnosis.cause
    if case.evidence.refused is not None:
        return case.evidence.refused.sentence
    if cause in FOR_MEMORY and escalation.stop in STOPS.values():
        return escalation.stop
    if cause in FOR_MEMORY and case.history.batch is None:
        return STOPS[OomSubject.OUTSIDE]
    if cause is Cause.DATA_ERROR and case.diagnosis.because:
        return f"{escalation.stop}: {shortened(case.diagnosis.because[0].text, 200)}"
    return escalation.stop
