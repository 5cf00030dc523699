"""The script's files, put back to where they were at the snapshot that is given back.

A restart runs the script from its top, and the state is given back in the middle. Until
then the script may write what it likes; right then each file is cut back to where it
ended at the snapshot. So nothing is touched in an attempt that does not come so far, and
what is cut off is on disk beside the file before it is cut (``kept_bytes``).
"""

import contextlib
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from supervisor.wire.messages.directive import Directive
from supervisor.wire.paths import CUT, AttemptPaths
from trainers.files import kept_bytes, open_handles
from trainers.files.file_end import FileEnd
from trainers.files.file_journal import Entry, KnownFile
from trainers.files.kept_bytes import LeftError
from trainers.files.native_writes import natively
from trainers.files.open_handles import Handle
from trainers.files.rewind_report import RewindReport
from trainers.files.top_of_script import TopOfScript
from trainers.files.written_files import SHARED, WrittenFiles

MOST_ASIDE_BYTES = 256 * 2**20
OPEN_ALREADY = "the script, running again, has it open already"
OLDER = (
    "it was there before the run, and nothing tells whether the run alone has written to"
    " it since"
)
UNKNOWN = "the run's record of it is lost"
SLACK_SECONDS = 2.0
"""Between the clock of a file system and ours."""
_SNAPSHOT = re.compile(r"\d+-\d+")


