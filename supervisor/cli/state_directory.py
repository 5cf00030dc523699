"""What is said of a state directory in which nothing can be kept."""

import errno
import os
import tempfile
from pathlib import Path

OTHER = "choose another with --state-dir"


def state_sentence(root: Path, error: OSError) -> str:
    """What became of writing there, and what to do."""
    if error.errno == errno.ENOSPC:
        return f"the disk of the state directory {root} is full: make room, or {OTHER}"
    return f"cannot write to the state directory {root}: {error.strerror}; {OTHER}"


def unwritable(root: Path, *, wanted: Path | None = None) -> str | None:
    """Why nothing could be kept in ``root``, as a sentence; None: it could be. Nothing of it
    is left. ``wanted``: a directory below ``root`` that is to be used."""
    lowest = root if wanted is None else wanted
    place = next(one for one in (lowest, *lowest.parents) if os.path.lexists(one))
    try:  # some file systems refuse what permissions allow: /proc
        Path(tempfile.mkdtemp(prefix=".trainwarden-", dir=place)).rmdir()
    except OSError as error:
        return state_sentence(root, error)
    return None
