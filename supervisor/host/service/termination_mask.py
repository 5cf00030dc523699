"""Whether SIGTERM would kill a process, or is taken by it: its masks in proc(5)."""

import signal
from pathlib import Path

_TAKEN = ("SigBlk:", "SigIgn:", "SigCgt:")
_TERM = 1 << (signal.SIGTERM - 1)


def heeds_termination(pid: int) -> bool:
    """Whether process ``pid`` catches, blocks or ignores SIGTERM, by the kernel's word.
    Raises ProcessLookupError where it has ended, PermissionError."""
    try:
        told = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise ProcessLookupError from error
    return takes_termination(told)


def takes_termination(status: str) -> bool:
    """The same of the text of ``/proc/PID/status``."""
    words = [line.split() for line in status.splitlines()]
    masks = [int(one[1], 16) for one in words if len(one) > 1 and one[0] in _TAKEN]
    return any(mask & _TERM for mask in masks)
