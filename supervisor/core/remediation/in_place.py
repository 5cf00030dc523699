"""The rules for going on in the same process: when a failed step needs no restart.

The training side has looked first: memory is back to what it was, nothing of the script's
is another than in the snapshot, XLA had no part in it. Here it is decided whether the
remedy is one that needs no new process, and whether this way has failed before.
"""

from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.result import Diagnosis, RemedyKind
from supervisor.core.remediation.history import AttemptHistory
from supervisor.core.remediation.overrides import Overrides
from supervisor.core.remediation.policy import Decision

CAUSES = frozenset({Cause.DEVICE_OOM, Cause.NON_FINITE_LOSS})
"""The others leave a process in doubt, or are cured by a new one (memory in pieces)."""
KINDS = frozenset({RemedyKind.MICROBATCH, RemedyKind.ROLLBACK, RemedyKind.ALTER})
DISPROVED = "a resume of this run did not continue to the bit"
NEVER = "it is not allowed ([remedies] in_place)"


def why_not(
    diagnosis: Diagnosis,
    decision: Decision,
    *,
    ended: AttemptHistory,
    before: Overrides,
    allowed: bool,
    disproved: bool = False,
) -> str | None:
    """Why the process has to end, in half a sentence; None: it may go on.

    ``ended``: the attempt as if it had ended at the failed step; ``before``: what was in
    force in it; ``disproved``: a resume of the run did not continue to the bit.
    """
    if not allowed:
        return NEVER
    if disproved:
        return DISPROVED
    found = (
        _of_cause(diagnosis),
        _of_attempt(ended),
        _of_remedy(decision, before),
    )
    return next((one for one in found if one is not None), None)


def _of_cause(diagnosis: Diagnosis) -> str | None:
    if diagnosis.cause in CAUSES:
        return None
    return f"{diagnosis.cause} leaves a process in doubt, or needs a new one"


def _of_remedy(decision: Decision, before: Overrides) -> str | None:
    remedy = decision.remedy
    if remedy.kind not in KINDS or _rest(decision.overrides) != _rest(before):
        return f"no process that runs can do what is decided ({remedy.kind.words})"
    if remedy.wait_seconds or decision.quarantine:
        return "the next try has to wait"
    return None


def _of_attempt(ended: AttemptHistory) -> str | None:
    if not ended.snapshot_step:
        return "there is no snapshot to go back to"
    last = ended.recoveries[-1] if ended.recoveries else None
    if last is not None and (ended.last_step or 0) <= (last.last_step or 0):
        return "training did not get past the step at which it went on before"
    return None


def _rest(overrides: Overrides) -> Overrides:
    """What cannot be changed in a process that runs."""
    return replace(overrides, plan=None, detour=None)
