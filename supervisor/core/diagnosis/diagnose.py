"""The diagnosis: one pure function from evidence to a cause with reasons.

The rules, each asked in this order; the first that answers decides:

1. The training side refused to start, and said why; or it found no room to begin.
2. It saved its state on request; or we ended it ourselves, and know why (unless a GPU
   had failed before, or something else was quicker than our request).
3. It came to its end: nothing went wrong, unless the loss was no number at the end.
4. The cgroup counted an OOM kill, and SIGKILL is how it ended.
5. Something recognisable: the child's crash report, the kernel, faulthandler, the log
   and the allocator's dump are weighed against each other (``scoring``). The heavier
   sign wins, so that a root cause beats what it dragged along; among equals the first
   in time. What training outlived (progress went on after it) is no cause.
6. The script left with a status of its own choice, or the exit status alone; where
   nobody is left to tell that, what systemd says of the unit.
7. Unknown, and the last line of the log is quoted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import (
    ADVICE,
    DEVICE_FULL,
    ENDED_AT_ONCE,
    ENDED_ITSELF,
    LONGER_GRACE,
    NOT_SAVED,
    NOT_WRITABLE,
    OF_REFUSALS,
    ONLY_VALIDATION_LOST,
    SIGKILL_FROM_OUTSIDE,
    SLURM_CANCELLED,
    SLURM_PREEMPTED,
    SLURM_TIME_LIMIT,
)
from supervisor.core.diagnosis.evidence import Evidence, Killed
from supervisor.core.diagnosis.exit_status import ASKS_TO_END, SIGKILL
from supervisor.core.diagnosis.kernel.memory_kills import (
    counted_kills,
    ended_otherwise,
    killed_before_us,
    nothing_counted,
)
from supervisor.core.diagnosis.log_scanner import LogFindings
from supervisor.core.diagnosis.memory_shortage import (
    device_reasons,
    figure_reasons,
    no_room_to_begin,
    settled,
)
from supervisor.core.diagnosis.not_found import (
    missing_advice,
    missing_file,
    missing_module,
    module_advice,
)
from supervisor.core.diagnosis.result import (
    ASKED,
    OWN_EXIT,
    STACK,
    Diagnosis,
    Reason,
)
from supervisor.core.diagnosis.scoring import (
    KILLED_ELSEWHERE,
    LONGEST,
    ONLY_VALIDATION,
    QUOTED,
    ScoredSignal,
    claims_of,
    exit_reasons,
    failed,
    kernel_claims,
    not_finite,
    precedence,
    signal_in,
)
from supervisor.core.diagnosis.signatures.process_rows import (
    CANCELLED,
    PREEMPTION,
    TIME_LIMIT,
)
from supervisor.core.diagnosis.signatures.script_rows import READ_ONLY
from supervisor.core.diagnosis.signatures.signature import LIBRARY
from supervisor.core.diagnosis.stack_traces import crashed_in, where
from supervisor.core.memory.figures import MemoryFigures
from supervisor.core.text.units import format_duration
from supervisor.wire.reasons import KillReason, RefusalReason

_KILLED_FROM_OUTSIDE = frozenset(
    {Cause.HOST_OOM, Cause.GPU_HARDWARE, Cause.UNKILLABLE, Cause.PREEMPTED}
)
"""SIGKILL comes from outside: an exception, or an allocation that failed and was
caught, in the log of a process of ours that ended so was not its end."""
_OF_SIGNATURES: Mapping[str, str] = {
    READ_ONLY: NOT_WRITABLE,
    TIME_LIMIT: SLURM_TIME_LIMIT,
    PREEMPTION: SLURM_PREEMPTED,
    CANCELLED: SLURM_CANCELLED,
    ONLY_VALIDATION: ONLY_VALIDATION_LOST,
}
"""Advice of lines that say more than their cause does."""
_REFUSALS: Mapping[RefusalReason, Cause] = {
    RefusalReason.VERSIONS: Cause.VERSION_MISMATCH,
    RefusalReason.INTERNALS: Cause.VERSION_MISMATCH,
    RefusalReason.MEMORY: Cause.DEVICE_OOM,
    RefusalReason.NO_ROOM: Cause.DISK_FULL,
    RefusalReason.DEVICE_GONE: Cause.UNKNOWN,
}
"""What a refusal says of the end; the others ask a person to decide."""


AT_ONCE = (
    "Python did not end it: no exception, no sys.exit; os._exit was called, or native code "
    "left."
)
"""Of a process that ended so in training."""


def diagnose(evidence: Evidence) -> Diagnosis:
    """Name the cause of the end of an attempt. Total, and a function of its input."""
    for rule in _RULES:
        diagnosis = rule(evidence)
        if diagnosis is not None:
            return diagnosis
    return _unexplained(evidence)


def diagnose_log(log: LogFindings, *, evidence: Evidence | None = None) -> Diagnosis:
    """The cause that a log tells by itself; ``none`` where it shows no failure."""
    known = Evidence(exit=None) if evidence is None else evidence
    finished = known.finished or (known.exit is None and _says_it_ended_well(log))
    return diagnose(replace(known, log=log, finished=finished, log_only=True))


def _says_it_ended_well(log: LogFindings) -> bool:
    return bool(log.hits) and log.hits[-1].signature == "process.ended_with_zero"


def _made(
    cause: Cause, *reasons: Reason, memory: MemoryFigures | None = None
) -> Diagnosis:
    return Diagnosis(cause=cause, because=reasons, memory=memory, advice=ADVICE[cause])


def _refused(evidence: Evidence) -> Diagnosis | None:
    refused = evidence.refused
    if refused is None:
        return None
    said = Reason(refused.sentence, "refused", code=refused.reason)
    found = _made(_REFUSALS.get(refused.reason, Cause.USER_ERROR), said)
    advice = OF_REFUSALS.get(refused.reason, found.advice)
    return replace(found, advice=advice)


def _found_no_room(evidence: Evidence) -> Diagnosis | None:
    if not evidence.no_room:
        return None
    sentence = "The disk had no room for its own files: the script did not begin."
    return _made(Cause.DISK_FULL, Reason(sentence, "exit"))


def from_outside(diagnosis: Diagnosis, evidence: Evidence) -> bool:
    """Whether kernel or systemd tell that somebody outside ended it, not its output."""
    asked = evidence.stop_requested or evidence.grace_seconds is not None
    if diagnosis.cause is not Cause.PREEMPTED or asked:
        return False
    record, unit = evidence.exit, evidence.unit
    if record is None:
        return unit is not None and unit.outside
    killed = record.signal == SIGKILL and evidence.cgroup_oom_kills == 0
    return killed or record.signal in ASKS_TO_END


def _drained(evidence: Evidence) -> Diagnosis | None:
    if not evidence.drained:
        return None
    if evidence.finished:
        return _made(Cause.NONE)
    return _made(
        Cause.PREEMPTED, Reason("It saved its state on request and ended.", "drained")
    )


def _ended_by_us(evidence: Evidence) -> Diagnosis | None:
    if evidence.killed is not None:
        return _killed_by_us(evidence, evidence.killed)
    grace = evidence.grace_seconds
    asked = (evidence.stop_requested or grace is not None) and not evidence.finished
    if asked and grace is not None and evidence.crash is not None:
        return _crashed_and_hung(evidence)
    if not asked or evidence.crash is not None or ended_otherwise(evidence):
        return None
    said = Reason("It was asked to end, and ended before its state was saved.", ASKED)
    advice = NOT_SAVED
    if grace is not None and (evidence.exit is None or signal_in(evidence) == SIGKILL):
        text = (
            f"It was asked to end; it saved nothing within {format_duration(grace)}, "
            "so Trainwarden ended it."
        )
        said = Reason(text, ASKED, code=KillReason.GRACE_OVER)
        advice = f"{NOT_SAVED} {LONGER_GRACE}"
    made = _made(
        Cause.PREEMPTED, said, *exit_reasons(evidence), *killed_before_us(evidence)
    )
    return replace(made, advice=advice)


def _crashed_and_hung(evidence: Evidence) -> Diagnosis:
    """Its own exception ended training; that SIGKILL had to end the process tells nothing,
    nor does what the kernel's counter stood at before."""
    alone = replace(evidence, exit=None, stop_requested=False, grace_seconds=None)
    return diagnose(replace(alone, cgroup_oom_kills=0))


