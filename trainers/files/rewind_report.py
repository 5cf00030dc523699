"""What a person is told of files that were put back, and of those that were not."""

import contextlib
from collections.abc import Callable, Collection, Iterable
from pathlib import Path

from trainers.files.file_end import FileEnd

NAMED = 5
"""Of several files, so many are named."""
CUT = (
    "files of the script were put back to where the run goes on from: {files}. What they"
    " held after that is beside each, in *.{suffix}"
)
LEFT = (
    "a file of the script is left as it is: {file} ({because}). What was written there after"
    " the snapshot stays, and is written again"
)
AHEAD = (
    "files of the script were written after the snapshot, and are left as they are until"
    " it writes them again: {files}"
)
NEVER = (
    "a restart does not put back {files}: what is written there after a snapshot stays,"
    " and is written again ([files] rewind tells where files are put back; databases, and"
    " open files that are changed in the middle, never are)"
)
CANNOT = "where the script's files end is not known: a restart may not put them back ({error})"
TOO_MANY = (
    "the script writes so many files that a restart does not put back all of them"
)


class RewindReport:
    """Gathered, and told in as few sentences as can be."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._told_too_many = self._told_cannot = False
        self.cut: list[Path] = []
        self.ahead: list[Path] = []
        self.left: dict[str, str] = {}
        """Why, in half a sentence, by path."""
        self.redundant: list[Path] = []
        """Copies beside a file that holds all of them again; they may be gone already."""

    def gone(self, path: Path, end: FileEnd) -> None:
        """It was there at the snapshot; one that the script removed is no news."""
        if end.grows:
            self.left[str(path)] = "it is gone"

    def over(self, suffix: str) -> None:
        """All are put back: tell."""
        for side in self.redundant:
            _remove(side, suffix)
        if self.cut:
            self._tell(CUT.format(files=listed(self.cut), suffix=suffix))
        if self.ahead:
            self._tell(AHEAD.format(files=listed(self.ahead)))
        for file, because in list(self.left.items())[:NAMED]:
            self._tell(LEFT.format(file=file, because=because))
        if len(self.left) > NAMED:
            self._tell(f"and {len(self.left) - NAMED} more files are left as they are")
        self.cut, self.ahead, self.left, self.redundant = [], [], {}, []

    def cannot(self, error: OSError) -> None:
        """Told once."""
        if not self._told_cannot:
            self._told_cannot = True
            self._tell(CANNOT.format(error=error))

    def never(self, paths: Collection[str], *, too_many: bool) -> None:
        """Each is told once a run."""
        if paths:
            self._tell(NEVER.format(files=listed(sorted(map(Path, paths)))))
        if too_many and not self._told_too_many:
            self._told_too_many = True
            self._tell(TOO_MANY)


def _remove(side: Path, suffix: str) -> None:
    """And the directories that were made for it, once they are empty."""
    with contextlib.suppress(OSError):
        side.unlink(missing_ok=True)
        above = list(side.parents)
        made = [n for n, one in enumerate(above) if one.name.endswith(f".{suffix}")]
        for directory in above[: made[0] + 1 if made else 0]:
            directory.rmdir()


def listed(paths: Iterable[Path]) -> str:
    """Some names, and how many more."""
    names = [path.name for path in paths]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
