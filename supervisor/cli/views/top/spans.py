"""Text with a tone: lines of a screen, before a terminal gets them.

A text that becomes part of a line has nothing in it for a terminal to obey.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from supervisor.core.text.visible import visible

PLAIN = "\x1b[0m"
CUT = "…"


class Tone(enum.Enum):
    """What a text is, which a terminal shows by a colour or a weight."""

    NORMAL = enum.auto()
    BOLD = enum.auto()
    HEADING = enum.auto()
    CHOSEN = enum.auto()
    FAINT = enum.auto()
    GOOD = enum.auto()
    WARNING = enum.auto()
    BAD = enum.auto()


COLOURS = {
    Tone.BOLD: "\x1b[1m",
    Tone.HEADING: "\x1b[30;46m",
    Tone.CHOSEN: "\x1b[7m",
    Tone.FAINT: "\x1b[2m",
    Tone.GOOD: "\x1b[32m",
    Tone.WARNING: "\x1b[33m",
    Tone.BAD: "\x1b[1;31m",
}
WEIGHTS = {Tone.BOLD: "\x1b[1m", Tone.HEADING: "\x1b[7m", Tone.CHOSEN: "\x1b[7m"}
"""Of a terminal without colours (https://no-color.org speaks of colours alone)."""


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a line."""

    text: str
    tone: Tone = Tone.NORMAL


SpanLine = tuple[Span, ...]
"""One line."""


def one_line(text: str) -> str:
    """``text`` in one line, with nothing for a terminal to obey."""
    return visible(" ".join(text.split()))


def cropped_text(text: str, width: int) -> str:
    """``text`` in at most ``width`` cells."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + CUT if width > 0 else ""


def padded_text(text: str, width: int, *, right: bool = False) -> str:
    """``text`` in exactly ``width`` cells; ``right``: at the right end of them."""
    kept = cropped_text(text, width)
    room = " " * (width - cell_len(kept))
    return room + kept if right else kept + room


def cropped_line(line: SpanLine, width: int) -> SpanLine:
    """``line`` in at most ``width`` cells."""
    kept: list[Span] = []
    for span in line:
        text = cropped_text(span.text, width)
        kept.append(Span(text, span.tone))
        width -= cell_len(text)
        if text != span.text:
            break
    return tuple(span for span in kept if span.text)


def text_of(line: Iterable[Span]) -> str:
    """What it says."""
    return "".join(span.text for span in line)


def toned(line: SpanLine, tone: Tone, width: int) -> SpanLine:
    """``line`` in one tone over the whole ``width``: a heading, what is chosen."""
    return (Span(padded_text(text_of(line), width), tone),)


def painted(line: Sequence[Span], *, colour: bool) -> str:
    """``line`` for a terminal (SGR, ECMA-48)."""
    known = COLOURS if colour else WEIGHTS
    parts: list[str] = []
    for span in line:
        begin = known.get(span.tone, "")
        parts.append(f"{begin}{span.text}{PLAIN}" if begin else span.text)
    return "".join(parts)
