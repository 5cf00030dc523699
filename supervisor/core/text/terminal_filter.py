r"""The terminal filter: what the person's own script may do to the terminal of its run.

In the foreground a script may go on doing what progress bars do: go back (``\r``, ``\b``),
colour, move and erase within the lines that are there, hide the cursor, ring the bell. All
else that a terminal obeys is shown as text (``visible``): titles and the clipboard (OSC), what
it would answer as if it had been typed (device reports), modes that outlive the run, and the
scroll region, in which our own line stands.
"""

import re

from supervisor.core.text.visible import visible

_OBEYED = re.compile(
    "(\x07"
    "|\x1b\\[[0-9;:]{0,64}m"  # colours (SGR)
    "|\x1b\\[[0-9]{0,4}[ABCDEFGJKP@X]"  # move within the lines, erase, delete, insert
    "|\x1b\\[(?:1;1)?H"  # to the first line: ``clear``
    "|\x1b\\[\\?25[hl])"  # the cursor is shown, or not
)
"""By ECMA-48, and DECTCEM."""
_BEGUN = re.compile("\x1b(?:\\[[0-9;:?]{0,64})?\\Z")
"""Perhaps the beginning of one of them."""


def obeyed(text: str) -> tuple[str, str]:
    """``text`` for the terminal of who runs the script, and what of its end may be the
    beginning of a sequence: it belongs before what comes next."""
    whole, rest = without_begun(text)
    parts = _OBEYED.split(whole)
    parts[::2] = [visible(part, log=True) for part in parts[::2]]
    return "".join(parts), rest


def without_begun(text: str) -> tuple[str, str]:
    """``text`` without what of its end may be the beginning of a sequence, and that."""
    begun = _BEGUN.search(text)
    rest = "" if begun is None else begun[0]
    return text.removesuffix(rest), rest


_COLOURS = re.compile("\x1b\\[[0-9;:]{0,64}m")


def without_colours(text: str) -> str:
    """``text`` without colours (SGR), for where it is shown in colours of ours."""
    return _COLOURS.sub("", text)
