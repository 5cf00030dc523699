"""The allocator dumps that TensorFlow writes on an OOM (``TF_BFC_MEMORY_DUMP``)."""

import os
import re
import stat
from pathlib import Path

from supervisor.core.allocator import MemoryFigures
from supervisor.core.allocator_map import MemoryMap, decode_dump, figures_of

MAX_DUMP_BYTES = 64 * 1024 * 1024
"""A map of a million chunks is about that large."""
_NAME = re.compile(r"\.(\d+)$")


def read_first_dump(directory: Path) -> MemoryFigures | None:
    """Figures of the first dump in ``directory`` by the time in its name.

    TensorFlow writes several on one OOM, as it retries: the first shows the failure.
    None: there is none that can be read; a later whole one is taken instead of a
    broken one.
    """
    found = read_first_map(directory)
    return None if found is None else figures_of(found)


def read_first_map(directory: Path) -> MemoryMap | None:
    """The first dump in ``directory``, every chunk of it; None if there is none."""
    for path in dump_files(directory):
        content = _content(path)
        decoded = None if content is None else decode_dump(content)
        if decoded is not None:
            return decoded
    return None


def dump_files(directory: Path) -> list[Path]:
    """The dumps in ``directory``, the first in time first.

    Their names end in microseconds: ``prefix_<allocator>.1795271486474869``.
    """
    try:
        names = [path for path in directory.iterdir() if _NAME.search(path.name)]
    except OSError:
        return []
    return sorted(names, key=lambda path: (_microseconds(path), path.name))


def _microseconds(path: Path) -> int:
    match = _NAME.search(path.name)
    return int(match[1]) if match else 0


def _content(path: Path) -> bytes | None:
    """The bytes of a regular file of a sane size. The directory belongs to the job:
    a link or a pipe in it must not lead the supervisor elsewhere, or hold it."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_DUMP_BYTES:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(MAX_DUMP_BYTES)
    except OSError:
        return None
    finally:
        os.close(descriptor)
