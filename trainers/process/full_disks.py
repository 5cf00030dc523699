"""The disk that was full when an exception ended the script: where room has to be made."""

import errno
import os
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath

from supervisor.wire.local_mounts import local_mount_of, writable_local
from trainers.process import allocation_subject

MOUNTS = Path("/proc/self/mounts")
FULL_BYTES = 1 << 20
"""With less left it is full: a block or two stay free where a larger write has failed."""
MOST = 500
"""Characters of a place that is told: a report has to fit on a full disk itself."""
_SIGNS = ("No space left on device", "Errno 28]")
"""In the words of libraries that raise exceptions of their own."""
_NAMED = (
    re.compile(r"\bfilename = '([^'\n]+)'"),  # HDF5
    re.compile(r"(/[^\n;:'\"]+)[;:] No space left on device"),  # TensorFlow, RocksDB
    re.compile(
        r"No space left on device: '([^'\n]+)'"
    ),  # one of Python's, in another's words
)
"""Files in such words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullDisk:
    """One, as it is now."""

    mount_point: str
    free_bytes: int
    size_bytes: int
    named: bool = False
    """Whether the error named a file there; False: it is full, and may be the one."""


def full_disk(error: BaseException) -> FullDisk | None:
    """That for which ``error`` ended the script; None: it did not, or nobody can tell."""
    files = _failed_files(error)
    if files is None:
        return None
    try:
        return _found(MOUNTS.read_text(errors="replace"), files)
    except OSError:
        return None


def _found(mounts: str, files: list[str]) -> FullDisk | None:
    """Raises OSError."""
    if files:  # that one, whatever is free there by now
        point = _mount_of(files[0], mounts)
        return None if point is None else _looked_at(point, named=True)
    near = [one for place in _near() if (one := _mount_of(place, mounts)) is not None]
    for point in dict.fromkeys([*near, *writable_local(mounts)]):
        disk = _looked_at(point)
        if disk is not None and disk.size_bytes and disk.free_bytes < FULL_BYTES:
            return disk
    return None


def _failed_files(error: BaseException) -> list[str] | None:
    """Files that could not be written for want of room, as far as they are named; None:
    it was not for that."""
    files: list[str] = []
    full = False
    for one in allocation_subject.chain(error):
        if isinstance(one, OSError) and one.errno == errno.ENOSPC:
            full = True
            named = one.filename if isinstance(one.filename, str) else None
            files += file_in(str(one)) if named is None else [named]
        elif any(sign in str(one) for sign in _SIGNS):
            full = True
            files += file_in(str(one))
    return files if full else None


def file_in(words: str) -> list[str]:
    """The file that could not be written, as the ``words`` of an error name it, if they do."""
    found = (one.search(words) for one in _NAMED)
    return [match[1] for match in found if match is not None][:1]


def _near() -> Iterable[str]:
    """Where a script writes most often."""
    return (str(Path.cwd()), tempfile.gettempdir(), str(Path("~").expanduser()))


def _mount_of(file: str, mounts: str) -> str | None:
    """Where the local disk is mounted that holds ``file``; None: no such disk does."""
    return local_mount_of(PurePath(os.path.realpath(file)), mounts)


def _looked_at(point: str, *, named: bool = False) -> FullDisk | None:
    """None: it cannot be seen, or its name is too long for a report."""
    if len(point) > MOST:
        return None
    try:
        found = os.statvfs(point)
    except OSError:
        return None
    return FullDisk(
        mount_point=point,
        free_bytes=found.f_bavail * found.f_frsize,
        size_bytes=found.f_blocks * found.f_frsize,
        named=named,
    )
