"""The script's own open handles of files: found by descriptor, whoever opened them.

What Python has buffered for one is found by looking through all objects, once for each
time that a file is opened and stays open: functions of the script are not stood around.
"""

import contextlib
import fcntl
import gc
import io
import os
import weakref
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from supervisor.wire.messages.directive import MARKER

BUFFERED = frozenset({io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom})
_SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class Handle:
    """A descriptor that may write."""

    descriptor: int
    path: str
    appends: bool
    position: int


def of(paths: Collection[str], *, process: Path = _SELF) -> list[Handle]:
    """Those on ``paths`` (real ones), of this process or another's directory in /proc."""
    found: list[Handle] = []
    try:
        names = os.listdir(process / "fd") if paths else []  # noqa: PTH208  # in snapshots
    except OSError:
        return found  # it is over, or not ours
    for name in names:
        try:
            path = os.readlink(f"{process}/fd/{name}")  # noqa: PTH115  # as above
            handle = _handle(process, name, path) if path in paths else None
        except OSError:
            continue  # closed meanwhile
        if handle is not None:
            found.append(handle)
    return found


def _handle(process: Path, name: str, path: str) -> Handle | None:
    number = int(name)
    if process == _SELF:
        flags, position = fcntl.fcntl(number, fcntl.F_GETFL), _position(number)
    else:
        lines = (process / "fdinfo" / name).read_text().splitlines()
        told = dict(line.split(":", 1) for line in lines if ":" in line)
        flags, position = int(told["flags"], 8), int(told["pos"])
    if flags & os.O_ACCMODE == os.O_RDONLY:
        return None
    return Handle(number, path, bool(flags & os.O_APPEND), position)


def _position(descriptor: int) -> int:
    return os.lseek(descriptor, 0, os.SEEK_CUR)


def moved(handles: list[Handle]) -> Iterator[Handle]:
    """As they are now; those that were closed meanwhile left out."""
    for one in handles:
        with contextlib.suppress(OSError):
            yield replace(one, position=_position(one.descriptor))


def held_by_others(paths: set[str]) -> dict[str, str]:
    """Which of ``paths`` a process that is none of this attempt's has open to write, in
    words. Those of other users cannot be seen."""
    found: dict[str, str] = {}
    for process in Path("/proc").iterdir() if paths else ():
        if process.name.isdecimal() and not _is_ours(process):
            for handle in of(paths, process=process):
                found[handle.path] = f"process {process.name} has it open to write"
    return found


def _is_ours(process: Path) -> bool:
    """Workers that were forked have what was open then."""
    if process.name == str(os.getpid()):
        return True
    marker = os.environ.get(MARKER)
    if marker is None:
        return False
    try:
        environment = (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return f"{MARKER}={marker}".encode() in environment


class Buffers:
    """Python's file objects over descriptors, by path."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, list[weakref.ref[Any]]]] = {}

    def flush(self, handles: Collection[Handle], opened: dict[str, int]) -> None:
        """Write out what they hold. ``opened``: how often each path was, as yet."""
        for file in self._files(handles, opened):
            try:
                file.flush()
            except (OSError, ValueError):
                continue  # the script's own next write meets it as well

    def to_end(self, handles: Collection[Handle], opened: dict[str, int]) -> None:
        """The next write comes at the end."""
        for handle in handles:
            os.lseek(handle.descriptor, 0, os.SEEK_END)
        for file in self._files(handles, opened):
            if file.seekable():
                file.seek(0, os.SEEK_END)

    def _files(
        self, handles: Collection[Handle], opened: dict[str, int]
    ) -> Iterator[Any]:
        wanted = {handle.path for handle in handles}
        stale = {
            path
            for path in wanted
            if self._known.get(path, (-1, []))[0] != opened.get(path, 0)
        }
        if stale:
            self._look(handles, opened, stale)
        for path in wanted:
            for reference in self._known[path][1]:
                file = reference()
                if file is not None and not file.closed:
                    yield file

    def _look(
        self, handles: Collection[Handle], opened: dict[str, int], stale: set[str]
    ) -> None:
        for path in stale:
            self._known[path] = (opened.get(path, 0), [])
        path_of = {handle.descriptor: handle.path for handle in handles}
        files = [one for one in gc.get_objects() if type(one) in BUFFERED]
        for one in files:
            of = path_of.get(_descriptor(one))
            if of in stale:
                self._known[of][1].append(weakref.ref(one))


def _descriptor(file: Any) -> int:
    """-1: it has none."""
    try:
        return int(file.fileno())
    except (OSError, ValueError):
        return -1