def _killed_by_us(evidence: Evidence, killed: Killed) -> Diagnosis:
    """A hang is what a GPU that failed looks like from the program's side."""
    said = Reason(killed.sentence, "killed", code=killed.reason)
    stacks = [Reason(frame, STACK) for frame in where(evidence.stacks)]
    if killed.reason is KillReason.UNKILLABLE:
        return _made(Cause.UNKILLABLE, said, *stacks)
    if killed.reason is KillReason.REFUSED:
        return _out_of_memory(evidence, said)
    broken = [
        claim.reason
        for claim in kernel_claims(evidence)
        if claim.cause is Cause.GPU_HARDWARE and claim.decisive
    ]
    if broken:
        return _made(Cause.GPU_HARDWARE, *broken[:QUOTED], said, *stacks)
    return _made(Cause.STALLED, said, *stacks)


def _out_of_memory(evidence: Evidence, said: Reason) -> Diagnosis:
    """Killed as its allocator was refused memory again and again: its log tells of that
    as if it had ended by itself."""
    alone = replace(evidence, killed=None, exit=None, unit=None)
    found = diagnose_log(evidence.log, evidence=alone)
    if found.cause not in {Cause.DEVICE_OOM, Cause.DEVICE_OOM_FRAGMENTATION}:
        return _made(Cause.DEVICE_OOM, said)
    return replace(found, because=(said, *found.because[: QUOTED - 1]))


