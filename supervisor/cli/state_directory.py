"""What is said of a state directory in which nothing can be kept."""

import errno
import os
from pathlib import Path

OTHER = "choose another with --state-dir"


def state_sentence(root: Path, error: OSError) -> str:
    """What became of writing there, and what to do."""
    if error.errno == errno.ENOSPC:
        return f"the disk of the state directory {root} is full: make room, or {OTHER}"
    return f"cannot write to the state directory {root}: {error.strerror}; {OTHER}"


def unwritable(root: Path) -> str | None:
    """Why nothing could be kept there, as a sentence; None: it could be. Nothing is made."""
    place = next(one for one in (root, *root.parents) if os.path.lexists(one))
    if not os.path.isdir(place):  # noqa: PTH112  # never raises
        number = errno.ENOTDIR
    elif not os.access(place, os.W_OK | os.X_OK):
        number = errno.EROFS if os.geteuid() == 0 else errno.EACCES
    else:
        return None
    return state_sentence(root, OSError(number, os.strerror(number)))
