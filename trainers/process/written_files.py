"""Files that the script writes itself: noticed when it opens them, and where they end
noted in each snapshot.

A restart runs the script from its top, and the state is given back in the middle. A file
must be then as it was there, whatever the script does to it on the way. So (see
``file_rewind``): what was appended to is put where it was when the run began before the
script runs again, which then sees and writes what it did the first time; where the state
is given back the file gets the bytes that it had at the snapshot, and what came after
stays beside it.

They are noticed by Python's audit event ``open``, before anything is opened: names and
flags, no function of the script's is another. What is opened past Python (HDF5, native
writers) is not noticed.
"""

import contextlib
import os
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from supervisor.wire.directive import Directive
from trainers.process import file_journal, open_handles
from trainers.process.file_journal import Entry, FileJournal, KnownFile
from trainers.process.file_tail import TAIL_BYTES, FileEnd, read_tail, tail_of
from trainers.process.open_handles import Buffers, Handle

MOST_FILES = 1000
TOO_MANY = (
    f"the script writes more than {MOST_FILES} files: those after them are not cut back"
    " after a restart"
)
STREAMS = (".gz", ".bz2", ".xz", ".zst", ".zip", ".h5", ".hdf5")
"""What is open and of these kinds goes on from a state that nobody can read."""
OF_A_STREAM = "it was open, and what it holds cannot be written on from the middle"
IN_PLACE = "it is changed in place"
WRITES = os.O_WRONLY | os.O_RDWR