def _lost_its_loss(evidence: Evidence) -> Diagnosis | None:
    found = evidence.non_finite
    if found is None:
        return None
    return _made(Cause.NON_FINITE_LOSS, Reason(found.because, "loss_watch"))


def _unkillable(evidence: Evidence) -> Diagnosis | None:
    if evidence.exit is None or not evidence.exit.unkillable:
        return None
    pids = ", ".join(str(pid) for pid in evidence.exit.unkillable)
    sentence = f"SIGKILL did not end these processes of it: {pids} (D state)."
    return _made(Cause.UNKILLABLE, Reason(sentence, "exit"))


def _ended_well(evidence: Evidence) -> Diagnosis | None:
    if not evidence.finished:
        return None
    lost = not_finite(evidence.log)
    if lost:
        made = _made(Cause.NON_FINITE_LOSS, *lost)
        advice = _particular(made.cause, lost[0])
        return made if advice is None else replace(made, advice=advice)
    return _made(Cause.NONE)


def _killed_for_memory(evidence: Evidence) -> Diagnosis | None:
    counted = counted_kills(evidence)
    if counted is None:
        return None
    return _made(Cause.HOST_OOM, counted, *exit_reasons(evidence))


def _recognised(evidence: Evidence) -> Diagnosis | None:
    claims = _worthy(evidence, outlived=False)
    if not claims and failed(evidence):
        claims = _worthy(evidence, outlived=True)
    if not any(claim.decisive for claim in claims) and not failed(evidence):
        return None
    if not claims:
        return None
    best = min(claims, key=precedence)
    cause, memory = settled(best, evidence)
    quotes = _quotes(best, claims)
    if cause is Cause.UNKNOWN and evidence.log_only and signal_in(evidence) == SIGKILL:
        return _killed_elsewhere(evidence, quotes)
    said = {one.text for one in quotes}
    reasons = quotes + [one for one in exit_reasons(evidence) if one.text not in said]
    if cause is Cause.NATIVE_CRASH:
        reasons += [Reason(frame, STACK) for frame in crashed_in(evidence.stacks)]
    reasons += [*figure_reasons(cause, memory), *device_reasons(cause, evidence.log)]
    made = _made(cause, *reasons, memory=memory)
    decided = reasons[0]  # the others may be of errors that the script handled
    advice = _particular(cause, decided)
    if advice is None and no_room_to_begin(made, evidence):
        advice = DEVICE_FULL
    return made if advice is None else replace(made, advice=advice)


def _particular(cause: Cause, decided: Reason) -> str | None:
    """What the line that decided lets one say beyond its cause; None: nothing."""
    if decided.signature in _OF_SIGNATURES:
        return _OF_SIGNATURES[decided.signature]
    if cause is Cause.DATA_ERROR:
        path = missing_file(decided.text)
        return None if path is None else missing_advice(path)
    if cause is Cause.USER_ERROR:
        name = missing_module(decided.text)
        return None if name is None else module_advice(name)
    return None


def _worthy(evidence: Evidence, *, outlived: bool) -> list[ScoredSignal]:
    every = claims_of(evidence, outlived=outlived)
    if signal_in(evidence) != SIGKILL or evidence.log_only:
        return [claim for claim in every if claim.weight >= 1]
    return [
        claim
        for claim in every
        if claim.weight >= LIBRARY and claim.cause in _KILLED_FROM_OUTSIDE
    ]


