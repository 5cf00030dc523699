"""One supervisor a job: a file lock that the kernel gives back, whatever happens."""

import contextlib
import fcntl
import os
import stat
import struct
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Lock:
    """A held lock; it ends with ``release`` or with the process."""

    descriptor: int

    def release(self) -> None:
        """Let go."""
        os.close(self.descriptor)


def acquire(path: Path, *, supervises: bool = True) -> Lock | None:
    """Lock ``path``; None: another process holds it. ``supervises``: who locks it looks
    after the job, so that ``holder`` names it. Raises OSError, also for a link."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    os.ftruncate(descriptor, 0)
    if supervises:
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return Lock(descriptor)


def holder(path: Path) -> int | None:
    """The pid of who locked ``path`` last to look after the job; None: unknown."""
    try:
        with _opened(path) as descriptor:
            return int(os.read(descriptor, _PID_BYTES))
    except (OSError, ValueError):
        return None


_PID_BYTES = 32
"""More than any pid has."""


@contextlib.contextmanager
def _opened(path: Path) -> Generator[int]:
    """To be read: no link, which its owner may have led to somebody else's lock, and no
    pipe, which would keep who opens it. Raises OSError."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            message = f"{path} is no regular file"
            raise OSError(message)
        yield descriptor
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock now; a link to a lock is none."""
    try:
        with _opened(path) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def holds(pid: int, path: Path) -> bool:
    """Whether process ``pid`` holds the lock, by the kernel's word: what stands in the file
    is a hint that its owner may have written. Raises PermissionError where the process is
    another user's."""
    try:
        wanted = path.lstat()
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if _is_same(link, wanted) and _is_locking(pid, link.name):
                return True
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended
    return False


def _is_same(link: Path, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(link.stat(), wanted)
    except OSError:
        return False  # closed meanwhile, or a socket that cannot be looked at


def _is_locking(pid: int, descriptor: str) -> bool:
    """``lock:	1: FLOCK  ADVISORY  WRITE 4711 …``, of proc(5)."""
    told = Path(f"/proc/{pid}/fdinfo/{descriptor}").read_text(encoding="ascii")
    locks = [line.split() for line in told.splitlines() if line.startswith("lock:")]
    return any({"FLOCK", "WRITE"} <= set(words) for words in locks)


_FLOCK = struct.Struct("@hhqqi4x")
"""``struct flock`` of 64-bit Linux: type, whence, start, length, pid."""


def is_record_locked(path: Path) -> bool:
    """Whether another process holds a record lock on ``path``. It is only asked for:
    taking it, for however short a time, would refuse it to who wants it just then."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = fcntl.fcntl(descriptor, fcntl.F_GETLK, wanted)
    finally:
        os.close(descriptor)
    return bool(_FLOCK.unpack(found)[0] != fcntl.F_UNLCK)