class WrittenFiles:
    """Those of this attempt and of earlier ones."""

    def __init__(self, directive: Directive) -> None:
        attempt = Path(directive.attempt_directory)
        self.roots = [os.path.realpath(root) for root in directive.rewind]
        self.before = file_journal.read(attempt.parent)
        self.files: dict[str, KnownFile] = {}
        """By their real path."""
        self.opened: dict[str, int] = {}
        """How often each was, in this attempt."""
        self.journal = FileJournal(attempt, directive.attempt)
        self.buffers = Buffers()
        self.too_many = False
        self._ours = _directories(directive)
        self._ends: dict[str, tuple[int, FileEnd]] = {}
        self._in_place: set[str] = set()
        self._process = os.getpid()
        self._busy = threading.local()
        self.before_losing: Callable[[KnownFile, bool], None] = _let_it
        """Called before the script does away with what a file of an earlier attempt
        holds; with whether its name stays."""

    # --- noticing --------------------------------------------------------------------

    def listen(self) -> None:
        """From here on, until the process ends: a hook cannot be taken back."""
        sys.addaudithook(self._audit)

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """What this thread opens in here is none of the script's."""
        self._busy.on = True
        try:
            yield
        finally:
            self._busy.on = False

    def _audit(self, event: str, details: tuple[Any, ...]) -> None:
        if event != "open" and event not in _REMOVES:
            return
        if getattr(self._busy, "on", False) or os.getpid() != self._process:
            return
        with self.unheard(), contextlib.suppress(OSError, ValueError, TypeError):
            if event == "open":
                self._opens(*details)
            else:
                count = _REMOVES[event]
                if all(below in (None, -1) for below in details[count:]):
                    self._removes(*map(self._real, details[:count]))

    def _opens(self, name: Any, _mode: object, flags: int) -> None:
        if not flags & WRITES or isinstance(name, int):
            return
        path = self._real(name)
        if not self._is_watched(path):
            return
        truncates = bool(flags & os.O_TRUNC)
        if truncates and path in self.before.files:
            self.before_losing(self.before.files[path], bool(flags & os.O_CREAT))
        if not flags & (os.O_TRUNC | os.O_APPEND | os.O_EXCL):
            self._in_place.add(path)
        self._notice(path, appends=bool(flags & os.O_APPEND), truncates=truncates)

    def _removes(self, path: str, onto: str | None = None) -> None:
        """``path`` is removed, with all below it, or renamed to ``onto``."""
        lost = path if onto is None else onto
        for file in self.before.files.values():
            if file.path == lost or file.path.startswith(f"{lost}/"):
                self.before_losing(file, False)  # noqa: FBT003  # see there
        if onto is not None and path in self.files and self._is_watched(onto):
            self._notice(onto, appends=False, truncates=True)

    def _notice(self, path: str, *, appends: bool, truncates: bool) -> None:
        self.opened[path] = self.opened.get(path, 0) + 1
        known = self.files.get(path)
        if known is None or appends > known.appends:
            self._add(path, appends=appends, truncates=truncates)

    def _real(self, name: Any) -> str:
        """Links in its directories are followed, not the file itself."""
        directory, last = os.path.split(os.fsdecode(name))
        return os.path.join(os.path.realpath(directory), last)  # noqa: PTH118  # in each open

    def _add(self, path: str, *, appends: bool, truncates: bool) -> None:
        if path not in self.files and len(self.files) >= MOST_FILES:
            self.too_many = True
            return
        size = _size(path)
        lost = truncates and bool(size)
        made = KnownFile(
            path=path,
            base=None if lost else size or 0,
            existed=size is not None,
            appends=appends,
        )
        self.journal.opened(made)
        known = self.before.files.get(path, made)
        self.files.setdefault(path, known).appends |= appends

    def _is_watched(self, path: str) -> bool:
        """Below the roots, not hidden, not ours, and a regular file if it is there."""
        root = next((one for one in self.roots if path.startswith(f"{one}/")), None)
        if root is None or path.startswith(self._ours) or path.endswith(".lock"):
            return False
        parts = path[len(root) + 1 :].split("/")
        if any(part.startswith(".") or part == "__pycache__" for part in parts):
            return False
        try:
            return stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:
            return True

    # --- at a snapshot -----------------------------------------------------------------

    def ends(self) -> dict[str, Any]:
        """Where each file ends now, buffers written out: JSON by path."""
        with self.unheard():
            handles = open_handles.of(self.files)
            self.buffers.flush(handles, self.opened)
            of: dict[str, list[Handle]] = {}
            for handle in open_handles.of(self.files) if handles else ():
                of.setdefault(handle.path, []).append(handle)
            ends = {path: self._end(path, of.get(path, [])) for path in self._all()}
        return {path: end.to_json() for path, end in ends.items() if end is not None}

    def _all(self) -> list[str]:
        """Those of earlier attempts that this one did not open yet, too."""
        return [*self.files, *(p for p in self.before.files if p not in self.files)]

    def _end(self, path: str, handles: list[Handle]) -> FileEnd | None:
        """None: it is not there."""
        opened = self.opened.get(path, 0)
        known = self._ends.get(path)
        if (
            known is not None
            and known[0] == opened
            and not handles
            and not known[1].open
        ):
            return known[1]  # nobody opened it since
        try:
            end = self._look(path, handles)
        except OSError:
            self._ends.pop(path, None)
            return None
        self._ends[path] = opened, end
        return end

    def _look(self, path: str, handles: list[Handle]) -> FileEnd:
        file = self.files.get(path) or self.before.files[path]
        found = os.lstat(path)
        if file.inode != found.st_ino:
            file.inode = found.st_ino
            self.journal.add(Entry.SEEN, path=path, inode=found.st_ino)
        size, beginning = found.st_size, min(file.beginning, found.st_size)
        short = not handles and not file.appends and size <= TAIL_BYTES
        where = Path(path)
        return FileEnd(
            size=size,
            beginning=beginning,
            tail=tail_of(where, size, size - beginning),
            open=bool(handles),
            appends=file.appends,
            text=read_tail(where, size, size).decode("latin-1") if short else None,
            why_not=self._why_not(path, handles, size),
        )

    def _why_not(self, path: str, handles: list[Handle], size: int) -> str | None:
        if handles and path.endswith(STREAMS):
            return OF_A_STREAM
        moved = any(not one.appends and one.position != size for one in handles)
        return IN_PLACE if moved or path in self._in_place else None


_REMOVES = {"os.remove": 1, "shutil.rmtree": 1, "os.rename": 2}
"""Audit events after which a name is gone, and how many paths each tells; after them
come descriptors of the directories that they start from."""


def _let_it(_file: KnownFile, _stays: bool) -> None:  # noqa: FBT001  # see there
    """Nobody minds."""


def _size(path: str) -> int | None:
    """None: it is not there."""
    try:
        return os.stat(path).st_size  # noqa: PTH116  # in each open
    except OSError:
        return None


def _directories(directive: Directive) -> tuple[str, ...]:
    """Beginnings of the paths of our own files."""
    kept = directive.kept_script and str(Path(directive.kept_script).parent)
    places = (
        directive.attempt_directory,
        directive.snapshot_directory,
        directive.memory_directory,
        kept,
    )
    return tuple(f"{os.path.realpath(place)}/" for place in places if place)