def _quotes(best: ScoredSignal, claims: list[ScoredSignal]) -> list[Reason]:
    """The line that decided, and the heaviest others of the same cause."""
    same = [claim for claim in claims if claim.cause is best.cause]
    ordered = [best, *sorted(same, key=precedence)]
    if best.cause is Cause.USER_ERROR:  # as the script's author would look for it
        raised = [claim for claim in same if claim.reason.signature == "crash"]
        whole = next((one for one in raised if _within(best, one)), None)
        told = best if whole is None else _in_the_words_of(whole, best)
        ordered = ([*raised] if whole is None else []) + [told, *ordered[1:]]
        ordered = [one for one in ordered if one is told or not _within(one, told)]
    said: dict[str, Reason] = {}
    for claim in ordered:
        said.setdefault(claim.reason.text.strip(), claim.reason)
    return list(said.values())[:QUOTED]


def _within(one: ScoredSignal, whole: ScoredSignal) -> bool:
    """Whether ``whole`` says all that ``one`` does, as an exception that itself decided."""
    return one.reason.text.strip() in whole.reason.text


def _in_the_words_of(whole: ScoredSignal, one: ScoredSignal) -> ScoredSignal:
    return replace(one, reason=replace(one.reason, text=whole.reason.text))


def _by_its_own_choice(evidence: Evidence) -> Diagnosis | None:
    code = evidence.script_exit_code
    if not code:
        return None
    sentence = f"The script itself ended with sys.exit({code})."
    said = evidence.script_exit_message.strip()
    if said:
        first = said.splitlines()[0]
        sentence = f"The script itself ended, saying: {first[:LONGEST]}"
    made = _made(Cause.USER_ERROR, Reason(sentence, OWN_EXIT))
    return replace(made, advice=ENDED_ITSELF)


def _by_exit(evidence: Evidence) -> Diagnosis | None:
    number = signal_in(evidence)
    unit = None if evidence.exit is not None else evidence.unit
    from_outside = unit is not None and unit.outside
    if number is None and not from_outside:
        return None
    if number != SIGKILL:
        return _made(Cause.PREEMPTED, *exit_reasons(evidence))
    if evidence.log_only:
        return _killed_elsewhere(evidence, [])
    reasons = [*exit_reasons(evidence), nothing_counted(evidence)]
    return _made(Cause.PREEMPTED, *reasons)


def _killed_elsewhere(evidence: Evidence, quoted: Sequence[Reason]) -> Diagnosis:
    """Of a log of somebody's: no supervisor was there, and no counter of kills was read.
    ``quoted``: its lines that say only that something failed."""
    said = [replace(one, signature=KILLED_ELSEWHERE) for one in exit_reasons(evidence)]
    made = _made(Cause.PREEMPTED, *said, *quoted)
    return replace(made, advice=SIGKILL_FROM_OUTSIDE)


def _unexplained(evidence: Evidence) -> Diagnosis:
    if evidence.log_only and not failed(evidence):
        return _made(Cause.NONE)
    reasons = exit_reasons(evidence) or [
        Reason("No exit record was found: its parent ended as well.", "exit")
    ]
    if not failed(evidence):
        reasons = [
            Reason("It left with exit code 0 in the middle of training.", "exit")
        ]
    if evidence.log.last_line:
        last = Reason(evidence.log.last_line, "last_line", evidence.log.lines or None)
        reasons.append(last)
    if not _left_at_once(evidence):
        return _made(Cause.UNKNOWN, *reasons)
    reasons[:1] = [replace(reasons[0], text=f"{reasons[0].text} {AT_ONCE}")]
    return replace(_made(Cause.UNKNOWN, *reasons), advice=ENDED_AT_ONCE)


def _left_at_once(evidence: Evidence) -> bool:
    """Whether it trained, and then left without an exception, ``sys.exit`` or a signal:
    each of them leaves a record."""
    status = None if evidence.exit is None else evidence.exit.exit_code
    by_python = evidence.crash is not None or evidence.script_exit_code is not None
    return bool(evidence.steps_done) and status is not None and not by_python


_RULES: tuple[Callable[[Evidence], Diagnosis | None], ...] = (
    _refused,
    _found_no_room,
    _drained,
    _ended_by_us,
    _lost_its_loss,
    _unkillable,
    _ended_well,
    _killed_for_memory,
    _recognised,
    _by_its_own_choice,
    _by_exit,
)
