"""Files that are whole or absent, also after a crash or a power cut."""

import ctypes
import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, cast

MAX_JSON_BYTES = 16 * 1024 * 1024
"""Largest JSON file that is read back: the other side may have gone mad."""


def open_regular(path: Path, *, links: bool = False) -> BinaryIO:
    """Open a file for reading whose directory may not be ours: never a link, and never a
    pipe or a device, which would hold up who opens or reads it. Unbuffered.

    Of another user's directory it has to be theirs, too, and no link may lie on the way:
    behind it might lie what they may not read, and we may. ``links``: on the way they may
    (to a script, say).

    Raises:
        OSError: it is not there, may not be read, or is none of that.
    """
    return open(regular(path, links=links), "rb", buffering=0)  # a descriptor


def regular(path: Path, *, links: bool = False) -> int:
    """The descriptor of such a file; raises as ``open_regular`` does."""
    directory = open_directory(path.parent, links=links)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(path.name, flags, dir_fd=directory)
        owner = os.fstat(directory).st_uid
    finally:
        os.close(directory)
    found = os.fstat(descriptor)
    theirs = owner in {os.geteuid(), found.st_uid}
    if stat.S_ISREG(found.st_mode) and (theirs or links):
        return descriptor
    os.close(descriptor)
    because = "it is no regular file" if theirs else "it belongs to somebody else"
    raise OSError(errno.EINVAL, because, str(path))


def open_directory(path: Path, *, links: bool) -> int:
    """A descriptor of the directory, for what lies in it. Not ``links``: none lies on the
    way to it, and it is none. Raises OSError."""
    if links:
        return os.open(path, _DIRECTORY)
    try:
        return _open_without_links(path)
    except OSError as error:
        if error.errno not in {errno.ENOSYS, errno.EPERM}:
            raise
    return _walk(path)


_DIRECTORY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_OPENAT2 = 437
"""openat2(2), on every architecture; glibc has no name for it. From Linux 5.6 on."""
_NO_SYMLINKS = 0x04
"""RESOLVE_NO_SYMLINKS, linux/openat2.h."""
_AT_FDCWD = -100
_libc = ctypes.CDLL(None, use_errno=True)


def _open_without_links(path: Path) -> int:
    how = (ctypes.c_uint64 * 3)(_DIRECTORY, 0, _NO_SYMLINKS)
    name = os.fsencode(path)
    found = _libc.syscall(_OPENAT2, _AT_FDCWD, name, how, ctypes.sizeof(how))
    if found < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return int(found)


def _walk(path: Path) -> int:
    """The same where the kernel, or a container's filter, does not know that call."""
    descriptor = os.open("/" if path.is_absolute() else ".", _DIRECTORY)
    for part in path.parts[path.is_absolute() :]:
        try:
            below = os.open(part, _DIRECTORY | os.O_NOFOLLOW, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = below
    return descriptor


class Held:
    """A regular file that is read again and again: opened when it is there, and then
    kept open, which is half of what a look at it costs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def descriptor(self) -> int:
        """To read from. Raises as ``open_regular`` does."""
        if self._descriptor is None:
            self._descriptor = regular(self._path)
        return self._descriptor

    def close(self) -> None:
        """Give it back; it is opened anew for who asks again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __del__(self) -> None:
        self.close()


def fsync_directory(path: Path) -> None:
    """Make the names in ``path`` durable: a rename is not, before this."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, content: bytes) -> None:
    """Replace ``path`` so that a reader, or a reboot, finds the old or the new file.

    Raises:
        OSError: nothing was replaced; the temporary file is removed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(
        temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640
    )
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        temporary.rename(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    fsync_directory(path.parent)


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` as one JSON object, atomically. Raises OSError."""
    write_atomically(path, json.dumps(value, indent=1, sort_keys=True).encode())


def read_json(path: Path, *, links: bool = False) -> dict[str, Any] | None:
    """Read one JSON object; None where there is none, or none that can be read: a file
    of ``MAX_JSON_BYTES`` at most, opened by ``open_regular``."""
    try:
        with open_regular(path, links=links) as file:
            # Not more is asked for than there is: room would be made for all of it.
            size = os.fstat(file.fileno()).st_size
            content = file.read(size) if size <= MAX_JSON_BYTES else b""
        value: Any = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
