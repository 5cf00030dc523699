"""Where a hanging process stood, from the stacks that were taken of it."""

import re

FRAMES = 4
"""The innermost frames of the main thread tell what it waited for."""

_THREAD = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+")
_FRAME = re.compile(
    r'\s+File "(?P<file>[^"]+)", line (?P<line>\d+|\?\?\?) in (?P<name>.+)'
)
_SPY_THREAD = re.compile(r"Thread \d+ ")


def where(stacks: str) -> list[str]:
    """The innermost frames of the main thread, the innermost first; often empty.

    faulthandler lists threads with the newest first: the last one is the main thread.
    py-spy's come after them, and do not count here.
    """
    frames: list[str] = []
    for line in stacks.splitlines():
        if _SPY_THREAD.match(line):
            break
        if _THREAD.match(line):
            frames = []
        found = _FRAME.match(line)
        if found is not None and len(frames) < FRAMES:
            frames.append(f"{found['name']} ({found['file']}, line {found['line']})")
    return frames
