"""Where a file ended, and whether another is the same up to there."""

import hashlib
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

TAIL_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEnd:
    """A file at a snapshot."""

    size: int
    beginning: int
    """From where on it is this run's."""
    tail: str
    """Hash of its last bytes, those before ``beginning`` left out."""
    open: bool = False
    """The script had it open."""
    appends: bool = False
    text: str | None = None
    """All of it, where it was short and not open: ``latin-1``."""
    why_not: str | None = None
    """Why it cannot be cut back to here."""

    def to_json(self) -> dict[str, Any]:
        """A JSON object with the fields by name."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """What ``to_json`` gave."""
        return cls(**value)

    def difference(self, path: Path, *, beginning: int) -> str | None:
        """Why the first bytes of ``path`` are not those; None: they are.

        ``beginning``: of the file that it holds the end of. Raises OSError.
        """
        size = path.stat().st_size + beginning
        if size < self.size:
            return f"it is {self.size - size} bytes shorter than it was then"
        if (
            tail_of(path, self.size - beginning, self.size - self.beginning)
            != self.tail
        ):
            return "it is not the same as then"
        return None


def read_tail(path: Path, end: int, at_most: int) -> bytes:
    """The bytes before ``end``. Raises OSError."""
    length = min(TAIL_BYTES, at_most)
    with path.open("rb", buffering=0) as file:
        return os.pread(file.fileno(), length, end - length)


def tail_of(path: Path, end: int, at_most: int) -> str:
    """Their hash. Raises OSError."""
    return hashlib.blake2b(read_tail(path, end, at_most), digest_size=16).hexdigest()
