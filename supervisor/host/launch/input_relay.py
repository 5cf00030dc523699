"""Standard input of a run in the foreground: each attempt gets it from its beginning.

Training has a session of its own, so it cannot read from the terminal itself; and what one
attempt has read the next must find again, or a restart would not end as the run began. So
what is read is kept (in this process: perhaps it is a password), and given to each attempt
through a pipe. It is read only when training waits for it: what is typed ahead, and what is
in the pipe of ``while read …``, stays there for whoever reads next, as without us. A regular
file is given as it is, and put back to where it was.
"""

import os
import select
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from supervisor.core.text.log_level import LogLevel, Notifier

READS = {"x86_64": {"0", "19"}, "aarch64": {"63", "65"}}
"""The numbers of read(2) and readv(2), by machine."""
PART_BYTES = 64 * 1024
MOST_BYTES = 16 << 20
"""So much of it is kept for the next attempt."""
LOOK_SECONDS = 0.1
"""How often it is seen whether training waits."""
MOST_PROCESSES = 64
GONE = (
    "of standard input this attempt gets only what the one before it left: what that one"
    " read is more than is kept (16 MiB)"
)


class InputRelay:
    """Gives attempts what comes on ``source``; from its creation until ``close``."""

    def __init__(self, say: Notifier, source: int = 0) -> None:
        self._say, self._source = say, source
        self.reader: int | None = None
        """The training process, once it is known."""
        self._kept = bytearray()
        self._sent = 0
        self._complete, self._ended = True, False
        self._sink: int | None = None
        self._lock, self._over = threading.Lock(), threading.Event()
        self._begin = _offset(source)
        self._thread = threading.Thread(target=self._work, name="input", daemon=True)
        if self._begin is None:
            self._thread.start()

    def attach(self) -> int:
        """What the next attempt gets as its standard input: to be closed here once it has
        it. Raises OSError."""
        if self._begin is not None:
            os.lseek(self._source, self._begin, os.SEEK_SET)
            return os.dup(self._source)
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        with self._lock:
            self._close_sink()
            self.reader, self._sink = None, writer
            if not self._complete:
                self._say(GONE, level=LogLevel.WARNING)
            else:
                self._sent = 0
        return reader

    def close(self) -> None:
        """The run is over."""
        self._over.set()
        with self._lock:
            self._close_sink()

    def _close_sink(self) -> None:
        if self._sink is not None:
            os.close(self._sink)
            self._sink = None

    def _work(self) -> None:
        # In the background of a shell a read fails then, instead of stopping us.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTIN})
        while not self._over.wait(LOOK_SECONDS):
            with self._lock:
                waits = self._sink is not None and self._is_waited_for()
                if waits and self._sent < len(self._kept):
                    self._send()
                elif waits and self._ended:
                    self._close_sink()
                elif waits and self._is_there():
                    self._take()

    def _is_waited_for(self) -> bool:
        """Whether training waits for more; where that cannot be seen, it does."""
        if self.reader is None:
            return False
        try:
            return any(map(_reads_standard_input, _tree(self.reader)))
        except PermissionError:
            return True

    def _is_there(self) -> bool:
        """Whether a read would come back at once, with what is ours to have."""
        with suppress(OSError):
            if os.tcgetpgrp(self._source) != os.getpgrp():
                return False
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        return bool(poll.poll(0))

    def _take(self) -> None:
        try:
            content = os.read(self._source, PART_BYTES)
        except OSError:
            content = b""
        self._ended = not content
        if len(self._kept) + len(content) > MOST_BYTES:
            del self._kept[: self._sent]
            self._sent, self._complete = 0, False
        self._kept += content
        if content:
            self._send()
        else:
            self._close_sink()

    def _send(self) -> None:
        """Into the pipe, as far as there is room."""
        assert self._sink is not None  # noqa: S101  # somebody waits
        try:
            part = self._kept[self._sent : self._sent + PART_BYTES]
            self._sent += os.write(self._sink, part)
        except BlockingIOError:
            return
        except OSError:  # it has closed its end
            self._close_sink()


def relay_of(say: Notifier, source: int = 0) -> InputRelay | None:
    """For ``source``; None: nothing comes there (``/dev/null``)."""
    try:
        found = os.fstat(source)
    except OSError:
        return None
    nothing = stat.S_ISCHR(found.st_mode) and not os.isatty(source)
    return None if nothing else InputRelay(say, source)


def _offset(source: int) -> int | None:
    """Where a regular file is read from; None: it is none."""
    try:
        if stat.S_ISREG(os.fstat(source).st_mode):
            return os.lseek(source, 0, os.SEEK_CUR)
    except OSError:
        pass
    return None


def _tree(pid: int) -> Iterator[int]:
    """``pid`` and what it started, as far as that is still there."""
    todo, seen = [pid], 0
    while todo and seen < MOST_PROCESSES:
        yield (one := todo.pop())
        seen += 1
        for task in _tasks(one):
            with suppress(OSError):
                todo += map(int, (task / "children").read_text().split())


def _tasks(pid: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _reads_standard_input(pid: int) -> bool:
    """Whether a thread of ``pid`` is in read(2) of descriptor 0: proc_pid_syscall(5).

    Raises PermissionError: that is not ours to see.
    """
    numbers = READS.get(os.uname().machine)
    if numbers is None:
        raise PermissionError
    for task in _tasks(pid):
        try:
            words = (task / "syscall").read_text().split()
        except PermissionError:
            raise
        except OSError:
            continue
        if words[0] in numbers and words[1:2] == ["0x0"]:
            return True
    return False
