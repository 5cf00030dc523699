"""The shortage of memory behind a failure: device or host, capacity or fragmentation.

With the figures that decide it, and what a person reads of them; and whether the device was
full before the program had anything there.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import replace

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.diagnosis.log_scanner import Hit, LogFindings
from supervisor.core.diagnosis.result import FIGURES, Diagnosis, Reason
from supervisor.core.diagnosis.scoring import ScoredSignal
from supervisor.core.diagnosis.signatures.cuda_rows import NO_DEVICE_AT_INIT
from supervisor.core.diagnosis.signatures.memory_rows import (
    MEMORY_USAGE,
    NO_ROOM_FOR_KERNEL,
    NO_ROOM_TO_BEGIN,
    POOL_LIMIT,
    POOL_LIMIT_MIB,
    RESERVATION_FAILED,
    XLA_REFUSED,
)
from supervisor.core.memory.figures import MemoryFigures, OomVerdict, complete, verdict
from supervisor.core.memory.fit_memory import step_bytes
from supervisor.core.memory.oom_analysis import OUT_OF_MEMORY, room_but_for_others
from supervisor.core.text.units import format_size, sizes_apart
from supervisor.wire.records.oom_subject import OomSubject

_CPU_ROWS = frozenset(
    {"bfc.out_of_memory.cpu", "tf.oom_when_allocating.cpu", XLA_REFUSED}
)
FOR_WANT_OF_MEMORY = frozenset(
    {Cause.DEVICE_OOM, Cause.CUDNN_ALLOC, Cause.CUDNN_INIT, Cause.CUBLAS}
)
_USAGE = re.compile(
    r"Memory usage: (?P<free>\d+) bytes free, (?P<total>\d+) bytes total"
)
_POOL_LIMIT = re.compile(POOL_LIMIT_MIB)
_RESERVED = re.compile(r"ailed to allocate \S+ \((?P<bytes>\d+)(?: bytes|B)\)")
OWN_PART = 0.5
"""A pool that got so much of what it asked for, less each time, may be what filled the
device."""
FULL_PART = 0.01
"""With less of a device free no library finds room for its handles and kernels, which
take some hundred MiB."""


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


def settled(
    best: ScoredSignal, evidence: Evidence
) -> tuple[Cause, MemoryFigures | None]:
    """Device or host, capacity or fragmentation: with the figures that decide it."""
    if best.cause not in OUT_OF_MEMORY:
        return best.cause, None
    memory = _with_step(_figures(best, evidence), evidence)
    cause = best.cause
    if best.reason.signature in _CPU_ROWS and (
        evidence.limited or _of_the_gpu(best, evidence)
    ):
        cause = Cause.DEVICE_OOM
    kind = None if memory is None else verdict(memory)
    if cause is Cause.DEVICE_OOM and kind is OomVerdict.FRAGMENTATION:
        cause = Cause.DEVICE_OOM_FRAGMENTATION
    return cause, memory


def _of_the_gpu(best: ScoredSignal, evidence: Evidence) -> bool:
    """Whether it is what XLA says of a CPU and of some GPUs, in somebody's log, which does
    not tell that there was no GPU."""
    without = any(hit.signature == NO_DEVICE_AT_INIT for hit in evidence.log.hits)
    return best.reason.signature == XLA_REFUSED and evidence.log_only and not without


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


def figure_reasons(cause: Cause, memory: MemoryFigures | None) -> Iterator[Reason]:
    """What was asked for, and what there was of it."""
    if memory is None or memory.requested_bytes is None:
        return
    asked, free = memory.requested_bytes, memory.free_bytes
    if cause is Cause.DEVICE_OOM_FRAGMENTATION and free is not None:
        largest, wanted, block = memory.largest_free_bytes, format_size(asked), ""
        if largest is not None:
            wanted, told = sizes_apart(asked, largest)
            block = f", the largest block {told}"
        text = f"{wanted} asked for, {format_size(free)} free in the pool{block}."
        yield Reason(text, FIGURES)
    elif memory.limit_bytes is not None and memory.in_use_bytes is not None:
        used, limit = format_size(memory.in_use_bytes), format_size(memory.limit_bytes)
        text = f"{format_size(asked)} asked for; {used} of {limit} in use."
        growth = memory.growth_bytes
        if growth is not None and growth < asked <= room_but_for_others(memory):
            left = format_size(growth)
            text += f" The device itself had {left} free: others, or libraries, hold the rest."
        yield Reason(text, FIGURES)


def device_reasons(cause: Cause, log: LogFindings) -> Iterator[Reason]:
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
