"""The scanner of a growing log: the lines in it that matter.

``LogScanner.feed`` takes bytes in pieces of any size and keeps little: the lines that
a signature recognises (the first and the last few of each), allocator dumps, and the
end of the log. A training log is long, repetitive and mostly healthy, so:

- the first and the last part of a log are judged line by line;
- between them only lines with one of ``SIGNS`` are: text that failure reports of all
  these programs share, looked for with the fastest search that there is on the machine
  (``holds``);
- a line whose shape (the line without its digits) was seen often is not judged again.

Lines may be broken UTF-8, end with the file, or have no end: what is longer than
``WINDOW`` is cut around the sign.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter, contains

from supervisor.core.causes import Cause
from supervisor.core.diagnosis.signatures.all_rows import recognise
from supervisor.core.diagnosis.signatures.ending_rows import LAST_LINES
from supervisor.core.diagnosis.signatures.harmless_traces import ends_nothing
from supervisor.core.diagnosis.signatures.signature import Signature
from supervisor.core.diagnosis.training_output import (
    Loss,
    LostLosses,
    Progress,
    losses_in,
    progress_in,
)
from supervisor.core.memory.oom_report import DumpReader, LoggedFigures

SIGNS = (
    b"rror: ",
    b"ut of memory",
    b"_STATUS_",
    b"CUDA_ERROR_",
    b"ProcessGroupNCCL",
    b"cuda_dnn.cc",
    b"No space left on device",
    b"terminate called after",
    b"egmentation fault",
    b"NCCL WARN",
    b"Check failed",
    b"OOM when allocating",
    b"NVRM: Xid",
    b"oom-kill",
    b"killed by signal",
    b"Assertion `",
    b"Dst tensor is not initialized",
    b"Driver/library version mismatch",
    b"ailed to allocate ",
)
"""Long ones cost next to nothing: the search skips ahead by their length."""
BLOCK = 256 * 1024
HEAD = 256 * 1024
TAIL = 64 * 1024
WINDOW = 4096
KEPT = 6
"""Lines kept of each signature from the front, and as many from the end."""
REPEATS = 100
"""How often a line of one shape is judged."""
MAX_SHAPES = 20_000
EFFORT = 600
"""Lines judged for a sign before only the first few of a block are: a log in which
every line reads like another failure must not take for ever."""
SAMPLE = 2
MAX_TEXT = 600
"""Characters of a line that are kept."""

_DIGITS = b"0123456789"
_DUMP_LINE = re.compile(
    rb"bfc_allocator|memory_limit_: |^(?:Limit|InUse|MaxInUse|MaxAllocSize):|Tried to allocate"
    rb"|OOM when allocating|trying to allocate|memory allocating",
    re.MULTILINE,
)
_DUMP_SIGNS = (b"allocat", b"Limit: ")
_TAKEN_BACK = re.compile(rb"\s*(?:The\s+)?caller\s+indicates\s+that\s+this\s+is\s+not")
"""The rest of the allocator's warning that it took another way."""
_SKIPPED = re.compile(rb"\s*[^\n]{0,80}\b[Ss]kipping (?:this |the )?batch")
"""What fairseq and those that followed it print next of memory that a batch did not get."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that a signature recognised."""

    line: int
    """From 1."""
    text: str
    signature: str
    """Its id."""


@dataclass(frozen=True, slots=True)
class LogFindings:
    """What a log says, in the order of the log."""

    hits: tuple[Hit, ...] = ()
    dumps: tuple[LoggedFigures, ...] = ()
    """Allocator figures, each with the line where they begin."""
    progress: tuple[Progress, ...] = ()
    """The last signs that training went on."""
    losses: tuple[Loss, ...] = ()
    """The last value of each loss, by name, or the first that was no number."""
    counts: tuple[tuple[str, int], ...] = ()
    """(signature id, lines), by id. Lines of a shape that was seen ``REPEATS`` times
    are not counted any more."""
    lines: int = 0
    last_line: str = ""
    """The last line that is not blank."""


NO_FINDINGS = LogFindings()


