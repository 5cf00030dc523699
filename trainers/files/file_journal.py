"""The journal of the files that the script writes: one JSON object a line, in a file of
each attempt. The next attempt reads those of all."""

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
    """``path, size, appends, native, serial``: the script opens it to write; ``native``:
    past Python."""
    HELD = "held"
    """``path``: it is open for longer than a snapshot takes, and not to append."""
    SHARED = "shared"
    """``path``: others write to it as well."""
    ASIDE = "aside"
    """``path, side``: what earlier attempts wrote is in ``side`` too, until files were
    put back."""
    PUT_BACK = "put back"
    """Each file is as it was at a snapshot."""
    NAMED = "named"
    """``path``: it is never put back, and that was told."""
    ORIGINAL = "original"
    """``path, side``: what it held before the loop first wrote to it is in ``side``."""
    LOOP = "loop"
    """A loop of the script's own began, so that a restart runs the script from its top."""
    LEFT = "left"
    """It is not followed any more: a restart leaves the script to itself."""
    TRAINED = "trained"
    """A supervised fit began, so that a restart does it again from a snapshot."""


@dataclass(slots=True, kw_only=True)
class KnownFile:
    """A file that the script of this run opened to write."""

    path: str
    size: int | None
    """In bytes, right before the run first opened it; None: it was not there."""
    first_appends: bool
    """Whether that was for appending."""
    appends: bool = False
    """Whether any was."""
    held: bool = False
    shared: bool = False
    sides: dict[int, str] = field(default_factory=dict[int, str])
    """Where all that it held lies, by the attempt in which the script emptied or removed
    it. One that went on from no snapshot leaves its side, and wrote the file anew."""
    while_training: bool = False
    """Whether an attempt opened it after its first supervised fit had begun."""
    in_loop: bool = False
    """Whether the loop that is followed was the first to open it."""
    native: bool = False
    """Whether it is written past Python, and so may be read."""
    original: str | None = None
    """Where what it held before the loop lies; None: nowhere."""
    opened: tuple[int, int] = (0, 0)
    """The last time: in which attempt, after how many snapshots of that."""

    def side_of(self, attempt: int) -> str | None:
        """Where what ``attempt`` had written lies; None: in the file itself."""
        later = [number for number in self.sides if number > attempt]
        return self.sides[min(later)] if later else None


@dataclass(slots=True, kw_only=True)
class WrittenBefore:
    """What earlier attempts of the run tell."""

    files: dict[str, KnownFile] = field(default_factory=dict[str, KnownFile])
    named: set[str] = field(default_factory=set[str])
    trained: bool = False
    loop: bool = False
    """Whether a loop was followed last."""
    _training: bool = False
    """In the attempt whose lines are taken."""

    def next_attempt(self) -> None:
        """The lines that follow are of another one."""
        self._training = False

    def take(self, line: dict[str, Any]) -> None:
        """One more line, in the order in which they were written."""
        kind, path = line["kind"], line.get("path", "")
        file = self.files.get(path)
        if kind == Entry.OPENED:
            self._opened(line)
        elif kind == Entry.TRAINED:
            self.trained = self._training = True
        elif kind in {Entry.LOOP, Entry.LEFT}:
            self.loop = kind == Entry.LOOP
        elif kind == Entry.NAMED:
            self.named.add(path)
        elif kind == Entry.PUT_BACK:
            for one in self.files.values():
                one.sides.clear()
        elif file is not None:
            file.held |= kind == Entry.HELD
            file.shared |= kind == Entry.SHARED
            if kind == Entry.ORIGINAL:
                file.original = line["side"]
            if kind == Entry.ASIDE:
                file.sides[line["attempt"]] = line["side"]

    def _opened(self, line: dict[str, Any]) -> None:
        path, appends = line["path"], line["appends"]
        made = KnownFile(
            path=path, size=line["size"], first_appends=appends, in_loop=self.loop
        )
        file = self.files.setdefault(path, made)
        file.native |= line.get("native", False)
        file.appends |= appends
        file.while_training |= self._training
        file.opened = max(file.opened, (line["attempt"], line["serial"]))


def read(attempts: Path, *, before: int) -> WrittenBefore:
    """What the attempts below ``attempts`` wrote, those from ``before`` on left out."""
    written = WrittenBefore()
    found = [list(_lines(path)) for path in attempts.glob(f"*/{NAME}")]
    earlier = [lines for lines in found if lines and lines[0]["attempt"] < before]
    for lines in sorted(earlier, key=lambda lines: lines[0]["attempt"]):
        written.next_attempt()
        for line in lines:
            written.take(line)
    return written


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
        if isinstance(value, dict) and {"attempt", "kind"} <= value.keys():
            yield value


class FileJournal:
    """That of this attempt; it is made with the first line."""

    def __init__(self, directory: Path, attempt: int) -> None:
        self._path, self._attempt = directory / NAME, attempt
        self._descriptor: int | None = None

    def add(self, kind: str, *, durable: bool = False, **fields: object) -> None:
        """Append a line. Raises OSError."""
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            self._descriptor = os.open(self._path, flags, 0o640)
        line = {"kind": kind, "attempt": self._attempt, **fields}
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")
        if durable:
            os.fsync(self._descriptor)