class FileRewind:
    """What the attempt does about them."""

    def __init__(self, directive: Directive, tell: Callable[[str], None]) -> None:
        self._written = WrittenFiles(directive)
        self._report = RewindReport(tell)
        self._directive = directive
        self._suffix = f"{CUT}{directive.attempt - 1}"
        self._begun = self._trained = self._put = False
        self._resumes = False
        """Whether there is a snapshot that may be given back."""
        self._at_begin: dict[str, int] = {}
        self._top = TopOfScript(self._written, directive.attempt, self._suffix)
        self._others: dict[str, str] = {}

    @property
    def never_put_back(self) -> set[Path]:
        """What earlier attempts appended to, and what is left as it is."""
        return set(map(Path, self._written.before.named))

    # --- before the script -----------------------------------------------------------

    def begin(self) -> None:
        """The script begins: what it writes is noticed from here on."""
        if not self._written.roots:
            return
        before = self._written.before
        with self._written.unheard(), contextlib.suppress(OSError):
            self._see_what_others_did()
            self._resumes = self.has_snapshot()
            if before.trained and not self._resumes:
                self._put_to_beginning(list(before.files.values()))
            elif before.loop and self._resumes:
                self._put_to_top([f for f in before.files.values() if f.in_loop])
        if before.trained:
            self._written.before_losing = self._set_aside
            written = [file for file in before.files.values() if file.while_training]
            self._written.telling = {Path(file.path).name for file in written}
        self._written.listen()
        self._begun = True

    def _see_what_others_did(self) -> None:
        """Since the last attempt ended."""
        ended = self._last_end()
        for path, file in self._written.files.items():
            with contextlib.suppress(OSError):
                found = os.lstat(path)
                file.calm = found.st_size, found.st_mtime_ns
                self._at_begin[path] = found.st_size
                if ended is not None and found.st_mtime > ended + SLACK_SECONDS:
                    self._written.is_shared(path)

    def _last_end(self) -> float | None:
        """When all of the last attempt's processes were gone; None: not known."""
        root = Path(self._directive.attempt_directory)
        ends = root.parent.glob(f"*/{AttemptPaths(root).exit.name}")
        try:
            return max((path.stat().st_mtime for path in ends), default=None)
        except OSError:
            return None

    def has_snapshot(self) -> bool:
        """Whether something will be given back, as far as names tell. Raises OSError."""
        directive = self._directive
        tiers = directive.snapshot_directory, directive.memory_directory
        found = [path for path in map(Path, filter(None, tiers)) if path.exists()]
        names = [one.name for path in found for one in path.iterdir()]
        return directive.restore and any(map(_SNAPSHOT.fullmatch, names))

    def _put_to_beginning(self, files: list[KnownFile]) -> None:
        """Training begins anew: what was appended since the run began is cut off."""
        self._others = open_handles.held_by_others({file.path for file in files})
        for file in files:
            self._try(file.path, self._cut_to_beginning, file)
        self._report.over(self._suffix)

    def _put_to_top(self, files: list[KnownFile]) -> None:
        """The script runs from its top, and its loop is answered from the record."""
        self._others = open_handles.held_by_others({file.path for file in files})
        for file in files:
            self._try(file.path, self._put_one_to_top, file)
        self._report.over(self._suffix)

    def _put_one_to_top(self, file: KnownFile) -> None:
        if file.opened[0]:
            self._top.put_aside(file, self._check)

    def _cut_to_beginning(self, file: KnownFile) -> None:
        path = Path(file.path)
        made_here = file.appends and file.size is None
        if not (file.first_appends or made_here) or not file.opened[0]:
            return
        if not path.exists():
            return
        if path.stat().st_size == file.size:
            return
        self._check(file)
        if file.size is not None:
            raise LeftError(OLDER)
        path.rename(self._beside(path))
        self._written.files[file.path].calm = None
        self._report.cut.append(path)

    # --- while it runs up to where the state is given back ---------------------------

    def _set_aside(self, file: KnownFile, removed: str | None) -> None:
        """The script is about to remove, empty or replace it. Raises OSError."""
        path, attempt = Path(file.path), self._directive.attempt
        known = file.opened[0] > 0 and attempt not in file.sides
        if not known or file.shared or not path.is_file():
            return
        if removed is not None:
            if not any(f"{removed}/".startswith(f"{r}/") for r in self._written.roots):
                return  # beside it is no place of ours
            kept = self._aside_of(path, Path(removed))
            os.link(path, kept)  # it is only one of its names that goes
        elif (file.appends or file.held) and path.stat().st_size <= MOST_ASIDE_BYTES:
            kept = self._beside(path)
            kept_bytes.copy_of(path, kept)
        else:
            return
        file.sides[attempt] = str(kept)
        self._written.journal.add(
            Entry.ASIDE, path=file.path, side=str(kept), durable=True
        )

    def _aside_of(self, path: Path, removed: Path) -> Path:
        """Beside what is removed, which may be a directory above ``path``."""
        if path == removed:
            return self._beside(path)
        place = removed.with_name(f"{removed.name}.{self._suffix}")
        kept = place / path.relative_to(removed)
        kept.parent.mkdir(parents=True, exist_ok=True)
        return kept_bytes.free(kept)

    # --- at the boundaries of training -----------------------------------------------

    def followed(self) -> None:
        """A fit is followed: a restart does it again from a snapshot."""
        if self._begun and not self._trained:
            self._trained = True
            for file in list(self._written.files.values()):
                file.told = -1  # what is opened from here on is a new line
            with contextlib.suppress(OSError):
                self._written.journal.add(Entry.TRAINED)

    @property
    def is_on(self) -> bool:
        """Whether any files are put back at all."""
        return bool(self._written.roots)

    def loop_begins(self) -> None:
        """A loop is followed: a restart runs the script from its top."""
        self.followed()
        if self._begun and not self._written.looping:
            self._written.looping = True
            with contextlib.suppress(OSError):
                self._written.journal.add(Entry.LOOP)

    def loop_left(self) -> None:
        """It is not followed any more: the script is left to itself, with its files."""
        with self._written.unheard(), contextlib.suppress(OSError):
            self._top.give_all_back()
            self._written.journal.add(Entry.LEFT, durable=True)
        self._written.looping = False

    def natively(self, path: str) -> AbstractContextManager[None]:
        """In here the loop writes ``path`` past Python."""
        if not self._begun:
            return contextlib.nullcontext()
        return natively(self._written, path)

    def give_back(self, path: str) -> None:
        """The script has come to where it wrote that in an earlier attempt."""
        with self._written.unheard(), contextlib.suppress(OSError):
            self._top.give_back(os.path.realpath(path))

    @property
    def went_by(self) -> str | None:
        """A file that the loop of an earlier attempt wrote, and that the script has, or
        may have, read in this one before it came there."""
        return self._written.read_in_loop or self._top.native

    @property
    def lost_original(self) -> str | None:
        """A file that is not as it was where the script may read it again."""
        return self._written.lost_original

    @property
    def read_back(self) -> str | None:
        """A file that earlier attempts wrote in training, and that the script has read in
        this one before any state was given back: it may go on by what is in there."""
        return self._written.read_back

    def ends(self) -> dict[str, Any] | None:
        """For a snapshot: where each file ends now."""
        if not self._begun:
            return None
        if not self._put:
            self._nothing_put_back()
        try:
            ends = self._written.ends()
        except OSError as error:  # of a full disk, say: training goes on
            self._report.cannot(error)
            return None
        never, self._written.never = self._written.never, set()
        self._report.never(never, too_many=self._written.too_many)
        return ends

    def _nothing_put_back(self) -> None:
        """Training goes on from no snapshot: it is too late for one to be given back."""
        self._put = True
        self._written.rest()
        if self._written.before.trained and self._resumes:
            for path, file in list(self._written.before.files.items()):
                if file.appends and file.opened[0]:
                    self._report.left[path] = "training did not go on from a snapshot"
            self._report.over(self._suffix)

    def looks_after(self, path: str) -> bool:
        """Whether ``path`` is put back, or left for a reason that is told."""
        return self._begun and os.path.realpath(path) in self._written.files

    def put_back(self, taken: dict[str, Any] | None) -> None:
        """Each file as it was at the snapshot that is given back; once an attempt."""
        if not self._begun or self._put or taken is None:
            return
        self._put = True
        with self._written.unheard():
            try:
                self._put_all(taken)
            except OSError as error:
                self._report.cannot(error)
        self._written.rest()

    def _put_all(self, taken: dict[str, Any]) -> None:
        ends = {path: FileEnd.from_json(end) for path, end in taken["ends"].items()}
        at = taken["attempt"], taken["serial"]
        handles = self._written.flushed()
        later = [f for f in self._written.before.files.values() if f.path not in ends]
        self._others = open_handles.held_by_others({*ends, *(f.path for f in later)})
        for path, end in ends.items():
            if end is not None:
                self._try(path, self._put_one, end, at, handles.get(path, []))
        for file in later:
            self._try(file.path, self._begun_later, file, handles.get(file.path, []))
            if not (file.appends or file.held):  # the script removed it
                self._report.redundant.extend(map(Path, file.sides.values()))
        for one in self._written.files.values():
            one.calm = None  # what changed was our own doing
        with contextlib.suppress(OSError):
            self._written.journal.add(Entry.PUT_BACK, durable=True)
        self._top.is_passed()
        self._report.over(self._suffix)

    def _try(self, path: str, put: Callable[..., None], *arguments: Any) -> None:
        by_file = self._cut_to_beginning, self._begun_later, self._put_one_to_top
        first = () if put in by_file else (path,)
        try:
            put(*first, *arguments)
        except FileNotFoundError:
            self._report.left[path] = "it is gone"
        except (OSError, LeftError) as error:
            self._report.left[path] = str(error)

    def _begun_later(self, file: KnownFile, handles: list[Handle]) -> None:
        """It was first appended to after the snapshot."""
        if handles:
            raise LeftError(OPEN_ALREADY)
        self._cut_to_beginning(file)

    def _put_one(
        self, name: str, end: FileEnd, at: tuple[int, int], handles: list[Handle]
    ) -> None:
        path, known = Path(name), self._written.before.files.get(name)
        kept = None if known is None else known.side_of(at[0])
        side = Path(kept) if kept is not None and Path(kept).exists() else None
        if not path.exists() and (side is None or not end.grows):
            return self._make_again(path, end, side)
        if path.exists() and self._is_as_then(path, end):
            self._report.redundant.extend([] if side is None else [side])
            return None
        if known is None:
            raise LeftError(UNKNOWN)
        if end.why_not is not None:
            raise LeftError(end.why_not)
        if path.exists():
            self._check(known)
        self._check_written(known, end, at)
        self._put_known(path, end, side, handles)
        return None

    def _put_known(
        self, path: Path, end: FileEnd, side: Path | None, handles: list[Handle]
    ) -> None:
        if not end.grows:
            self._rewrite(path, end, handles)
        elif side is not None:
            self._restore(path, end, side)
            self._to_end(handles)
        else:
            because = end.difference(path)
            if because is not None:
                raise LeftError(because)
            kept_bytes.cut(path, end.size, self._beside(path))
            self._report.cut.append(path)
            self._to_end(handles)

    def _is_as_then(self, path: Path, end: FileEnd) -> bool:
        if end.text is not None:
            return path.read_bytes() == end.text.encode("latin-1")
        return path.stat().st_size == end.size and end.difference(path) is None

    def _rewrite(self, path: Path, end: FileEnd, handles: list[Handle]) -> None:
        """It was written as a whole, and is written again when the script comes to it."""
        if end.text is None or handles:
            self._report.ahead.append(path)
            return
        if path.exists():
            kept_bytes.copy_of(path, self._beside(path))
            self._report.cut.append(path)
        content = end.text.encode("latin-1")
        kept_bytes.replace(path, content, len(content))

    def _make_again(self, path: Path, end: FileEnd, side: Path | None) -> None:
        """It is not there. Unless the script removed it right now, it stays so."""
        if side is not None and end.difference(side) is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            side.rename(path)
            self._report.redundant.append(side)
        elif end.text is not None and str(path) in self._written.removed:
            content = end.text.encode("latin-1")
            kept_bytes.replace(path, content, len(content))
        else:
            self._report.gone(path, end)

    def _restore(self, path: Path, end: FileEnd, side: Path) -> None:
        """The script, running again, emptied or removed it: what it held is aside."""
        because = end.difference(side)
        if because is not None:
            raise LeftError(because)
        if path.exists() and not kept_bytes.begins_with(side, path):
            kept_bytes.copy_of(path, self._beside(path))
        kept_bytes.replace(path, side, end.size)
        if side.stat().st_size > end.size:
            self._report.cut.append(path)
        else:
            self._report.redundant.append(side)

    # --- whether it may be touched ---------------------------------------------------

    def _check(self, file: KnownFile) -> None:
        """Raises LeftError: it may not; OSError."""
        because = self._others.get(file.path) or kept_bytes.why_not_ours(
            Path(file.path)
        )
        if file.shared:
            because = SHARED
        if because is not None:
            raise LeftError(because)

    def _check_written(
        self, file: KnownFile, end: FileEnd, at: tuple[int, int]
    ) -> None:
        """That this run wrote what came after the snapshot. Raises LeftError."""
        if file.opened >= at or end.open:
            return
        if self._at_begin.get(file.path, end.size) != end.size:
            self._written.is_shared(file.path)
            raise LeftError(SHARED)

    def _beside(self, path: Path) -> Path:
        return kept_bytes.free(path.with_name(f"{path.name}.{self._suffix}"))

    def _to_end(self, handles: list[Handle]) -> None:
        opened = {path: file.opened for path, file in self._written.files.items()}
        self._written.buffers.to_end(handles, opened)
