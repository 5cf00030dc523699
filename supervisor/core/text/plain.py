r"""Plain text of somebody else's output: what it came to be on a terminal, without commands.

For quoting: in incidents, reports and notifications nobody is a terminal. Colours and
other sequences are left out, and what a progress bar wrote over (``\r``, ``\b``) is as its
line looked in the end.
"""

import re
import unicodedata

_SEQUENCES = re.compile(
    "\x1b\\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, modes
    "|\x1b[\\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\\\)"  # OSC and other strings
    "|\x1b[ -/]{0,8}[0-~]?"
)
"""By ECMA-48. A string that has no end hides nothing of what follows."""
_GOES_BACK = re.compile("(\r+|\b+)")
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of Unicode: control and format characters, such as those that change the
direction of what follows, and separators that some programs take for an end of line."""
_KEPT = "\n\t\u200c\u200d"
"""The last two join letters, or do not: Persian and Indian scripts are written with them."""


_NO_CHARACTER = 0xFFFD
"""What stands in Unicode for what is none."""


class _Shown(dict[int, int | None]):
    """What becomes of each character, for ``str.translate``; asked once for each."""

    def __missing__(self, code: int) -> int | None:
        character = chr(code)
        if 0xD800 <= code < 0xE000:  # half of a pair: whoever wrote it out would fail
            self[code] = _NO_CHARACTER
            return _NO_CHARACTER
        steers = unicodedata.category(character) in _INVISIBLE
        self[code] = None if steers and character not in _KEPT else code
        return self[code]


_SHOWN = _Shown()


def plain(text: str) -> str:
    """``text`` without characters that steer what shows it, but for ends of lines and
    tabs; it can be encoded."""
    whole = _SEQUENCES.sub("", text) if "\x1b" in text else text
    if "\r" in whole or "\b" in whole:
        lines = whole.replace("\r\n", "\n").split("\n")
        whole = "\n".join(_as_it_looked(line) for line in lines)
    return whole.translate(_SHOWN)


def _as_it_looked(line: str) -> str:
    """A line in which a terminal went back and wrote over what was there."""
    shown, at = list[str](), 0
    for part in _GOES_BACK.split(line):
        if part.startswith("\r"):
            at = 0
        elif part.startswith("\b"):
            at = max(at - len(part), 0)
        else:
            shown[at : at + len(part)] = part
            at += len(part)
    return "".join(shown).rstrip()
