r"""The row at the bottom of a terminal, which what a script prints does not reach.

By the scroll region (DECSTBM): the script scrolls in the lines above, where a progress bar may
go back, colour and move as it does without us; the row is written to by its address, and the
cursor put back (DECSC, DECRC). Rich's ``Live``, which repaints below what was printed, needs
whole lines above it, and a progress bar is none until its end.
"""

SAVE, RESTORE = "\x1b7", "\x1b8"
ROOM = "\x1bD\x1b[A"
"""A line is there below the cursor, if need be by scrolling."""
WHOLE = "\x1b[r"
"""The scroll region is the whole screen; the cursor goes home."""
BELOW = "\x1b[J"
"""Erase from the cursor to the end of the screen."""
PLAIN = "\x1b[0m"
LEAST_ROWS, LEAST_COLUMNS = 4, 20
"""On less there is no row."""


def fits(rows: int, columns: int) -> bool:
    """Whether there is room for it."""
    return rows >= LEAST_ROWS and columns >= LEAST_COLUMNS


def opened(rows: int) -> str:
    """Take the last of ``rows`` out of what scrolls; the cursor stays where it is."""
    return f"{ROOM}{SAVE}\x1b[1;{rows - 1}r{RESTORE}"


def drawn(line: str, rows: int, *, colour: str = "") -> str:
    """Put ``line`` there, in place of what there is; it has to be narrower than the screen."""
    return f"{SAVE}\x1b[{rows};1H{PLAIN}{colour}{line}{PLAIN}\x1b[K{RESTORE}"


def resized(rows: int) -> str:
    """The screen has another size: what a terminal made of the row lies below the cursor."""
    return f"{SAVE}{WHOLE}{RESTORE}{BELOW}{opened(rows)}"


def closed(rows: int) -> str:
    """Give it back, empty."""
    return f"{SAVE}{WHOLE}\x1b[{rows};1H{PLAIN}\x1b[2K{RESTORE}"
