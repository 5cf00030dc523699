"""Files that the script writes itself: noticed when it opens them, and where they end
noted in each snapshot.

They are noticed by Python's audit event ``open``, right before anything is opened: names
and flags, no function of the script's is another. What is opened past Python (HDF5, event
files of TensorBoard, native writers) is not noticed.
"""

import contextlib
import os
import re
import stat
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from supervisor.wire.messages.directive import Directive
from trainers.files import file_end, file_journal, open_handles
from trainers.files.file_end import SMALL_BYTES, FileEnd, tail_of
from trainers.files.file_journal import Entry, FileJournal, KnownFile
from trainers.files.open_handles import Buffers, Handle
from trainers.files.originals import Originals

MOST_FILES = 1000
MOST_REWRITTEN = 300
"""Of files that are not appended to; a data set of many files is none to look after."""
MOST_TEXT_BYTES = 256 * 1024
"""All small files in one snapshot together."""
STREAMS = (".gz", ".bz2", ".xz", ".zst", ".zip", ".h5", ".hdf5")
"""What is open and of these kinds goes on from a state that nobody can read."""
OF_A_STREAM = "it was open, and what it holds cannot be written on from the middle"
IN_PLACE = "it is changed in place"
SHARED = "something else writes to it too"
WRITES = os.O_WRONLY | os.O_RDWR
_HIDDEN = re.compile(r"/(\.|__pycache__/)|\.lock$")
_OF_TRACKER = re.compile(r"/(wandb/((offline-)?run-|debug)|mlruns/)")
"""What experiment trackers keep for themselves (``process.trackers``): their runs go on."""
_HERE = None, -1
"""What a path is from, where it is from the working directory."""
_SYSTEM = ("/dev/", "/proc/", "/sys/", "/run/")


@dataclass(slots=True)
class Written:
    """A file, as far as this attempt is concerned."""

    path: str
    appends: bool = False
    in_place: bool = False
    opened: int = 0
    """How often this attempt did."""
    told: int = -1
    """After which snapshot the journal had last a line of it."""
    calm: tuple[int, int] | None = None
    """Its size and time since nobody here has it open: others are others' doing."""
    end: FileEnd | None = None
    as_of: tuple[int, int, int] | None = None
    """Size, time and count of openings that ``end`` is about."""


