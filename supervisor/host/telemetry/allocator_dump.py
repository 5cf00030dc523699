"""The allocator dumps that TensorFlow writes on an OOM (``TF_BFC_MEMORY_DUMP``)."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from supervisor.core.memory.bfc_map import MemoryMap, decode_dump
from supervisor.wire.files import open_regular

MAX_DUMP_BYTES = 64 * 1024 * 1024
"""A map of a million chunks is about that large."""
EPISODE_MICROSECONDS = 12_000_000
"""An allocation that fails is tried again for 10 s, and the dumps of both tries are of
one failure (xla/tsl/framework/bfc_allocator.cc: kMaxMillisToWait); two seconds to spare."""
REFUSAL_MICROSECONDS = 9_000_000
"""So far apart are two allocations that failed one after the other, each of which waited
for ten seconds; less far those that did not wait, and cost nothing."""
_NAME = re.compile(r"\.(\d+)$")


def read_first_map(directory: Path) -> MemoryMap | None:
    """The first dump of the last failure in ``directory``, every chunk of it.

    TensorFlow writes several on one OOM, as it retries: the first shows the failure.
    A script may have caught earlier failures, whose dumps tell of another time. None:
    there is none that can be read; another whole one is taken instead of a broken one.
    """
    files = dump_files(directory)
    last = [path for path in files if _is_of(path, files[-1])]
    for path in (*last, *(path for path in files if path not in last)):
        decoded = read_map(path)
        if decoded is not None:
            return decoded
    return None


def _is_of(path: Path, last: Path) -> bool:
    """Whether ``path`` may be of the failure that wrote the ``last`` dump."""
    return _microseconds(last) - _microseconds(path) <= EPISODE_MICROSECONDS


def dump_files(directory: Path) -> list[Path]:
    """The dumps in ``directory``, the first in time first.

    Their names end in microseconds: ``prefix_<allocator>.1795271486474869``.
    """
    try:
        names = [path for path in directory.iterdir() if _NAME.search(path.name)]
    except OSError:
        return []
    return sorted(names, key=lambda path: (_microseconds(path), path.name))


class RefusalCounter:
    """Allocations that failed after a wait, by the dumps in a directory."""

    def __init__(self, directory: Path) -> None:
        """``directory`` need not be there yet."""
        self._directory = directory
        self._changed_ns = -1
        self._count = 0

    def count(self) -> int:
        """How many there were so far; a directory that did not change is not read again."""
        try:
            changed_ns = self._directory.stat().st_mtime_ns
        except OSError:
            return self._count
        if changed_ns != self._changed_ns:
            self._changed_ns = changed_ns
            times = [_microseconds(path) for path in dump_files(self._directory)]
            self._count = refusals(times)
        return self._count


def newest_age(directory: Path, *, wall: float) -> float | None:
    """How many seconds ago an allocation last found no memory; None: none has, as far as
    one can see. ``wall``: now, in seconds since 1970, as the names of dumps have it.

    TensorFlow writes a dump at each try that fails: at the first one, before it waits for
    memory that others give back, and where it waits for none, too.
    """
    files = dump_files(directory)
    return max(wall - _microseconds(files[-1]) / 1e6, 0.0) if files else None


def refusals(microseconds: Sequence[int]) -> int:
    """Of dumps written at these times, how many tell of an allocation of their own."""
    count, last = 0, None
    for at in sorted(microseconds):
        if last is None or at - last >= REFUSAL_MICROSECONDS:
            count, last = count + 1, at
    return count


def _microseconds(path: Path) -> int:
    match = _NAME.search(path.name)
    return int(match[1]) if match else 0


def read_map(path: Path) -> MemoryMap | None:
    """The map in a regular file of a sane size; None: there is none."""
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > MAX_DUMP_BYTES:
                return None
            return decode_dump(file.read(MAX_DUMP_BYTES))
    except OSError:
        return None
