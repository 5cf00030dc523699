"""An escalation of remedies for memory, where it was no training step that ran out of it.

What the batch has no part in, slices of the batch cannot help: weights, the state of
the optimizer, a data set made one tensor, a validation, code of the script's own. Nor is
the batch of a loop of the script's own anybody's to slice.
"""

from collections.abc import Mapping
from dataclasses import replace

from supervisor.core.diagnosis.result import RemedyKind
from supervisor.core.remediation.conditions import oversize
from supervisor.core.remediation.escalation import (
    EscalationPlan,
    FailureContext,
    RemedyStep,
)
from supervisor.wire.records.oom_subject import OomSubject

STOPS: Mapping[OomSubject, str] = {
    OomSubject.WEIGHTS: (
        "the weights of the model do not fit into memory, whatever the batch: slices and"
        " recomputation cannot help; a smaller model, weights in 16 bits or a device"
        " with more memory can"
    ),
    OomSubject.OPTIMIZER: (
        "the state of the optimizer does not fit into memory beside the weights, whatever"
        " the batch: slices and recomputation cannot help; an optimizer that keeps less"
        " (SGD, Lion, Adafactor) or a smaller model can"
    ),
    OomSubject.DATA: (
        "the data do not fit into memory as one tensor, whatever the batch: slices and"
        " recomputation cannot help; data that are read in batches can"
        " (keras.utils.PyDataset or Dataset.from_generator, over NumPy, np.memmap or"
        " files)"
    ),
    OomSubject.BATCH: (
        "what lies in memory before the first step (weights, the state of the optimizer,"
        " data) leaves no room even to read a batch and to try two samples of it: slices"
        " cannot help; an optimizer that keeps less (SGD, Lion, Adafactor), a smaller"
        " model or a device with more memory can"
    ),
    OomSubject.EVALUATION: (
        "a step of the validation does not fit into memory, and it is not sliced: give"
        " fit a smaller validation_batch_size"
    ),
    OomSubject.OWN_STEP: (
        "a step of the script's own loop does not fit into memory, and its batch is not"
        " sliced: take a smaller batch in the script, or let a session of trainers.session"
        " slice it (run.slices)"
    ),
    OomSubject.OUTSIDE: (
        "it ran out of memory outside of training steps, where slices of the batch cannot"
        " help"
    ),
}
"""Why nothing is left, and what would help."""

NOT_BY_PRECISION = frozenset(
    {OomSubject.WEIGHTS, OomSubject.OPTIMIZER, OomSubject.DATA, OomSubject.BATCH}
)
"""Mixed precision keeps weights and their moments in 32 bits, and data as they are."""

LEFTOVERS = RemedyStep(
    name="leftovers",
    kind=RemedyKind.RESTART,
    does="a fresh process, without what earlier calls of fit left behind",
    because="a fresh process has nothing in memory of the calls of fit that are done",
)
EARLIER_STEPS = replace(
    LEFTOVERS,
    does="a fresh process, without what earlier steps left behind",
    because="a fresh process has nothing in memory of the steps that are done",
)
"""The same of a loop of the script's own, and of a validation that had room before."""


def for_subject(escalation: EscalationPlan, case: FailureContext) -> EscalationPlan:
    """``escalation``, less what cannot help with what the case asked memory for."""
    subject = case.evidence.subject or OomSubject.STEP
    stop = STOPS.get(subject)
    if stop is None or (subject is OomSubject.BATCH and not _is_full(case)):
        return escalation
    remedy_steps = tuple(s for s in escalation.remedy_steps if _may_help(s, case))
    if _left_something(case):
        others = (step for step in remedy_steps if step.name != "fresh")
        steps = subject in {OomSubject.OWN_STEP, OomSubject.EVALUATION}
        remedy_steps = (EARLIER_STEPS if steps else LEFTOVERS, *others)
    return replace(escalation, remedy_steps=remedy_steps, stop=stop)


def _is_full(case: FailureContext) -> bool:
    """Whether the limit itself stood in the way, as far as figures tell: what others held
    of the device, or a pool in pieces, may be otherwise the next time. On a GPU the limit
    is what others left when the process began; a step that was done had room once."""
    known = case.diagnosis.memory
    if known is None or known.limit_bytes is None:
        return False
    if known.in_use_bytes is None or known.requested_bytes is None:
        return False
    if case.history.trained or _others_on_device(case):
        return False
    if any((fit.limit_bytes or 0) > known.limit_bytes for fit in case.history.fits):
        return False
    return known.in_use_bytes + known.requested_bytes > known.limit_bytes


def _others_on_device(case: FailureContext) -> bool:
    autopsy = case.diagnosis.autopsy
    return autopsy is not None and bool(autopsy.tenants)


def _may_help(remedy_step: RemedyStep, case: FailureContext) -> bool:
    if remedy_step.kind is RemedyKind.ALTER:
        return case.evidence.subject not in NOT_BY_PRECISION
    return remedy_step.kind is not RemedyKind.MICROBATCH


def _left_something(case: FailureContext) -> bool:
    """Whether calls of ``fit``, or other steps, came before it in the process that failed,
    and a single request was not too large by itself. A validation comes back as it was,
    unless one before had room in the same process."""
    evidence = case.evidence
    between = evidence.subject is not OomSubject.EVALUATION or evidence.validated
    return bool(evidence.steps_done) and between and not oversize(case)
