"""The script's files, put back to where they were: see ``written_files``.

While the script runs again, up to where the state is given back, what its files held
lies aside: in a hidden directory, where no ``rmtree`` of the script's output and no
``glob`` meets it. The journal tells of it first, so that a kill in between loses nothing.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supervisor.wire.directive import Directive
from trainers.process import open_handles
from trainers.process.file_journal import Entry, KnownFile
from trainers.process.file_tail import FileEnd
from trainers.process.open_handles import Handle
from trainers.process.written_files import TOO_MANY, WrittenFiles

CUT = "{path} was cut back by {size} bytes to where it was at the snapshot: they are in {kept}"
BEGUN_LATER = "{path} was begun after the snapshot: what it held is in {kept}"
LEFT = (
    "{path} cannot be put back to where it was at the snapshot: {because}. It is left as it"
    " is, and what is written again may be there twice"
)
NOT_SET_ASIDE = "what is appended to {path} may be there twice: {because}"


class FileRewind:
    """What the attempt does about them."""

    def __init__(self, directive: Directive, tell: Callable[[str], None]) -> None:
        self._written = WrittenFiles(directive)
        self._tell = tell
        self._attempt = directive.attempt
        self._hidden = f".trainwarden-{directive.run_id}"
        self._is_on = bool(self._written.roots)
        self._begun = self._trained = self._told_too_many = False
        self._left: set[str] = set()
        """Files that are none of our business any more: that was told."""
        self._rest: dict[str, int] = {}
        """Of files that are as they were at the snapshot: the first byte, of those set
        aside, that came after."""

    # --- the boundaries ----------------------------------------------------------------

    def begin(self) -> None:
        """Before the script: its files are where they were when the run began."""
        if not self._is_on:
            return
        before = self._written.before
        if before.trained:
            with self._written.unheard():
                self._hide_all(list(before.files.values()))
            self._written.before_losing = self._keep
        self._written.listen()
        self._begun = True

    def followed(self) -> None:
        """A fit is followed: a restart does it again from a snapshot."""
        if self._begun and not self._trained:
            self._trained = True
            with contextlib.suppress(OSError):
                self._written.journal.add(Entry.TRAINED)

    def ends(self) -> dict[str, Any]:
        """For a snapshot: where each file ends now."""
        if not self._begun:
            return {}
        self._settle()
        if self._written.too_many and not self._told_too_many:
            self._told_too_many = True
            self._tell(TOO_MANY)
        return self._written.ends()

    def put_back(self, ends: dict[str, Any] | None, *, last: bool) -> None:
        """Each file as it was at the snapshot that is given back. ``last``: no other
        is given back after it."""
        if not self._begun or ends is None:
            return
        with self._written.unheard():
            handles = open_handles.of(ends)
            self._written.buffers.flush(handles, self._written.opened)
            for path, end in ends.items():
                mine = [handle for handle in handles if handle.path == path]
                self._put(path, FileEnd.from_json(end), mine, last=last)
        if last:
            self._settle()

    def over(self, *, well: bool) -> None:
        """The script has ended. Not ``well``: what is still aside goes back whole."""
        if not self._begun:
            return
        if well:
            self._settle()
            return
        for file in self._aside():
            with self._written.unheard(), contextlib.suppress(OSError):
                self._put_whole(file)
        self._settle()

    # --- before the script ---------------------------------------------------------------

    def _hide_all(self, files: list[KnownFile]) -> None:
        appended = [file for file in files if file.appends and file.base is not None]
        others = held_by_others({file.path for file in appended})
        for file in files:
            if file.side is not None and not Path(file.side).exists():
                file.side = None
        for file in appended:
            because = others.get(file.path) or _why_not(file)
            try:
                if because is None:
                    self._hide(file)
            except OSError as error:
                because = f"it could not be set aside: {error}"
            if because is not None:
                self._left.add(file.path)
                self._tell(NOT_SET_ASIDE.format(path=file.path, because=because))

    def _hide(self, file: KnownFile) -> None:
        path = Path(file.path)
        if file.side is None and path.exists():
            self._set_aside(file, stays=file.existed)
        if not path.exists():
            return
        # Else an attempt that did not come to its snapshot wrote it: it is done again.
        if file.existed:
            os.truncate(path, file.beginning)
        else:
            path.unlink()

    def _set_aside(self, file: KnownFile, *, stays: bool) -> None:
        """What it holds; the file itself goes, or ``stays`` as it is."""
        path = Path(file.path)
        root = next(r for r in self._written.roots if file.path.startswith(f"{r}/"))
        directory = Path(root) / self._hidden
        directory.mkdir(mode=0o700, exist_ok=True)
        side = _free(directory / f"{path.name}.{self._attempt}")
        if stays:
            _copy(path, file.beginning, side, 0, path.stat().st_size - file.beginning)
            shutil.copystat(path, side)
        file.side = str(side)
        self._written.journal.add(
            Entry.ASIDE, path=file.path, side=file.side, durable=True
        )
        if not stays:
            path.rename(side)

    def _keep(self, file: KnownFile, stays: bool) -> None:  # noqa: FBT001  # from the hook
        """The script, running again, is about to empty, replace or remove it."""
        path = Path(file.path)
        untouched = file.side is None and file.path not in self._left and not file.base
        if untouched and path.exists() and _why_not(file) is None:
            self._set_aside(file, stays=False)
            if not stays:
                path.touch()  # to be removed

    # --- at the snapshot -----------------------------------------------------------------

    def _put(
        self, path: str, end: FileEnd, handles: list[Handle], *, last: bool
    ) -> None:
        file = self._known(path, end)
        try:
            because = end.why_not or self._put_as_it_was(file, end)
            if because is None:
                self._written.buffers.to_end(handles, self._written.opened)
        except FileNotFoundError:
            because = "it is gone"
        except OSError as error:
            because = str(error)
        if because is not None and last and path not in self._left:
            with contextlib.suppress(OSError):
                self._leave(file, end)
            self._tell(LEFT.format(path=path, because=because))

    def _known(self, path: str, end: FileEnd) -> KnownFile:
        """The journal's last line may have been lost with the machine."""
        made = KnownFile(path=path, base=end.beginning, existed=True)
        return self._written.before.files.setdefault(path, made)

    def _put_as_it_was(self, file: KnownFile, end: FileEnd) -> str | None:
        """None: it is. Raises OSError."""
        if file.path in self._left:
            return "told"
        path, side = Path(file.path), file.side
        holder = path if side is None else Path(side)
        beginning = 0 if side is None else file.beginning
        because = end.difference(holder, beginning=beginning)
        if because is not None and end.text is None:
            return because
        if file.side is None and (because or path.stat().st_size > end.size):
            self._set_aside(file, stays=True)
        if because is not None and end.text is not None:
            self._rest[file.path] = 0
            _write(path, end.text.encode("latin-1"))
        elif file.side is not None:
            self._rest[file.path] = end.size - file.beginning
            _restore(file, end.size)
        return None

    def _leave(self, file: KnownFile, end: FileEnd) -> None:
        """As the last attempt left it, if that is aside and the script appends to it."""
        if file.side is not None and (end.open or end.appends):
            self._put_whole(file)

    def _put_whole(self, file: KnownFile) -> None:
        assert file.side is not None  # noqa: S101  # the callers looked
        size = Path(file.side).stat().st_size
        _restore(file, size + file.beginning)
        self._rest[file.path] = size

    # --- afterwards ----------------------------------------------------------------------

    def _aside(self) -> list[KnownFile]:
        files = self._written.before.files.values()
        return [file for file in files if file.side is not None]

    def _settle(self) -> None:
        """The files are the truth again: what is left aside goes beside them."""
        aside = self._aside()
        self._written.before_losing = lambda _file, _stays: None
        if not aside:
            return
        with self._written.unheard(), contextlib.suppress(OSError):
            self._written.journal.add(Entry.SETTLED, durable=True)
            for file in aside:
                self._settle_one(file)
            for root in self._written.roots:
                with contextlib.suppress(OSError):
                    (Path(root) / self._hidden).rmdir()

    def _settle_one(self, file: KnownFile) -> None:
        side = Path(file.side or "")
        file.back()
        start = self._rest.pop(file.path, None)
        size = side.stat().st_size - (start or 0)
        if not size or (start is None and not file.appends):
            side.unlink()  # nothing came after, or the script itself did away with it
            return
        kept = _free(Path(f"{file.path}.cut-attempt-{self._attempt - 1}"))
        if start:
            _copy(side, start, kept, 0, size)
            side.unlink()
        else:
            side.rename(kept)
        told = BEGUN_LATER if start is None else CUT
        self._tell(told.format(path=file.path, size=size, kept=kept.name))


