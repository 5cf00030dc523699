"""Reading a log for what matters in it, as it grows.

``LogScanner.feed`` takes bytes in pieces of any size and keeps little: the lines that
a signature recognises (the first and the last few of each), allocator dumps, and the
end of the log. A training log is long, repetitive and mostly healthy, so:

- the first and the last part of a log are judged line by line;
- between them only lines with one of ``SIGNS`` are: text that failure reports of all
  these programs share, looked for with ``bytes.find``, the fastest search there is
  without native code;
- a line whose shape (the line without its digits) was seen often is not judged again.

Lines may be broken UTF-8, end with the file, or have no end: what is longer than
``WINDOW`` is cut around the sign.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from supervisor.core.allocator_log import DumpReader, LoggedFigures
from supervisor.core.signatures import ANCHORS, recognise
from supervisor.core.signatures_row import Signature, Where
from supervisor.core.training_lines import Loss, Progress, losses_in, progress_in

SIGNS = (b"rror", b"emory", b"ailed", b"STATUS_", b"ERROR", b"NCCL", b"Xid")
BLOCK = 256 * 1024
HEAD = 256 * 1024
TAIL = 128 * 1024
WINDOW = 4096
KEPT = 6
"""Lines kept of each signature from the front, and as many from the end."""
REPEATS = 100
"""How often a line of one shape is judged."""
MAX_SHAPES = 20_000
MAX_TEXT = 600
"""Characters of a line that are kept."""

_DIGITS = b"0123456789"
_DUMP_LINE = re.compile(
    rb"bfc_allocator|^(?:Limit|InUse|MaxInUse|MaxAllocSize):|Tried to allocate"
    rb"|OOM when allocating|trying to allocate|memory allocating",
    re.MULTILINE,
)
_DUMP_SIGNS = (b"o allocate ", b"Limit: ", b"n allocating ", b"y allocating ")
_HEADER = b"Traceback (most recent call last)"
_QUIET = re.compile(rb"(?:Exception ignored in|--- Logging error ---)[^\n]*\n\s*\Z")


def _trie(words: tuple[str, ...]) -> str:
    """A pattern that finds any of ``words`` with one comparison a character."""
    heads: dict[str, list[str]] = {}
    for word in words:
        heads.setdefault(word[:1], []).append(word[1:])
    if "" in heads:
        return ""
    parts = [
        re.escape(head) + _trie(tuple(tails)) for head, tails in sorted(heads.items())
    ]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


_ANCHOR = re.compile(_trie(ANCHORS).encode())


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
    """The last value of each loss, by name."""
    counts: tuple[tuple[str, int], ...] = ()
    """(signature id, lines), by id."""
    lines: int = 0
    last_line: str = ""
    """The last line that is not blank."""


NO_FINDINGS = LogFindings()


class _Hits:
    """The first and the last few hits of each signature."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._first: dict[str, list[Hit]] = {}
        self._last: dict[str, list[Hit]] = {}
        self._seen: set[int] = set()

    def add(self, hit: Hit) -> None:
        if hit.line in self._seen:
            return
        name = hit.signature
        self.counts[name] = self.counts.get(name, 0) + 1
        first = self._first.setdefault(name, [])
        last = self._last.setdefault(name, [])
        if len(first) < KEPT:
            first.append(hit)
        else:
            last.append(hit)
            del last[:-KEPT]
        self._seen.add(hit.line)
        if len(self._seen) > MAX_SHAPES:
            self._seen = {each for each in self._seen if each > hit.line - 10_000}

    def all(self) -> tuple[Hit, ...]:
        kept = [*self._first.values(), *self._last.values()]
        return tuple(sorted((hit for hits in kept for hit in hits), key=_by_line))


def _by_line(hit: Hit) -> tuple[int, str]:
    return hit.line, hit.signature


class LogScanner:
    """Scans one log. Feed it in order; ask for ``findings`` whenever you like."""

    def __init__(self) -> None:
        self._pending = b""
        self._tail = b""
        self._lines = 0
        """Newlines before ``_pending``."""
        self._bytes = 0
        self._hits = _Hits()
        self._shapes: dict[bytes, int] = {}
        self._dumps = DumpReader()

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
        first = self._lines - self._tail.count(b"\n")
        tail = list(_numbered(self._tail, first + 1))
        for number, start, end in tail:
            self._judge(self._tail, start, end, number)
        text = [(number, _text(self._tail[a:b])) for number, a, b in tail]
        shown = [line for _, line in text if line.strip()]
        partial = 0 if self._tail.endswith(b"\n") or not self._tail else 1
        return LogFindings(
            hits=self._hits.all(),
            dumps=self._dumps.found(),
            progress=progress_in(text),
            losses=losses_in(text),
            counts=tuple(sorted(self._hits.counts.items())),
            lines=self._lines + partial,
            last_line=shown[-1].strip()[:MAX_TEXT] if shown else "",
        )

    def _block(self, block: bytes) -> None:
        """One piece, cut behind a newline where there is one."""
        if self._bytes < HEAD:
            for number, start, end in _numbered(block, self._lines + 1):
                self._judge(block, start, end, number)
        else:
            self._signs(block)
        if self._dumps.open or any(sign in block for sign in _DUMP_SIGNS):
            self._dump(block)
        self._lines += block.count(b"\n")
        self._bytes += len(block)
        self._tail = (self._tail + block)[-TAIL:]

    def _signs(self, block: bytes) -> None:
        counted, number = 0, self._lines + 1
        for start, end in sorted(set(_lines_with(block, SIGNS))):
            if self._shapes.get(_shape(block[start:end]), 0) >= REPEATS:
                continue
            number += block.count(b"\n", counted, start)
            counted = start
            self._judge(block, start, end, number)

    def _judge(self, block: bytes, start: int, end: int, number: int) -> None:
        """Look at one line: ``block[start:end]``."""
        line = block[start:end]
        shape = _shape(line)
        seen = self._shapes.get(shape, 0)
        if seen >= REPEATS:
            return
        interesting = _ANCHOR.search(line) is not None
        if len(self._shapes) < MAX_SHAPES or shape in self._shapes:
            self._shapes[shape] = seen + 1 if interesting else REPEATS
        if not interesting:
            return
        text = _text(line)
        signature = recognise(text)
        if signature is not None and not _ignored(signature, block, start):
            self._hits.add(Hit(number, text.strip()[:MAX_TEXT], signature.id))

    def _dump(self, block: bytes) -> None:
        counted, number = 0, self._lines + 1
        done = -1
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
                self._dumps.feed(number, line.decode(errors="replace"))


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


def _lines_with(block: bytes, signs: tuple[bytes, ...]) -> Iterator[tuple[int, int]]:
    """(start, end) of the lines that hold a sign; of long ones the part around it."""
    for sign in signs:
        at = block.find(sign)
        while at >= 0:
            end = block.find(b"\n", at)
            end = len(block) if end < 0 else end
            start = max(block.rfind(b"\n", 0, at) + 1, at - WINDOW // 2)
            stop = min(end, at + WINDOW // 2)
            yield start, stop
            at = block.find(sign, max(stop, at + 1))


def _ignored(signature: Signature, block: bytes, start: int) -> bool:
    """Whether a traceback is one of those that end nothing: a finaliser's, say."""
    if signature.where is not Where.EXCEPTION and signature.id != "python.traceback":
        return False
    before = block[max(0, start - 2 * WINDOW) : start]
    header = before.rfind(_HEADER)
    if signature.id == "python.traceback":
        header = len(before)
    quiet = header >= 0 and _QUIET.search(before[max(0, header - 300) : header])
    return bool(quiet)
