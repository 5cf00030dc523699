"""Cutting a file of the user's, so that no byte of it is ever in no file.

What is cut off or replaced is on disk beside the file before the file is touched. A kill
in between leaves both, and the next attempt does it again.
"""

import os
import stat
from pathlib import Path

BLOCK_BYTES = 1 << 20
IN_USE = "somebody writes to it right now"


class LeftError(Exception):
    """Why a file is not touched, in half a sentence."""


def why_not_ours(path: Path) -> str | None:
    """Why ``path`` is not to be touched; None: it may be. Raises OSError."""
    found = path.lstat()
    if not stat.S_ISREG(found.st_mode) or os.path.realpath(path) != str(path):
        return "it is a link, or no regular file"
    if found.st_nlink > 1:
        return "it has a second name (a hard link)"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    return None


def cut(path: Path, size: int, kept: Path) -> None:
    """``path`` ends at ``size``; what came after is in ``kept``.

    Raises OSError, LeftError: it is as it was.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        length = os.fstat(descriptor).st_size - size
        copy(descriptor, size, length, kept)
        if os.fstat(descriptor).st_size != size + length:
            kept.unlink()
            raise LeftError(IN_USE)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def copy_of(path: Path, kept: Path) -> None:
    """All of ``path`` is in ``kept`` as well. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        copy(descriptor, 0, os.fstat(descriptor).st_size, kept)
    finally:
        os.close(descriptor)


def copy(source: int, start: int, length: int, kept: Path) -> None:
    """Bytes of the descriptor ``source`` to ``kept``, which is new and as private.

    On disk then. Raises OSError: nothing is left of it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(kept, flags, stat.S_IMODE(os.fstat(source).st_mode) & 0o666)
    try:
        _send(source, start, length, descriptor)
        os.fsync(descriptor)
        _sync_directory(kept.parent)
    except BaseException:
        kept.unlink()
        raise
    finally:
        os.close(descriptor)


def replace(path: Path, content: Path | bytes, size: int) -> None:
    """``path``, which may be missing, holds the first ``size`` bytes of ``content``.

    In its place: handles, links and permissions stay. Room is made first: a full disk
    leaves it as it was. Raises OSError.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o666)
    try:
        before = os.fstat(descriptor).st_size
        try:
            os.posix_fallocate(descriptor, 0, max(size, 1))
        except OSError:
            os.ftruncate(descriptor, before)
            raise
        _fill(descriptor, content, size)
        os.ftruncate(descriptor, size)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fill(descriptor: int, content: Path | bytes, size: int) -> None:
    if isinstance(content, bytes):
        os.pwrite(descriptor, content, 0)
        return
    source = os.open(content, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _send(source, 0, size, descriptor)
    finally:
        os.close(source)


def _send(source: int, start: int, length: int, to: int) -> None:
    while length > 0:
        sent = os.sendfile(to, source, start, length)
        if not sent:
            raise LeftError(IN_USE)  # it became shorter meanwhile
        start, length = start + sent, length - sent


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def begins_with(path: Path, beginning: Path) -> bool:
    """Whether ``path`` begins with all that is in ``beginning``. Raises OSError."""
    with path.open("rb") as one, beginning.open("rb") as other:
        while block := other.read(BLOCK_BYTES):
            if one.read(len(block)) != block:
                return False
    return True


def free(path: Path) -> Path:
    """``path``, or the next name that nobody has."""
    number, found = 1, path
    while os.path.lexists(found):
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found
