r"""The end of a log as lines for a screen.

A progress bar's line is as its last ``\r`` or ``\b`` left it, its colours are left out,
and all else that a terminal would obey is shown as text.
"""

from dataclasses import dataclass
from functools import lru_cache

from rich.cells import chop_cells

from supervisor.core.text.terminal_filter import without_colours
from supervisor.core.text.visible import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTail:
    """The end of what a job printed."""

    job: str
    attempt: int = 0
    text: str = ""
    problem: str = ""
    """Why there is none to be seen."""


def decoded_tail(content: bytes, *, begins_log: bool) -> str:
    """``content``, the end of a log, from the beginning of a line if there is one."""
    if not begins_log and b"\n" in content:
        content = content.partition(b"\n")[2]
    return content.decode(errors="replace")


@lru_cache(maxsize=2)
def log_lines(text: str, width: int) -> tuple[str, ...]:
    """``text`` in lines of at most ``width`` cells."""
    lines: list[str] = []
    for line in without_colours(text).removesuffix("\n").split("\n"):
        shown = overwritten(visible(line, log=True)).expandtabs()
        lines += chop_cells(shown, max(width, 2)) or [""]
    return tuple(lines)


def overwritten(line: str) -> str:
    r"""``line`` as going back in it (``\r``, ``\b``) leaves it."""
    if "\b" not in line:
        line = line.rstrip("\r")
        if "\r" not in line:
            return line
    left: list[str] = []
    at = 0
    for character in line:
        if character == "\r":
            at = 0
        elif character == "\b":
            at = max(at - 1, 0)
        else:
            left[at : at + 1] = [character]
            at += 1
    return "".join(left)
