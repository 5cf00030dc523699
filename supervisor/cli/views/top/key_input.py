"""What a terminal sends for keys, as keys: ECMA-48, and the sequences of xterm.

Pure: text to keys. A key that has a character is that character; the rest are ``Key``.
"""

import enum
import re

ESCAPE = "\x1b"
_SEQUENCE = re.compile(
    "\x1b(?:\\[\\[[A-E]"  # function keys of Linux' console
    "|\\[([0-?]{0,32})[ -/]{0,4}([@-Z\\\\-~])"
    "|O([@-~]))"
)
"""CSI with its parameters and its last character, or SS3 with its one."""
_BEGUN = re.compile("\x1b(?:\\[\\[?|\\[[0-?]{0,32}[ -/]{0,4}|O)?\\Z")
"""Perhaps the beginning of one of them."""


class Key(enum.StrEnum):
    """A key that has no character."""

    UP = "up"
    DOWN = "down"
    LEFT = "left"
    RIGHT = "right"
    HOME = "home"
    END = "end"
    PAGE_UP = "page up"
    PAGE_DOWN = "page down"
    ENTER = "enter"
    ESCAPE = "escape"
    BACKSPACE = "backspace"
    CLEAR = "clear"
    """Ctrl-U: all that was typed."""


_LETTERS = {
    "A": Key.UP, "B": Key.DOWN, "C": Key.RIGHT, "D": Key.LEFT,
    "H": Key.HOME, "F": Key.END, "M": Key.ENTER,
}  # fmt: skip
_NUMBERS = {
    "1": Key.HOME, "7": Key.HOME, "4": Key.END, "8": Key.END,
    "5": Key.PAGE_UP, "6": Key.PAGE_DOWN,
}  # fmt: skip
_CONTROLS = {
    "\r": Key.ENTER, "\n": Key.ENTER,
    "\x7f": Key.BACKSPACE, "\x08": Key.BACKSPACE, "\x15": Key.CLEAR,
}  # fmt: skip


def parse_keys(text: str, *, whole: bool) -> tuple[list[str], str]:
    """The keys of ``text``, and what of its end may be the beginning of a sequence: it
    belongs before what comes next. ``whole``: nothing comes next, an Escape is the key."""
    keys: list[str] = []
    at = 0
    while at < len(text):
        found = _SEQUENCE.match(text, at)
        if found is not None:
            keys += _named(found)
            at = found.end()
        elif not whole and _BEGUN.match(text, at):
            break
        else:
            keys += _single(text[at])
            at += 1
    return keys, text[at:]


def _named(found: re.Match[str]) -> list[Key]:
    """Of a sequence; nothing, if it is none of ours."""
    parameters, last, alone = found[1] or "", found[2], found[3]
    if last == "~":
        key = _NUMBERS.get(parameters.partition(";")[0])
    else:
        key = _LETTERS.get(last or alone or "")
    return [] if key is None else [key]


def _single(character: str) -> list[str]:
    if character == ESCAPE:
        return [Key.ESCAPE]
    if character in _CONTROLS:
        return [_CONTROLS[character]]
    return [character] if character.isprintable() else []
