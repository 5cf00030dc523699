"""A copy of a working directory, in which a script is tried, and what it leaves there."""

import os
import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor.wire.paths import CUT

LINKED_BYTES = 256 << 20
"""Files that are larger are linked, not copied: they are data, hardly ever written."""
LEFT_OUT = frozenset({"__pycache__", "node_modules", "venv"})
"""Directories that no script works with; those whose names begin with a dot, too, and
what a restart set aside."""

CHECKPOINT_STATE = "checkpoint"
"""TensorFlow's list of the checkpoints in a directory, with the time of each."""
MODEL = ".keras"
CONFIG = "config.json"
"""Of a model of Keras: what it is made of."""
SHARED = re.compile(rb'"shared_object_id": (\d+)')
"""Keras' name for what several layers have in common: its address in the process."""
SMALL_BYTES = 1 << 20

State = tuple[int, int]
"""Size in bytes, and when it was changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkingCopy:
    """The directory, and its files as they were copied."""

    root: Path
    copied: Mapping[str, State]
    linked: tuple[str, ...]
    """Files too large to copy, by their path in the directory."""

    def written(self) -> dict[str, Path]:
        """The files that were made or changed since, by their path in the directory."""
        return {
            name: path
            for name, path in _files(self.root)
            if self.copied.get(name) != _state(path)
        }

    def moved(self, root: Path) -> "WorkingCopy":
        """The same elsewhere; raises OSError."""
        self.root.rename(root)
        return WorkingCopy(root=root, copied=self.copied, linked=self.linked)


def copy_of(source: Path, root: Path, *, without: Path) -> WorkingCopy:
    """Copy ``source`` to ``root``, which is made, but for what is below ``without``.

    Raises OSError: no room, or a file that may not be read.
    """
    root.mkdir(parents=True)
    linked: list[str] = []
    for path in _below(source, without=without):
        to = root / path.relative_to(source)
        if path.is_symlink():
            to.symlink_to(path.resolve())
        elif path.is_dir():
            to.mkdir()
        elif path.is_file() and path.stat().st_size > LINKED_BYTES:
            to.symlink_to(path)
            linked.append(str(path.relative_to(source)))
        elif path.is_file():
            shutil.copy2(path, to)
    copied = {name: _state(path) for name, path in _files(root)}
    return WorkingCopy(root=root, copied=copied, linked=tuple(linked))


def differing(one: WorkingCopy, other: WorkingCopy) -> tuple[int, list[str]]:
    """How many files both runs left, and the names of those that are not the same."""
    ours, theirs = one.written(), other.written()
    names = sorted(ours.keys() | theirs.keys())
    return len(names), [
        name
        for name in names
        if name not in ours or name not in theirs or _differ(ours[name], theirs[name])
    ]


def _differ(one: Path, other: Path) -> bool:
    """But for the time at which they were written, where that stands in them."""
    if one.name == CHECKPOINT_STATE and one.stat().st_size <= SMALL_BYTES:
        return _undated(one) != _undated(other)
    if one.suffix == MODEL:
        try:
            return _members(one) != _members(other)
        except (OSError, zipfile.BadZipFile, zlib.error):
            pass  # it is none of Keras'
    with one.open("rb") as ours, other.open("rb") as theirs:
        while True:
            mine = ours.read(1 << 20)
            if mine != theirs.read(1 << 20):
                return True
            if not mine:
                return False


def _undated(state: Path) -> list[bytes]:
    return [
        line for line in state.read_bytes().splitlines() if b"timestamp" not in line
    ]


def _members(model: Path) -> tuple[list[tuple[str, int, int]], bytes]:
    """Name, checksum (CRC-32) and size of what is in a model of Keras, and what it is made
    of; without its ``metadata.json``, which holds the date."""
    with zipfile.ZipFile(model) as archive:
        found = sorted(
            (one.filename, one.CRC, one.file_size)
            for one in archive.infolist()
            if one.filename not in {"metadata.json", CONFIG}
        )
        config = archive.read(CONFIG) if CONFIG in archive.namelist() else b""
    return found, _without_addresses(config)


def _without_addresses(config: bytes) -> bytes:
    """With a number for each shared object, by which of them comes first."""
    numbers: dict[bytes, int] = {}

    def numbered(found: re.Match[bytes]) -> bytes:
        return b"shared %d" % numbers.setdefault(found[1], len(numbers))

    return SHARED.sub(numbered, config)


def _below(root: Path, *, without: Path | None = None) -> Iterator[Path]:
    """What is in ``root``, directories before what is in them."""
    for directory, below, files in os.walk(root):
        below[:] = [
            name
            for name in below
            if name[0] != "." and name not in LEFT_OUT and f".{CUT}" not in name
            if Path(directory, name) != without
        ]
        yield from (Path(directory, name) for name in [*below, *files])


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    for path in _below(root):
        kept = f".{CUT}" in path.name
        if path.is_file() and not path.is_symlink() and not kept:
            yield str(path.relative_to(root)), path


def _state(path: Path) -> State:
    found = path.stat()
    return found.st_size, found.st_mtime_ns
