r"""Plain text of somebody else's output: what it came to be on a terminal, without commands.

For quoting: in incidents, reports and notifications nobody is a terminal. Colours and
other sequences are left out, and what a progress bar wrote over (``\r``, ``\b``) is as its
line looked in the end.
"""

import re

_SEQUENCES = re.compile(
    "\x1b\\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor, modes
    "|\x1b[\\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\\\)"  # OSC and other strings
    "|\x1b[ -/]{0,8}[0-~]?"
)
"""By ECMA-48. A string that has no end hides nothing of what follows."""
_GOES_BACK = re.compile("(\r+|\b+)")
_OTHERS = {
    code: None for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in "\n\t"
}


def plain(text: str) -> str:
    """``text`` without control characters, but for ends of lines and tabs."""
    whole = _SEQUENCES.sub("", text) if "\x1b" in text else text
    if "\r" in whole or "\b" in whole:
        lines = whole.replace("\r\n", "\n").split("\n")
        whole = "\n".join(_as_it_looked(line) for line in lines)
    return whole.translate(_OTHERS)


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
