"""Which files the script of this run writes, and what became of them: one JSON object a
line, in a file of each attempt. The next attempt reads those of all."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAME = "files.jsonl"


class Entry:
    """The kinds of lines."""

    OPENED = "opened"
    """``path, appends, base``: the script opens it to write; see ``KnownFile``."""
    SEEN = "seen"
    """``path, inode``: it is this one."""
    ASIDE = "aside"
    """``path, side``: what it held from ``base`` on is, or will be, in ``side``."""
    SETTLED = "settled"
    """Nothing is aside any more: each file is what it should be."""
    TRAINED = "trained"
    """A supervised fit began, so that a restart does it again from a snapshot."""


@dataclass(slots=True, kw_only=True)
class KnownFile:
    """A file that the script opened to write."""

    path: str
    base: int | None
    """Bytes that it had when the run began; 0: it was not there, or empty. None: it had
    some, and the script did away with them."""
    existed: bool
    """Whether it was there when the run began."""
    appends: bool = False
    """Opened for appending, at least once."""
    inode: int | None = None
    """When it was last seen."""
    side: str | None = None
    """Where what it held lies while the script runs again."""

    @property
    def beginning(self) -> int:
        """Of the bytes in ``side``: where in the file the first of them was."""
        return self.base or 0

    def back(self) -> None:
        """It is in its place again, which may be another inode."""
        if self.side is not None:
            self.side = self.inode = None


@dataclass(slots=True, kw_only=True)
class WrittenBefore:
    """What earlier attempts of the run tell."""

    files: dict[str, KnownFile] = field(default_factory=dict[str, KnownFile])
    trained: bool = False

    def take(self, line: dict[str, Any]) -> None:
        """One more line, in the order in which they were written."""
        kind, path = line.get("kind"), line.get("path", "")
        if kind == Entry.OPENED:
            known = {key: line[key] for key in ("path", "base", "existed")}
            file = self.files.setdefault(path, KnownFile(**known))
            file.appends |= line["appends"]
        elif kind == Entry.TRAINED:
            self.trained = True
        elif kind == Entry.SETTLED:
            for file in self.files.values():
                file.back()
        elif path in self.files and kind == Entry.SEEN:
            self.files[path].inode = line["inode"]
        elif path in self.files and kind == Entry.ASIDE:
            self.files[path].side = line["side"]


def read(attempts: Path) -> WrittenBefore:
    """What the attempts below ``attempts`` wrote."""
    before = WrittenBefore()
    found = [list(_lines(path)) for path in attempts.glob(f"*/{NAME}")]
    for lines in sorted(found, key=lambda lines: lines[0]["attempt"] if lines else 0):
        for line in lines:
            before.take(line)
    return before


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """Whole lines: a kill may have left a broken one."""
    try:
        content = path.read_bytes()
    except OSError:
        return
    for line in content.splitlines():
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "attempt" in value:
            yield value


class FileJournal:
    """That of this attempt; it is made with the first line."""

    def __init__(self, directory: Path, attempt: int) -> None:
        self._path, self._attempt = directory / NAME, attempt
        self._descriptor: int | None = None

    def opened(self, file: KnownFile) -> None:
        """The script opens ``file``. Raises OSError."""
        self.add(
            Entry.OPENED,
            path=file.path,
            base=file.base,
            existed=file.existed,
            appends=file.appends,
        )

    def add(self, kind: str, *, durable: bool = False, **fields: object) -> None:
        """Append a line. Raises OSError."""
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o640)
        line = {"kind": kind, "attempt": self._attempt, **fields}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        if durable:
            os.fsync(self._descriptor)