def _why_not(file: KnownFile) -> str | None:
    """Why a file that is there is not to be touched; None: it may be, or it is gone."""
    try:
        found = os.lstat(file.path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode) or os.path.realpath(file.path) != file.path:
        return "it is a link, or behind one"
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if file.inode not in (None, found.st_ino) and file.side is None:
        return "another file has taken its place"
    if found.st_size < file.beginning:
        return "it is shorter than when the run began"
    return None


def held_by_others(paths: set[str]) -> dict[str, str]:
    """Which of ``paths`` another process has open to write, in words."""
    ours = str(os.getpid())
    found: dict[str, str] = {}
    for process in Path("/proc").iterdir() if paths else ():
        if process.name.isdecimal() and process.name != ours:
            for handle in open_handles.of(paths, process=process):
                found[handle.path] = f"process {process.name} has it open to write"
    return found


def _free(path: Path) -> Path:
    """``path``, or the next name that nobody has."""
    number, free = 1, path
    while os.path.lexists(free):
        number += 1
        free = path.with_name(f"{path.name}-{number}")
    return free


def _restore(file: KnownFile, size: int) -> None:
    """The first ``size`` bytes, of which those from ``beginning`` on are aside."""
    side, path = Path(file.side or ""), Path(file.path)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        shutil.copymode(side, path)
    _copy(side, 0, path, file.beginning, size - file.beginning)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _copy(source: Path, start: int, to: Path, at: int, length: int) -> None:
    """Bytes of ``source`` to ``to``, which ends with them. On disk then."""
    descriptor = os.open(to, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(descriptor, at)
        os.lseek(descriptor, at, os.SEEK_SET)
        with source.open("rb", buffering=0) as file:
            while length > 0:
                sent = os.sendfile(descriptor, file.fileno(), start, length)
                if not sent:
                    break
                start, length = start + sent, length - sent
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
