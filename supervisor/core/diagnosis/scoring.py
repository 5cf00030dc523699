"""The signs of a cause, each with how much it explains.

The heavier sign wins, so that a root cause beats what it dragged along; among equals
the first in time. What training outlived is no sign at all.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.exit_status import (
    NATIVE,
    SIGABRT,
    signal_name,
    signal_of,
)
from supervisor.core.diagnosis.log_scanner import Hit, LogFindings, scan
from supervisor.core.diagnosis.result import Reason, ReasonSource
from supervisor.core.diagnosis.signatures.all_rows import BY_ID
from supervisor.core.diagnosis.signatures.ending_rows import (
    BARRIER,
    GOES_ON,
    LAST_LINES,
    LEVEL,
    LOST_LOSS,
    RANKS_MISSING,
)
from supervisor.core.diagnosis.signatures.script_rows import NO_DEVICE, READ_ONLY
from supervisor.core.diagnosis.signatures.signature import (
    CAUSE,
    EXCEPTION,
    HINT,
    LIBRARY,
    SYMPTOM,
    Role,
    Where,
)
from supervisor.core.diagnosis.systemd_result import OOM_KILL
from supervisor.core.diagnosis.training_output import trained_on
from supervisor.core.text.plain import plain

TYPED = EXCEPTION + 5
"""Up to this weight a sign is no more than the type of an exception: the last one
counts, as it does in Python, and not the first."""
OUTLIVED = 2
"""So many new signs of progress after a line mean that training outlived it."""
_SEE_ABOVE = re.compile(r"(?:message was printed|errors) above")
"""TensorFlow: core/kernels/conv_ops.cc; XLA: stream_executor/dnn.cc."""
_MILD = re.compile(
    r":\d+: \w*Warning: |^\[I\d* |^I\d{4} \d\d:\d\d|: I (?:tensorflow|external|xla)/"
    r"|(?:^|\]:)\[W\d* .*(?:TCPStore|socket)\.cpp"
)
"""``file.py:12: UserWarning: …`` (cpython: Lib/warnings.py), and what glog and abseil
mark as information: the program goes on, so that what it says is no more than a hint."""
_SAYS_IT_FAILED = frozenset(
    {
        "launcher.nonzero_exit",
        "container.not_started",
        "jupyter.kernel_died",
        "log.error_failed",
        "log.process_failed",
    }
)
"""Rows of lines that know no more than an exit status does."""
_WARNED = re.compile(r"^(?!.*NCCL).{0,60}\b(?:WARNING|WARN)\b[\]:| -]")
"""The level of a logger: of what such a program can do without, a hint as well."""
_TF_WARNED = re.compile(r": W (?:tensorflow|external|xla)/(?!core/)")
"""abseil's level of a warning: they go on without that tool. TensorFlow tells in ``core`` of
operations that failed at the same level."""
_DISPENSABLE = frozenset(
    {Cause.DATA_ERROR, Cause.DEVICE_OOM, Cause.USER_ERROR, Cause.VERSION_MISMATCH}
)
QUOTED = 3
"""Lines quoted at most."""
_COVER = re.compile(r"Exception encountered when calling |Graph execution error:$")
"""Keras before what a layer raised, TensorFlow before what an operation did."""
_PLACE = re.compile(r'File "|Detected at node|<stack traces|\[\[|\d+ root error')
"""Where it was, in lines between the cover and that."""
LONGEST = 300
"""Characters of an exception that are quoted."""
_COMMAND_FAILED = re.compile(r"subprocess\.CalledProcessError: .* non-zero exit status")
"""cpython: Lib/subprocess.py. In a log it is a launcher's; raised by the script it is of a
command that the script ran."""
ONLY_VALIDATION = "loss.only_validation"
"""Signature of a validation loss that is no number, where that of training is one."""
PRESSED = "^C"
"""What a terminal shows of Ctrl-C (linux: drivers/tty/n_tty.c, ECHOCTL)."""
KILLED_ELSEWHERE = "exit.sigkill"
"""... of an end by SIGKILL of a program that nobody watched."""
UNPROMPTED = "The script raised KeyboardInterrupt itself: no signal came, and no key was pressed."


@dataclass(frozen=True, slots=True)
class ScoredSignal:
    """One sign: what it speaks for and how much it explains."""

    weight: int
    order: int
    """Position in time among the claims of its source: lines."""
    cause: Cause
    reason: Reason
    decisive: bool = True
    """False: a hint, which decides only if something else shows a failure."""


def precedence(claim: ScoredSignal) -> tuple[int, int, str, str]:
    """Smaller is better: heavier first, then earlier; of mere types the last."""
    order = claim.order if claim.weight > TYPED else -claim.order
    return -claim.weight, order, claim.cause.value, claim.reason.text


def claims_of(evidence: Evidence, *, outlived: bool = False) -> Iterator[ScoredSignal]:
    """Every sign in ``evidence``, unordered; ``precedence`` orders them.

    ``outlived``: also those that training outlived, as it seems (another rank may have
    gone on for some lines).
    """
    yield from _crash_claims(evidence)
    yield from kernel_claims(evidence)
    for hit in _beyond_words(evidence.fault.hits):
        yield _from(_claim(hit), ReasonSource.FAULT, line=hit.line)
    for claim in _log_claims(evidence, outlived=outlived):
        # What a script handled says nothing of the exception that ended it.
        if evidence.crash is None or claim.reason.signature != READ_ONLY:
            yield claim
    if evidence.dump is not None and failed(evidence):
        text = "The allocator wrote a dump of its memory when a request failed."
        cause = Cause.DEVICE_OOM if _on_device(evidence) else Cause.HOST_OOM
        yield ScoredSignal(CAUSE - 5, 0, cause, Reason(text, "dump"))
    if evidence.cgroup_oom_kills:
        text = f"The cgroup counted {evidence.cgroup_oom_kills} OOM kill(s)."
        yield ScoredSignal(CAUSE + 10, 0, Cause.HOST_OOM, Reason(text, "cgroup"))
    if evidence.unit is not None and evidence.unit.result == OOM_KILL:
        yield ScoredSignal(CAUSE + 10, 0, Cause.HOST_OOM, exit_reasons(evidence)[0])
    if signal_in(evidence) in NATIVE:
        weight = EXCEPTION + (2 if signal_in(evidence) != SIGABRT else -10)
        yield ScoredSignal(weight, 0, Cause.NATIVE_CRASH, exit_reasons(evidence)[0])


def kernel_claims(evidence: Evidence) -> Iterator[ScoredSignal]:
    """What the kernel said of the attempt: Xids of its GPUs, OOM kills."""
    return (
        _from(_claim(hit), ReasonSource.KERNEL, line=None)
        for hit in _beyond_words(evidence.kernel.hits)
    )


def _from(
    claim: ScoredSignal, source: ReasonSource, *, line: int | None
) -> ScoredSignal:
    """``claim``, quoted from elsewhere than what the attempt printed. ``line``: None where
    its number is that of an extract, in which nobody can look it up."""
    return replace(claim, reason=replace(claim.reason, source=source, line=line))


def _crash_claims(evidence: Evidence) -> Iterator[ScoredSignal]:
    """The exception that ended the script, and what it says.

    It outranks the log: what the log shows beside it may be older, or a consequence
    (TensorFlow may still abort while the interpreter ends). So does the allocation that
    failed before: the exception is what came of it. Only a library's cover
    for something else (``InternalError``, or a message that says itself that the cause
    stands above) is left to the log.
    """
    crash = evidence.crash
    if crash is None:
        return
    name = crash.exception.removeprefix("__main__.")  # as Python prints it
    last = crash.allocation or f"{name}: {crash.message}".removesuffix(": ")
    above = "" if crash.allocation else crash.traceback
    for hit in _said_by(above, last):
        claim = _claim(hit)
        told = claim.weight >= LIBRARY and not _SEE_ABOVE.search(hit.text)
        bonus = 10 if told else 0
        if hit.signature == "python.own_error":
            bonus = CAUSE + 10 - claim.weight
        reason = replace(claim.reason, line=None)
        yield replace(claim, weight=claim.weight + bonus, reason=reason)
    summary = Reason(opening(last)[:LONGEST], "crash")
    if crash.unprompted:
        yield ScoredSignal(CAUSE, 0, Cause.USER_ERROR, Reason(UNPROMPTED, "crash"))
    if _COMMAND_FAILED.match(last):
        yield ScoredSignal(EXCEPTION + 1, 0, Cause.USER_ERROR, summary)
    if crash.memory is not None:  # TensorFlow has other names for it too
        cause = Cause.DEVICE_OOM if _on_device(evidence) else Cause.HOST_OOM
        yield ScoredSignal(CAUSE - 5, 0, cause, summary)
    yield ScoredSignal(HINT + 4, 0, Cause.USER_ERROR, summary)


def opening(text: str) -> str:
    """The first line of an exception; where a framework puts a cover before what is wrong,
    that as well."""
    lines = [line.strip() for line in plain(text).splitlines()]
    first, *rest = [line for line in lines if line] or [text]
    if not _COVER.search(first):
        return first
    told = next((line for line in rest if not _PLACE.match(line)), "")
    return f"{first} {told}".strip()


def _said_by(above: str, last: str) -> Iterator[Hit]:
    """What is known of an exception: of its own line, and of the traceback ``above`` it
    what that line does not say as well (there it may be quoted from the source)."""
    own = _beyond_words(scan(f"{last}\n".encode(errors="replace")).hits)
    yield from own
    known = {hit.signature for hit in own} | {"python.traceback"}
    for hit in _beyond_words(scan(f"{above}\n".encode(errors="replace")).hits):
        if hit.signature not in known:
            yield hit


def _beyond_words(hits: Sequence[Hit]) -> list[Hit]:
    """Those of rows that know more than the words that logs end with."""
    return [hit for hit in hits if BY_ID[hit.signature].where is not Where.END]


def _log_claims(evidence: Evidence, *, outlived: bool) -> Iterator[ScoredSignal]:
    log = evidence.log
    without_device = any(hit.signature == NO_DEVICE for hit in log.hits)
    for hit in log.hits:
        worth = (outlived or not _outlived(hit, log)) and _said_in_time(hit, evidence)
        if worth and not (_belied(hit, evidence) or _known_better(hit, evidence)):
            yield _claim(hit, earnest=without_device)
    if evidence.log_only and log.last_line.endswith(PRESSED):
        pressed = Reason(log.last_line, "end.interrupted", log.lines or None)
        yield ScoredSignal(SYMPTOM - 1, log.lines, Cause.PREEMPTED, pressed)
    yield from _lost_losses(evidence)


def _lost_losses(evidence: Evidence) -> Iterator[ScoredSignal]:
    """A validation loss that is no number ends no process, and is no reason to go back: an
    exception says more, and of our own runs it is told only where they came to their end."""
    mild = evidence.log_only and signal_in(evidence) is None
    for position, reason in enumerate(not_finite(evidence.log)):
        weight, order = TYPED + 1, reason.line or 0
        if reason.signature == ONLY_VALIDATION:
            # Among mild signs the last comes first.
            weight, order = HINT + 1 if mild else 0, -position
        if weight:
            yield ScoredSignal(weight, order, Cause.NON_FINITE_LOSS, reason)


def _claim(hit: Hit, *, earnest: bool = False) -> ScoredSignal:
    """``earnest``: it ended for want of a device, for which a warning may name the reason."""
    row, order = BY_ID[hit.signature], hit.line
    if row.role is Role.BENIGN:
        return ScoredSignal(0, order, Cause.NONE, _reason(hit), decisive=False)
    why = earnest and row.cause in {Cause.VERSION_MISMATCH, Cause.GPU_HARDWARE}
    warned = row.cause in _DISPENSABLE and _WARNED.search(hit.text) is not None
    if row.cause is Cause.VERSION_MISMATCH and not warned:
        warned = _TF_WARNED.search(hit.text) is not None
    mild = (warned or _MILD.search(hit.text) is not None) and not why
    weight = min(row.weight, HINT) if mild else row.weight
    return ScoredSignal(weight, order, row.cause, _reason(hit), decisive=weight > HINT)


def _reason(hit: Hit) -> Reason:
    return Reason(hit.text, hit.signature, hit.line)


def _said_in_time(hit: Hit, evidence: Evidence) -> bool:
    """Whether ``hit`` says what it says where that tells something: of words that any
    program ends with, at the end of a log of which nothing else is known."""
    if BY_ID[hit.signature].where is not Where.END:
        return True
    log = evidence.log
    near = hit.line > log.lines - LAST_LINES and evidence.log_only
    if hit.signature in {LOST_LOSS, RANKS_MISSING}:
        return near
    if hit.signature == BARRIER:
        said = sum(one.signature == BARRIER for one in log.hits)
        return near and said > 1 and hit.text == log.last_line
    last = LEVEL.search(hit.text) is not None or hit.text == log.last_line
    trained = any(one.line >= hit.line for one in log.progress)
    return near and last and not trained and GOES_ON.search(hit.text) is None


def _outlived(hit: Hit, log: LogFindings) -> bool:
    """Whether training made new progress after ``hit``."""
    before = {each.token for each in log.progress if each.line <= hit.line}
    after = {each.token for each in log.progress if each.line > hit.line}
    return len(after - before) >= OUTLIVED


def _belied(hit: Hit, evidence: Evidence) -> bool:
    """Whether an exception in the log cannot have been the end: our own child would
    have reported it, and did not before a signal ended it."""
    row = BY_ID[hit.signature]
    typed = row.where is Where.EXCEPTION or row.id == "python.traceback"
    ours = evidence.exit is not None and not evidence.log_only
    return typed and ours and evidence.crash is None and signal_in(evidence) is not None


def _known_better(hit: Hit, evidence: Evidence) -> bool:
    """Whether ``hit`` only says that a process failed, and its exit status is known, or
    that an exception was raised, which is known."""
    if hit.signature == "python.traceback":
        return evidence.crash is not None
    return hit.signature in _SAYS_IT_FAILED and not evidence.log_only


def failed(evidence: Evidence) -> bool:
    """Whether something but the log says that the attempt failed."""
    record = evidence.exit
    if record is None:
        return not evidence.log_only
    return record.signal is not None or record.exit_code != 0


def not_finite(log: LogFindings) -> list[Reason]:
    """Why the loss was no number at the end; empty if it was, or is not known."""
    stopped = [hit for hit in log.hits if hit.signature == "loss.stopped"]
    reasons = [_reason(hit) for hit in stopped if not _outlived(hit, log)]
    trained = None if reasons else trained_on(log.losses)
    name = "loss.not_finite" if trained is None else ONLY_VALIDATION
    lost = [loss for loss in log.losses if not loss.finite]
    reasons += [Reason(loss.text, name, loss.line) for loss in lost]
    if trained is None:
        return reasons[:QUOTED]
    stayed = f"The training loss stayed finite: {trained.name} {trained.value}."
    return [*reasons[: QUOTED - 1], Reason(stayed, name, trained.line)]


def _on_device(evidence: Evidence) -> bool:
    name = evidence.dump.allocator if evidence.dump is not None else None
    plain_cpu = name is not None and name.startswith(("cpu", "mklcpu"))
    return evidence.limited or not plain_cpu


def signal_in(evidence: Evidence) -> int | None:
    """The signal that ended it; None: none did, or nothing is known."""
    return None if evidence.exit is None else signal_of(evidence.exit)


def exit_reasons(evidence: Evidence) -> list[Reason]:
    """The exit status as a sentence, or what systemd says where nobody knows it; empty
    where that says nothing either."""
    record, unit = evidence.exit, evidence.unit
    if record is None:
        return [] if unit is None else [Reason(unit.sentence, "unit")]
    number = signal_in(evidence)
    if number is None:
        return [Reason(f"It ended with exit code {record.exit_code}.", "exit")]
    return [Reason(f"It was ended by {signal_name(number)}.", "exit")]
