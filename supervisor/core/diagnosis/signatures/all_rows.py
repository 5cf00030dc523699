"""The table of signatures: what is known about lines that training programs print.

One row a fact, each with the source of the message format. The tables lie by stack:

- ``memory_rows``: memory of the device and of the host
- ``cuda_rows``: faults of CUDA, the driver and its Xids
- ``library_rows``: cuDNN and cuBLAS
- ``version_rows``: driver, CUDA, libraries, framework that do not fit
- ``process_rows``: collectives, the ends of processes, schedulers, disks
- ``data_rows``: data and files
- ``script_rows``: losses that are no numbers, scripts at fault
- ``message_rows``: numbers of statuses, messages without their type
- ``ending_rows``: what any program says last

``harmless_traces`` tells of which tracebacks no row says anything.

Rules of reading, in ``recognise``: a benign row takes the whole line for itself, and so
does one of a line that guesses. Of the others, one that names a cause speaks for the line
before one that names none, an exception's mere type last of all; then the heaviest, and
the first in the table among equals. How lines are weighed against each other is
``diagnose``.
"""

import functools
import re

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures import (
    cuda_rows,
    data_rows,
    ending_rows,
    library_rows,
    memory_rows,
    message_rows,
    process_rows,
    script_rows,
    version_rows,
)
from supervisor.core.diagnosis.signatures.signature import HINT, Role, Signature, Where

SIGNATURES: tuple[Signature, ...] = (
    *memory_rows.ROWS,
    *cuda_rows.ROWS,
    *library_rows.ROWS,
    *version_rows.ROWS,
    *process_rows.ROWS,
    *data_rows.ROWS,
    *script_rows.ROWS,
    *message_rows.ROWS,
    *ending_rows.ROWS,
)

LAST_RESORTS = frozenset({"python.any_exception", "library.raised"})
"""Rows that know only that something was raised: they yield to any that knows more."""
BY_ID = {signature.id: signature for signature in SIGNATURES}

_EXCEPTION = re.compile(
    r"(?<![\w.'])(?:[A-Za-z_]\w*\.)*(?!Error\b)\w*"
    r"(?:Error|Exception|Interrupt|Exit|StopIteration|Expired|OutOfMemory)"
    r"(?=(?: \(see above for traceback\)|\(\w+\))?:|\s*$)"
    r"|(?<![\w.'])(?:[a-z_]\w*\.)+_?(?!\w*StackTrace)[A-Z]\w+(?=: )"
)
_PREFIX = re.compile(
    r"\[?(?:rank|RANK)\s?\d+\]?|\(\S{1,80} pid=\d+[^)]{0,80}\)|\bE\b"
    r"|\b(?:ERROR|CRITICAL|FATAL|stderr)\b|[\w.]*StackTrace:|[\W\d_TZ]"
)
"""What may stand before an exception's name: ranks, workers' names, times, quotes,
the level of a log line, what jax calls a traceback that it cut."""


def exception_in(line: str) -> str | None:
    """The line from the exception's name on, if it is the last of a traceback."""
    match = _EXCEPTION.search(line)
    if match is None or _PREFIX.sub("", line[: match.start()]):
        return None
    return line[match.start() :]


_GRAM = 3


@functools.cache
def _by_gram(*, at_end: bool) -> dict[str, list[tuple[str, int]]]:
    """(anchor, row) by the first characters of the anchor: most lines share none."""
    found: dict[str, list[tuple[str, int]]] = {}
    for index, row in enumerate(SIGNATURES):
        if row.where is Where.END and not at_end:
            continue
        for anchor in row.anchors:
            found.setdefault(anchor[:_GRAM], []).append((anchor, index))
    return found


def candidates(line: str, *, at_end: bool = True) -> tuple[Signature, ...]:
    """The rows of which an anchor stands in ``line``, in the order of the table."""
    grams = {line[at : at + _GRAM] for at in range(len(line))}
    known = _by_gram(at_end=at_end)
    rows = {
        index
        for gram in grams & known.keys()
        for anchor, index in known[gram]
        if anchor in line
    }
    return tuple(SIGNATURES[index] for index in sorted(rows))


def recognise(line: str, *, at_end: bool = True) -> Signature | None:
    """The row that speaks for ``line``; None if none does. ``at_end``: whether it is one
    of a log's last, of which all that programs say may tell."""
    rows = candidates(line, at_end=at_end)
    if not rows:
        return None
    exception = exception_in(line)
    found = [row for row in rows if row.matches(line, exception)]
    for row in found:
        if row.role in {Role.BENIGN, Role.GUESS}:
            return row
    return max(found, key=_telling, default=None)


def _telling(row: Signature) -> tuple[bool, bool, bool, int]:
    """What says more of a line is larger: the exception's type, where it names no cause,
    less than a message that does."""
    named = row.cause is not Cause.UNKNOWN and row.weight > HINT
    knows = row.where is not Where.END
    return knows, row.id not in LAST_RESORTS, named, row.weight
