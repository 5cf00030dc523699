"""Files as they were when the loop of a script began, for its run from the top.

A restart of a loop that is followed runs the script from its top and answers its calls
from the record. A script that finds there what the loop of an earlier attempt wrote (how
far it was, a checkpoint) would go on by that, and leave out what the record has. So what
the loop made is put aside before the script begins, hidden beside its place, and put back
where the snapshot is given back (``FileRewind``).
"""

from collections.abc import Callable
from pathlib import Path

from trainers.files import kept_bytes
from trainers.files.file_journal import Entry, KnownFile
from trainers.files.kept_bytes import LeftError
from trainers.files.written_files import WrittenFiles

NO_ORIGINAL = "it was there before the loop, and is too large to keep a copy of"


class TopOfScript:
    """Puts them aside, and back."""

    def __init__(self, written: WrittenFiles, attempt: int, suffix: str) -> None:
        self._written, self._attempt, self._suffix = written, attempt, suffix
        self._aside: dict[str, Path] = {}
        self.native: str | None = None
        """One that is written past Python and could not be put aside: nobody sees
        whether the script reads it."""

    def put_aside(self, file: KnownFile, check: Callable[[KnownFile], None]) -> None:
        """``file`` is as it was when the loop began. Raises LeftError, OSError."""
        path = Path(file.path)
        try:
            if path.exists():
                check(file)
                self._put_aside(path, file)
        except (LeftError, OSError):
            if file.native:
                self.native = file.path
            raise
        self._written.at_top.add(file.path)

    def _put_aside(self, path: Path, file: KnownFile) -> None:
        original = None if file.original is None else Path(file.original)
        made = file.size is None
        if not made and original is None and not file.first_appends:
            raise LeftError(NO_ORIGINAL)
        kept = kept_bytes.free(path.with_name(f".{path.name}.{self._suffix}"))
        file.sides[self._attempt] = str(kept)
        self._written.journal.add(
            Entry.ASIDE, path=file.path, side=str(kept), durable=True
        )
        self._aside[file.path] = kept
        if made:
            path.rename(kept)
            return
        kept_bytes.copy_of(path, kept)
        source = original or kept
        kept_bytes.replace(path, source, (file.size or 0))

    def give_back(self, prefix: str) -> None:
        """Files that begin with ``prefix`` lie in their place again: the script, running
        again, has come to where it wrote them. Raises OSError."""
        for path in [one for one in self._aside if one.startswith(prefix)]:
            kept = self._aside.pop(path)
            if kept.exists() and not Path(path).exists():
                kept.rename(path)

    def is_passed(self) -> None:
        """The state is given back, and the files with it."""
        self._aside.clear()

    def give_all_back(self) -> None:
        """The script is left to itself: it finds what it left. Raises OSError."""
        for path, kept in self._aside.items():
            if kept.exists():
                kept.replace(path)
        self._aside.clear()