class WrittenFiles:
    """Those of this attempt and of earlier ones."""

    def __init__(self, directive: Directive) -> None:
        attempt = Path(directive.attempt_directory)
        self.roots = [os.path.realpath(root) for root in directive.rewind]
        self.attempt = directive.attempt
        self.before = file_journal.read(attempt.parent, before=directive.attempt)
        self.files = {path: Written(path) for path in self.before.files}
        """By their real path."""
        self.journal = FileJournal(attempt, directive.attempt)
        self.buffers = Buffers()
        self.originals = Originals(attempt)
        self.never: set[str] = set()
        """What the script writes and nobody puts back, not yet told."""
        self.before_losing: Callable[[KnownFile, str | None], None] = _let_it
        """Called before the script does away with what a file of an earlier attempt
        holds; with what is removed, None where it is only emptied or replaced."""
        self.removed: set[str] = set()
        """What the script has removed of those."""
        self.too_many = False
        self.snapshots = 0
        self.looping = False
        """Whether a loop of the script's own is followed."""
        self.at_top = set[str]()
        """Files of earlier attempts that are as they were at the top of the script."""
        self.read_in_loop: str | None = None
        """The first file that the loop of an earlier attempt wrote and the script reads
        before its state is given back."""
        self.lost_original: str | None = None
        """A file that was there before the loop, and that a restart cannot put back to
        that."""
        self.read_back: str | None = None
        """The first file that an earlier attempt wrote in training and the script reads
        before its state is given back."""
        self.telling = set[str]()
        """Names of such files, while that is so."""
        self._ours = _directories(directive)
        self._process = os.getpid()
        self._busy = threading.local()

    # --- noticing --------------------------------------------------------------------

    def listen(self) -> None:
        """From here on, until the process ends: a hook cannot be taken back."""

        def hook(event: str, details: tuple[Any, ...]) -> None:
            if event in _EVENTS:
                self._audit(event, details)

        vars(hook)["__cantrace__"] = False  # else looked up in vain at each event
        sys.addaudithook(hook)

    def rest(self) -> None:
        """Training goes on: what the script reads and removes is its own business."""
        self.before_losing, self.telling = _let_it, set()

    @contextlib.contextmanager
    def unheard(self) -> Iterator[None]:
        """What this thread opens in here is none of the script's."""
        self._busy.on = True
        try:
            yield
        finally:
            self._busy.on = False

    def _audit(self, event: str, details: tuple[Any, ...]) -> None:
        if getattr(self._busy, "on", False) or os.getpid() != self._process:
            return
        # An error in here would be one of the script's own call.
        with self.unheard(), contextlib.suppress(Exception):
            _EVENTS[event](self, *details)

    def opens(self, name: Any, _mode: object, flags: int) -> None:
        """Something is about to be opened."""
        if isinstance(name, int):
            return
        if not flags & WRITES:
            self._reads(name)
            return
        path = self._real(name)
        if self.is_watched(path):
            self._opens(path, flags)
        elif flags & os.O_APPEND:
            self._outside(path)

    def _opens(self, path: str, flags: int) -> None:
        stamp = stamp_of(path)
        size, appends = stamp and stamp[0], bool(flags & os.O_APPEND)
        if flags & os.O_TRUNC and size and path in self.before.files:
            self.before_losing(self.before.files[path], None)
        emptied = flags & os.O_TRUNC and size and path not in self.before.files
        original = self.originals.keep(path) if self.looping and emptied else None
        file = self.notice(path, stamp, appends=appends)
        if original is not None:
            self.has_original(path, original)
        if file is not None and size:
            file.in_place |= not flags & (os.O_TRUNC | os.O_APPEND | os.O_EXCL)

    def _reads(self, name: Any) -> None:
        """What training has written, before anything of it is given back?"""
        if os.path.basename(name) not in self.telling:  # noqa: PTH119  # in each import
            return
        path = self._real(name)
        known = self.before.files.get(path)
        if known is None or not known.while_training or path in self.at_top:
            return
        self.read_back = self.read_back or path
        if known.in_loop:
            self.read_in_loop = self.read_in_loop or path

    def removes(self, path: Any, *directory: int | None) -> None:
        """``path``, with all below it, is about to go."""
        if all(one in _HERE for one in directory):
            real = self._real(path)
            for file in self._below(real):
                self.before_losing(file, real)
                self.removed.add(file.path)

    def _below(self, path: str) -> list[KnownFile]:
        files = list(self.before.files.values())
        found = [f for f in files if f.path == path or f.path.startswith(f"{path}/")]
        for file in found:
            self.files[file.path].calm = None  # what changes now is the script's doing
        return found

    def renames(self, path: Any, onto: Any, *directories: int) -> None:
        """``path`` is about to take the place of ``onto``."""
        if any(one not in _HERE for one in directories):
            return
        source, target = self._real(path), self._real(onto)
        for file in self._below(target):
            self.before_losing(file, None)
        if source in self.files and self.is_watched(target):
            self.notice(target, stamp_of(target), appends=False)

    def connects(self, database: Any) -> None:
        """SQLite writes past Python."""
        path = self._real(database)
        if os.path.basename(path) != ":memory:":  # noqa: PTH119  # of any kind
            self._outside(path)

    def _outside(self, path: str) -> None:
        temporary = f"{os.path.realpath(tempfile.gettempdir())}/"
        below = any(path.startswith(f"{root}/") for root in self.roots)
        passing = path.startswith((*_SYSTEM, *self._ours))
        if (
            passing
            or _HIDDEN.search(path)
            or _OF_TRACKER.search(path)
            or (path.startswith(temporary) and not below)
        ):
            return
        self._name(path)

    def _name(self, path: str) -> None:
        """It is never put back: told once a run."""
        if path not in self.before.named:
            self.before.named.add(path)
            self.never.add(path)
            self.journal.add(Entry.NAMED, path=path)

    def notice(
        self,
        path: str,
        stamp: tuple[int, int] | None,
        *,
        appends: bool,
        native: bool = False,
    ) -> Written | None:
        """The script writes to it; ``stamp``: as it was before. None: it is too much."""
        most = MOST_FILES if appends else MOST_REWRITTEN
        if path not in self.files and len(self.files) >= most:
            self.too_many = True
            return None
        file = self.files.setdefault(path, Written(path))
        size = stamp and stamp[0]
        if stamp is not None and file.calm not in (None, stamp):
            self.is_shared(path)
        if file.told < self.snapshots or appends > file.appends:
            self.journal.add(
                Entry.OPENED,
                serial=self.snapshots,
                path=path,
                size=size,
                appends=appends,
                native=native,
            )
            known = KnownFile(
                path=path,
                size=size,
                first_appends=appends,
                in_loop=self.looping,
                native=native,
            )
            self.before.files.setdefault(path, known)
        file.told, file.calm = self.snapshots, None
        file.opened += 1
        file.appends |= appends
        return file

    def has_original(self, path: str, kept: str | None) -> None:
        """What it held before the loop wrote to it is in ``kept``; None: it is lost."""
        known = self.before.files.get(path)
        if known is None:
            return
        known.original = kept
        if kept is not None:
            self.journal.add(Entry.ORIGINAL, path=path, side=kept)
        elif known.native:
            self.lost_original = path

    def is_shared(self, path: str) -> None:
        """Others write to it as well: it is left to them, for the rest of the run."""
        known = self.before.files.get(path)
        if known is not None and not known.shared:
            known.shared = True
            self.journal.add(Entry.SHARED, path=path)

    def _real(self, name: Any) -> str:
        return os.path.realpath(os.fsdecode(name))

    def is_watched(self, path: str) -> bool:
        """Below the roots, not hidden, nobody else's, and a regular file if it is there."""
        root = next((one for one in self.roots if path.startswith(f"{one}/")), None)
        if root is None or path.startswith(self._ours):
            return False
        below = path[len(root) :]
        if _HIDDEN.search(below) or _OF_TRACKER.search(below):
            return False
        try:
            return stat.S_ISREG(os.lstat(path).st_mode)
        except OSError:
            return True

    # --- at a snapshot -----------------------------------------------------------------

    def ends(self) -> dict[str, Any]:
        """Where each file ends now, buffers written out: JSON by path."""
        with self.unheard():
            handles = self.flushed()
            ends = {path: self._end(file, handles) for path, file in self._all()}
            self.snapshots += 1
        return self._json({path: end for path, end in ends.items() if end is not None})

    def _all(self) -> list[tuple[str, Written]]:
        return list(self.files.items())

    def flushed(self) -> dict[str, list[Handle]]:
        """The script's handles that write, by path, with nothing in their buffers."""
        opened = {path: file.opened for path, file in self._all()}
        handles = open_handles.of(opened)
        self.buffers.flush(handles, opened)
        found: dict[str, list[Handle]] = {}
        for handle in open_handles.moved(handles):
            found.setdefault(handle.path, []).append(handle)
        return found

    def _json(self, ends: dict[str, FileEnd]) -> dict[str, Any]:
        room, files = MOST_TEXT_BYTES, dict[str, Any]()
        for path, end in ends.items():
            files[path] = end.to_json()
            room -= len(end.text or "")
            if room < 0:
                files[path]["text"] = None
        return {"attempt": self.attempt, "serial": self.snapshots, "ends": files}

    def _end(self, file: Written, of: dict[str, list[Handle]]) -> FileEnd | None:
        """None: it is not there."""
        handles = of.get(file.path, [])
        try:
            found = os.lstat(file.path)
            if not stat.S_ISREG(found.st_mode):
                return None
            stamp = found.st_size, found.st_mtime_ns
            self._is_anothers_doing(file, handles, stamp)
            as_of = *stamp, file.opened
            if file.as_of != as_of or file.end is None or file.end.open or handles:
                file.end = self._look(file, handles, found.st_size)
                file.as_of = as_of
        except OSError:
            file.end, file.calm = None, None
            return None
        file.calm = None if handles else stamp
        return file.end

    def _is_anothers_doing(
        self, file: Written, handles: list[Handle], stamp: tuple[int, int]
    ) -> None:
        """Whether it grew since the snapshot before, and nobody here did that."""
        if file.calm not in (None, stamp):
            self.is_shared(file.path)
        if file.end is None or file.as_of is None or file.as_of[2] != file.opened:
            return  # it was opened here since
        size = stamp[0]
        reached = max((one.position for one in handles if one.appends), default=size)
        if file.end.size < size != reached:
            self.is_shared(file.path)

    def _look(self, file: Written, handles: list[Handle], size: int) -> FileEnd:
        path = Path(file.path)
        known = self.before.files[file.path]
        appends = file.appends or known.appends
        whole = not handles and not appends
        if handles and not appends and not known.held:
            known.held = True
            self.journal.add(Entry.HELD, path=file.path)
        small = whole and size <= SMALL_BYTES
        return FileEnd(
            size=size,
            tail=tail_of(path, size),
            open=bool(handles),
            appends=appends,
            text=file_end.read(path, size, size).decode("latin-1") if small else None,
            why_not=None if whole and small else self._why_not(file, handles, size),
        )

    def _why_not(self, file: Written, handles: list[Handle], size: int) -> str | None:
        moved = any(not one.appends and one.position != size for one in handles)
        if handles and file.path.endswith(STREAMS):
            because = OF_A_STREAM
        elif moved or file.in_place:
            because = IN_PLACE
        else:
            return None
        self._name(file.path)
        return because


_EVENTS: dict[str, Callable[..., None]] = {
    "open": WrittenFiles.opens,
    "os.remove": WrittenFiles.removes,
    "shutil.rmtree": WrittenFiles.removes,
    "os.rename": WrittenFiles.renames,
    "sqlite3.connect": WrittenFiles.connects,
}


def _let_it(_file: KnownFile, _removed: str | None) -> None:
    """Nobody minds."""


def stamp_of(path: str) -> tuple[int, int] | None:
    """Size and time of its last change; None: it is not there."""
    try:
        found = os.stat(path)  # noqa: PTH116  # in each open
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


def _directories(directive: Directive) -> tuple[str, ...]:
    """Beginnings of the paths of our own files."""
    kept = directive.kept_script and str(Path(directive.kept_script).parent)
    places = (
        directive.attempt_directory,
        directive.snapshot_directory,
        directive.memory_directory,
        directive.compilation_directory,
        kept,
    )
    return tuple(f"{os.path.realpath(place)}/" for place in places if place)