class _Hits:
    """The first and the last few hits of each signature."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._kept: dict[str, list[Hit]] = {}
        self._seen: set[int] = set()

    def add(self, hit: Hit) -> None:
        if hit.line in self._seen:
            return
        name = hit.signature
        self.counts[name] = self.counts.get(name, 0) + 1
        kept = self._kept.setdefault(name, [])
        kept.append(hit)
        del kept[KEPT:-KEPT]
        self._seen.add(hit.line)

    def forget(self, *, before: int) -> None:
        """No line before this number will be added again."""
        self._seen = {line for line in self._seen if line >= before}

    def all(self) -> tuple[Hit, ...]:
        kept = (hit for hits in self._kept.values() for hit in hits)
        return tuple(sorted(kept, key=attrgetter("line", "signature")))


class LogScanner:
    """Scans one log. Feed it in order; ask for ``findings`` whenever you like."""

    def __init__(self, *, holds: Callable[[bytes, bytes], bool] = contains) -> None:
        """``holds``: whether the first text holds the second, as fast as can be told."""
        self._holds = holds
        self._pending = b""
        self._last: list[tuple[int, bytes]] = []
        """The last blocks, at least ``TAIL`` bytes, each with its first line."""
        self._lines = 0
        """Newlines before ``_pending``."""
        self._bytes = 0
        self._effort = dict.fromkeys(SIGNS, 0)
        self._hits = _Hits()
        self._shapes: dict[bytes, int] = {}
        self._dumps = DumpReader()
        self._lost = LostLosses(holds)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the log, however many."""
        self._pending += data
        if len(self._pending) < BLOCK:
            return
        at = 0
        view = self._pending
        while len(view) - at >= BLOCK:
            cut = view.rfind(b"\n", at, at + BLOCK) + 1 or at + BLOCK
            self._block(view[at:cut])
            at = cut
        self._pending = view[at:]

    def findings(self) -> LogFindings:
        """What is known now; what was fed without a newline yet counts as a line.

        Meant for the end of the log: the bytes that are still waiting are judged, and
        a line that grows after this is judged in two parts.
        """
        if self._pending:
            self._block(self._pending)
            self._pending = b""
        tail = b"".join(block for _, block in self._last)[-TAIL:]
        lines = list(_numbered(tail, self._lines - tail.count(b"\n") + 1))
        partial = bool(tail) and not tail.endswith(b"\n")
        late = self._lines + partial - LAST_LINES
        for number, start, end in lines:
            self._judge(tail, start, end, number, at_end=number > late)
        text = [(number, _text(tail[start:end])) for number, start, end in lines]
        shown = [line for _, line in text if line.strip()]
        return LogFindings(
            hits=self._hits.all(),
            dumps=self._dumps.found(),
            progress=progress_in(text),
            losses=losses_in(text, lost=self._lost.first),
            counts=tuple(sorted(self._hits.counts.items())),
            lines=self._lines + partial,
            last_line=shown[-1].strip()[:MAX_TEXT] if shown else "",
        )

    def _block(self, block: bytes) -> None:
        """One piece, cut behind a newline where there is one."""
        if self._bytes < HEAD:
            for number, start, end in _numbered(block, self._lines + 1):
                self._judge(block, start, end, number)
            dump = any(sign in block for sign in _DUMP_SIGNS)
        else:
            dump = self._signs(block)
        if dump or self._dumps.open:
            self._dump(block)
        self._lost.feed(block, self._lines + 1)
        self._last.append((self._lines + 1, block))
        while sum(len(each) for _, each in self._last[1:]) >= TAIL:
            del self._last[0]
        self._hits.forget(before=self._last[0][0])
        self._lines += block.count(b"\n")
        self._bytes += len(block)

    def _signs(self, block: bytes) -> bool:
        """Judge the lines with a sign; whether one of them is about an allocation."""
        dump = False
        for sign in SIGNS:
            if not self._holds(block, sign):
                continue
            budget = max(SAMPLE, EFFORT - self._effort[sign])
            for start, end in _lines_with(block, sign):
                line = block[start:end]
                if self._shapes.get(_shape(line), 0) >= REPEATS:
                    continue
                dump = dump or b"allocat" in line
                self._judge(block, start, end)
                self._effort[sign] += 1
                budget -= 1
                if budget <= 0:
                    break
        return dump

    def _judge(
        self,
        block: bytes,
        start: int,
        end: int,
        number: int | None = None,
        *,
        at_end: bool = False,
    ) -> None:
        """Look at one line, ``block[start:end]``; its number is counted if need be."""
        line = block[start:end]
        shape = _shape(line)
        seen = self._shapes.get(shape, 0)
        if seen >= REPEATS and not at_end:
            return
        if seen or len(self._shapes) < MAX_SHAPES:
            self._shapes[shape] = seen + 1
        text = _text(line)
        signature = recognise(text, at_end=at_end)
        if signature is None or _ignored(signature, block, start, end):
            return
        if number is None:
            number = self._lines + 1 + block.count(b"\n", 0, start)
        self._hits.add(Hit(number, text.strip()[:MAX_TEXT], signature.id))

    def _dump(self, block: bytes) -> None:
        counted, number, done = 0, self._lines + 1, -1
        for match in _DUMP_LINE.finditer(block):
            if match.start() < done:
                continue
            start = block.rfind(b"\n", 0, match.start()) + 1
            done = block.find(b"\n", match.start())
            done = len(block) if done < 0 else done
            number += block.count(b"\n", counted, start)
            counted = start
            line = block[max(start, match.start() - WINDOW) : done][: 2 * WINDOW]
            if b"not a failure" not in line:
                self._dumps.feed(number, _text(line))


def scan(data: bytes) -> LogFindings:
    """The findings of a whole log at once."""
    scanner = LogScanner()
    scanner.feed(data)
    return scanner.findings()


def _shape(line: bytes) -> bytes:
    return line[:WINDOW].translate(None, _DIGITS)


def _text(line: bytes) -> str:
    return line.decode(errors="replace")


def _numbered(block: bytes, first: int) -> Iterator[tuple[int, int, int]]:
    """(number, start, end) of the lines in ``block``; long ones by their ends."""
    start, number = 0, first
    while start < len(block):
        end = block.find(b"\n", start)
        end = len(block) if end < 0 else end
        for piece in range(start, max(end, start + 1), WINDOW):
            yield number, piece, min(end, piece + WINDOW)
        start, number = end + 1, number + 1


def _lines_with(block: bytes, sign: bytes) -> Iterator[tuple[int, int]]:
    """(start, end) of the lines that hold ``sign``; of long ones the part around it."""
    at = block.find(sign)
    while at >= 0:
        end = block.find(b"\n", at)
        end = len(block) if end < 0 else end
        start = max(block.rfind(b"\n", 0, at) + 1, at - WINDOW // 2)
        stop = min(end, at + WINDOW // 2)
        yield start, stop
        at = block.find(sign, max(stop, at + 1))


def _ignored(signature: Signature, block: bytes, start: int, end: int) -> bool:
    """Whether it is of a traceback that ends nothing (a finaliser's, say); or a console
    broke the line before the part that says that it means nothing, or a batch was skipped."""
    if signature.id == "bfc.out_of_memory":
        return bool(_TAKEN_BACK.match(block, end, end + WINDOW))
    if signature.cause is Cause.DEVICE_OOM and _SKIPPED.match(block, end, end + WINDOW):
        return True
    return ends_nothing(signature, block, start)
