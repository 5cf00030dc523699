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

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.advice import (
    ADVICE,
    DEVICE_FULL,
    LONGER_GRACE,
    NOT_SAVED,
    NOT_WRITABLE,
    OF_REFUSALS,
    SLURM_TIME_LIMIT,
)
from supervisor.core.diagnosis.evidence import Evidence, Killed
from supervisor.core.diagnosis.exit_status import ASKS_TO_END, NATIVE, SIGKILL
from supervisor.core.diagnosis.log_scanner import Hit, LogFindings
from supervisor.core.diagnosis.missing_file import missing_advice, missing_file
from supervisor.core.diagnosis.missing_module import missing_module, module_advice
from supervisor.core.diagnosis.result import ASKED, FIGURES, Diagnosis, Reason
from supervisor.core.diagnosis.scoring import (
    LONGEST,
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
from supervisor.core.diagnosis.signatures.memory_rows import (
    MEMORY_USAGE,
    NO_ROOM_FOR_KERNEL,
    NO_ROOM_TO_BEGIN,
    POOL_LIMIT,
    POOL_LIMIT_MIB,
    RESERVATION_FAILED,
)
from supervisor.core.diagnosis.signatures.process_rows import TIME_LIMIT
from supervisor.core.diagnosis.signatures.script_rows import READ_ONLY
from supervisor.core.diagnosis.signatures.signature import LIBRARY
from supervisor.core.diagnosis.stack_traces import where
from supervisor.core.memory.figures import MemoryFigures, OomVerdict, complete, verdict
from supervisor.core.memory.fit_memory import step_bytes
from supervisor.core.memory.oom_analysis import OUT_OF_MEMORY, room_but_for_others
from supervisor.core.text.units import format_duration, format_size
from supervisor.wire.reasons import KillReason, RefusalReason
from supervisor.wire.records.oom_subject import OomSubject

_CPU_ROWS = frozenset({"bfc.out_of_memory.cpu", "tf.oom_when_allocating.cpu"})
_KILLED_FROM_OUTSIDE = frozenset(
    {Cause.HOST_OOM, Cause.GPU_HARDWARE, Cause.UNKILLABLE, Cause.PREEMPTED}
)
"""SIGKILL comes from outside: an exception, or an allocation that failed and was
caught, in the log of a process of ours that ended so was not its end."""
FOR_WANT_OF_MEMORY = frozenset(
    {Cause.DEVICE_OOM, Cause.CUDNN_ALLOC, Cause.CUDNN_INIT, Cause.CUBLAS}
)
_USAGE = re.compile(
    r"Memory usage: (?P<free>\d+) bytes free, (?P<total>\d+) bytes total"
)
_POOL_LIMIT = re.compile(POOL_LIMIT_MIB)
_RESERVED = re.compile(r"ailed to allocate \S+ \((?P<bytes>\d+)(?: bytes|B)\)")
_VICTIM = re.compile(r"Killed process (?P<pid>\d+)")
OWN_PART = 0.5
"""A pool that got so much of what it asked for, less each time, may be what filled the
device."""
FULL_PART = 0.01
"""With less of a device free no library finds room for its handles and kernels, which
take some hundred MiB."""
_OF_SIGNATURES: Mapping[str, str] = {
    READ_ONLY: NOT_WRITABLE,
    TIME_LIMIT: SLURM_TIME_LIMIT,
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
    if not asked or evidence.crash is not None or _ended_otherwise(evidence):
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
        Cause.PREEMPTED, said, *exit_reasons(evidence), *_killed_before_us(evidence)
    )
    return replace(made, advice=advice)


def _killed_before_us(evidence: Evidence) -> Iterator[Reason]:
    """Why it may have saved nothing: others of the attempt had been killed for memory."""
    if evidence.oom_kills_before_kill:
        text = (
            "Before that the kernel's OOM counter of its cgroup stood at "
            f"{evidence.oom_kills_before_kill}: a process there had been killed for memory."
        )
        yield Reason(text, "cgroup")


def _crashed_and_hung(evidence: Evidence) -> Diagnosis:
    """Its own exception ended training; that SIGKILL had to end the process tells nothing,
    nor does what the kernel's counter stood at before."""
    alone = replace(evidence, exit=None, stop_requested=False, grace_seconds=None)
    return diagnose(replace(alone, cgroup_oom_kills=0))


def _killed_by_us(evidence: Evidence, killed: Killed) -> Diagnosis:
    """A hang is what a GPU that failed looks like from the program's side."""
    said = Reason(killed.sentence, "killed", code=killed.reason)
    stacks = [Reason(frame, "stack") for frame in where(evidence.stacks)]
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


def _ended_otherwise(evidence: Evidence) -> bool:
    """Whether something else than our request (SIGTERM, later SIGKILL) ended it: a
    fatal signal of its own, the kernel for want of memory, a GPU that failed."""
    if signal_in(evidence) in NATIVE:
        return True
    kills, before = evidence.cgroup_oom_kills, evidence.oom_kills_before_kill
    killed = signal_in(evidence) == SIGKILL and (kills or 0) > (before or 0)
    return killed or any(
        claim.decisive and not _killed_another(claim, evidence)
        for claim in kernel_claims(evidence)
    )


def _killed_another(claim: ScoredSignal, evidence: Evidence) -> bool:
    """Whether, of a process that we ended out of its grace, the kernel's line tells that
    it had killed another one of the attempt for memory, a worker say."""
    if evidence.grace_seconds is None or evidence.exit is None:
        return False
    found = _VICTIM.search(claim.reason.text)
    return found is not None and int(found["pid"]) != evidence.exit.pid


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
        return _made(Cause.NON_FINITE_LOSS, *lost)
    return _made(Cause.NONE)


def _killed_for_memory(evidence: Evidence) -> Diagnosis | None:
    if not evidence.cgroup_oom_kills or signal_in(evidence) != SIGKILL:
        return None
    kills = evidence.cgroup_oom_kills
    sentence = f"The kernel's OOM counter of this attempt's cgroup stands at {kills}."
    return _made(Cause.HOST_OOM, Reason(sentence, "cgroup"), *exit_reasons(evidence))


def _recognised(evidence: Evidence) -> Diagnosis | None:
    claims = _worthy(evidence, outlived=False)
    if not claims and failed(evidence):
        claims = _worthy(evidence, outlived=True)
    if not any(claim.decisive for claim in claims) and not failed(evidence):
        return None
    if not claims:
        return None
    best = min(claims, key=precedence)
    cause, memory = _settle(best, evidence)
    reasons = _quotes(best, claims) + exit_reasons(evidence)
    reasons += [*_memory_reasons(cause, memory), *_device_reasons(cause, evidence.log)]
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


def no_room_to_begin(diagnosis: Diagnosis, evidence: Evidence) -> bool:
    """Whether the device was full before the process had anything there: of others'. A
    kernel also finds no room where the process itself had reserved the device."""
    if evidence.steps_done or (evidence.log_only and evidence.log.progress):
        return False
    said = {reason.signature for reason in diagnosis.because}
    kernel = NO_ROOM_FOR_KERNEL in said
    return NO_ROOM_TO_BEGIN in said or (kernel and _nothing_reserved(evidence.log))


def _nothing_reserved(log: LogFindings) -> bool:
    """Whether its pool was refused its first reservation, and most of that as well.

    Without memory growth the first one is all that the pool may take. A pool that grows
    is refused later ones, beside what it has; of it nothing is known.
    """
    limits = [_number(_POOL_LIMIT, hit.text) for hit in _of(log, {POOL_LIMIT})]
    tried = [_number(_RESERVED, hit.text) for hit in _of(log, RESERVATION_FAILED)]
    refused = [size for size in tried if size]
    whole = bool(refused) and refused[0] >> 20 in limits
    return whole and min(refused) < OWN_PART * refused[0]


def _of(log: LogFindings, signatures: Collection[str]) -> Iterator[Hit]:
    return (hit for hit in log.hits if hit.signature in signatures)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return None if found is None else int(found[1])


def _worthy(evidence: Evidence, *, outlived: bool) -> list[ScoredSignal]:
    every = claims_of(evidence, outlived=outlived)
    if signal_in(evidence) != SIGKILL or evidence.log_only:
        return [claim for claim in every if claim.weight >= 1]
    return [
        claim
        for claim in every
        if claim.weight >= LIBRARY and claim.cause in _KILLED_FROM_OUTSIDE
    ]


def _settle(
    best: ScoredSignal, evidence: Evidence
) -> tuple[Cause, MemoryFigures | None]:
    """Device or host, capacity or fragmentation: with the figures that decide it."""
    if best.cause not in OUT_OF_MEMORY:
        return best.cause, None
    memory = _with_step(_figures(best, evidence), evidence)
    cause = best.cause
    if evidence.limited and best.reason.signature in _CPU_ROWS:
        cause = Cause.DEVICE_OOM
    kind = None if memory is None else verdict(memory)
    if cause is Cause.DEVICE_OOM and kind is OomVerdict.FRAGMENTATION:
        cause = Cause.DEVICE_OOM_FRAGMENTATION
    return cause, memory


def _with_step(
    memory: MemoryFigures | None, evidence: Evidence
) -> MemoryFigures | None:
    """``memory`` with what a step needs, where one failed."""
    in_step = evidence.subject in {None, OomSubject.STEP}
    if memory is None or memory.requested_bytes is None or not in_step:
        return memory
    needed = step_bytes(
        evidence.fits,
        asked_bytes=memory.requested_bytes,
        between_bytes=evidence.memory.between_steps_bytes,
    )
    return replace(memory, step_bytes=needed)


def _figures(best: ScoredSignal, evidence: Evidence) -> MemoryFigures | None:
    """The dump file has every chunk, the log the request and the limit: together."""
    line = best.reason.line
    logged = _logged(evidence.log, line)
    dump = evidence.dump
    if dump is None:
        return logged
    if logged is None:
        return dump
    return complete(
        replace(
            dump,
            limit_bytes=dump.limit_bytes or logged.limit_bytes,
            requested_bytes=dump.requested_bytes or logged.requested_bytes,
            growth_bytes=None,
        )
    )


def _logged(log: LogFindings, line: int | None) -> MemoryFigures | None:
    """The figures that belong to the failure at ``line``: the last before it."""
    if not log.dumps:
        return None
    if line is None:
        return log.dumps[0].figures
    before = [each for each in log.dumps if each.line <= line]
    return (before[-1] if before else log.dumps[0]).figures


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


def _memory_reasons(cause: Cause, memory: MemoryFigures | None) -> Iterator[Reason]:
    if memory is None or memory.requested_bytes is None:
        return
    asked, free = memory.requested_bytes, memory.free_bytes
    if cause is Cause.DEVICE_OOM_FRAGMENTATION and free is not None:
        largest = memory.largest_free_bytes
        block = "" if largest is None else f", the largest block {format_size(largest)}"
        text = f"{format_size(asked)} asked for, {format_size(free)} free in the pool{block}."
        yield Reason(text, FIGURES)
    elif memory.limit_bytes is not None and memory.in_use_bytes is not None:
        used, limit = format_size(memory.in_use_bytes), format_size(memory.limit_bytes)
        text = f"{format_size(asked)} asked for; {used} of {limit} in use."
        growth = memory.growth_bytes
        if growth is not None and growth < asked <= room_but_for_others(memory):
            left = format_size(growth)
            text += f" The device itself had {left} free: others, or libraries, hold the rest."
        yield Reason(text, FIGURES)


def _device_reasons(cause: Cause, log: LogFindings) -> Iterator[Reason]:
    """What the driver said of the whole device, where a library was given nothing."""
    if cause not in FOR_WANT_OF_MEMORY:
        return
    for hit in log.hits:
        told = _USAGE.search(hit.text) if hit.signature == MEMORY_USAGE else None
        if told is None or int(told["free"]) > FULL_PART * int(told["total"]):
            continue
        free, total = format_size(int(told["free"])), format_size(int(told["total"]))
        text = (
            f"The device was full: {free} of its {total} were free. Other processes hold "
            "the rest, or this one had reserved it."
        )
        yield Reason(text, "device_memory", hit.line)
        return


def _by_its_own_choice(evidence: Evidence) -> Diagnosis | None:
    code = evidence.script_exit_code
    if not code:
        return None
    sentence = f"The script itself ended with sys.exit({code})."
    said = evidence.script_exit_message.strip()
    if said:
        first = said.splitlines()[0]
        sentence = f"The script itself ended, saying: {first[:LONGEST]}"
    return _made(Cause.USER_ERROR, Reason(sentence, "exit"))


def _by_exit(evidence: Evidence) -> Diagnosis | None:
    number = signal_in(evidence)
    unit = None if evidence.exit is not None else evidence.unit
    from_outside = unit is not None and unit.outside
    if number is None and not from_outside:
        return None
    if number != SIGKILL:
        return _made(Cause.PREEMPTED, *exit_reasons(evidence))
    kills = evidence.cgroup_oom_kills
    counter = (
        "could not be read" if kills is None else "did not move: it was not memory"
    )
    sentence = (
        "Trainwarden did not send it: somebody outside did, or the script itself; the "
        f"cgroup's OOM counter {counter}."
    )
    return _made(Cause.PREEMPTED, *exit_reasons(evidence), Reason(sentence, "cgroup"))


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
    return _made(Cause.UNKNOWN, *reasons)


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
