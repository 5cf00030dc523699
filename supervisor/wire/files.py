"""Files that are whole or absent, also after a crash or a power cut."""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, cast

MAX_JSON_BYTES = 16 * 1024 * 1024
"""Largest JSON file that is read back: the other side may have gone mad."""


def open_regular(path: Path) -> BinaryIO:
    """Open a file for reading that may not be ours: never a link, and never a pipe or a
    device, which would hold up who opens or reads it. Unbuffered.

    Raises:
        OSError: it is not there, may not be read, or is no regular file.
    """
    return open(regular(path), "rb", buffering=0)  # a descriptor, not a path


def regular(path: Path) -> int:
    """The descriptor of such a file; raises as ``open_regular`` does."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


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


def read_json(path: Path) -> dict[str, Any] | None:
    """Read one JSON object; None where there is none, or none that can be read: a file
    of ``MAX_JSON_BYTES`` at most, and no link (``open_regular``)."""
    try:
        with open_regular(path) as file:
            # Not more is asked for than there is: room would be made for all of it.
            size = os.fstat(file.fileno()).st_size
            content = file.read(size) if size <= MAX_JSON_BYTES else b""
        value: Any = json.loads(content)
    except (OSError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None
