"""Child processes, started and watched. The only module that starts any.

By pidfd (pidfd_open(2)), where psutil's ``send_signal`` looks first who has the pid, and
sends after that.
"""

import contextlib
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess, Popen  # noqa: TID251  # this is the one module

from typing_extensions import override

READ_BYTES = 65536
"""At a time."""

_unreaped: list[Popen[bytes]] = []
"""Children that nobody watches any more, and that had not ended then."""


def _reap() -> None:
    """Those of them that have ended since: they would be zombies."""
    for one in list(_unreaped):
        if one.poll() is not None:
            with contextlib.suppress(ValueError):  # another thread was faster
                _unreaped.remove(one)


def _let_go(process: Popen[bytes]) -> None:
    """Nobody watches it any more: it is reaped with the next that is started."""
    if process.poll() is None:
        _unreaped.append(process)


def wait_for(descriptors: Sequence[int], *, seconds: float) -> set[int]:
    """Those of ``descriptors`` that have something to read, after so long at most."""
    poll = select.poll()  # ``select`` knows none above 1,023; a daemon may have more
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(1000 * seconds)}


@dataclass(slots=True)
class Process:
    """A process of this machine; ``descriptor`` becomes readable when it has ended."""

    pid: int
    descriptor: int

    @classmethod
    def of(cls, pid: int) -> "Process":
        """The process that has ``pid`` now. Raises ProcessLookupError."""
        return Process(pid, os.pidfd_open(pid))

    def send(self, number: signal.Signals) -> bool:
        """Signal exactly this process; False: it is gone. Never another one's pid.

        Raises:
            PermissionError: it belongs to somebody else.
        """
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            return False
        return True

    def ended(self) -> bool:
        """Whether it has ended."""
        return bool(wait_for([self.descriptor], seconds=0.0))

    def close(self) -> None:
        """Give the descriptor back; a second time does nothing."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


@dataclass(slots=True)
class Child(Process):
    """A child of ours."""

    _process: Popen[bytes]

    @property
    def status(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None: not yet reaped."""
        return self._process.returncode

    @override
    def ended(self) -> bool:
        """Whether it has ended; if so, it is reaped."""
        return self._process.poll() is not None

    @override
    def close(self) -> None:
        if self.descriptor >= 0:
            _let_go(self._process)
        Process.close(self)  # ``super()`` knows the class as it was without slots


class TimeUpError(Exception):
    """A command took longer than it may, and was ended."""


def run_to_end(
    command: Sequence[str], *, seconds: float | None = None
) -> CompletedProcess[str]:
    """Run ``command`` and wait for its end, ``seconds`` at most.

    Raises:
        OSError: nothing was started.
        TimeUpError: it did not end in time, and was killed.
    """
    try:
        return subprocess.run(  # noqa: S603  # the command is ours, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeUpError from error


def run_in_session(command: Sequence[str], *, seconds: float, text: str) -> int:
    """Run ``command`` in a session of its own, with ``text`` to read: its exit code. What
    it prints goes nowhere, so that who it leaves behind keeps nobody waiting.

    Raises:
        OSError: nothing was started.
        TimeUpError: it did not end in time, and was killed with all of its session that
            is still in its process group.
    """
    with tempfile.TemporaryFile() as given:
        given.write(text.encode())
        given.seek(0)
        process = Popen(  # noqa: S603  # the command is the user's own, no shell
            command,
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # ours until it is reaped
        process.wait()
        raise TimeUpError from error


@contextlib.contextmanager
def following(command: Sequence[str], *, complaints: Path) -> Generator[Iterator[str]]:
    """The lines that ``command`` prints, as they come; it is waited for at the end.

    It is of our session, so that Ctrl-C reaches it, too; where the block raises it is
    asked to end (SIGTERM) before. Its standard error goes to ``complaints``.
    """
    with (
        complaints.open("wb") as errors,
        Popen(  # noqa: S603  # the command is ours, no shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            encoding="utf-8",
        ) as process,
    ):
        try:
            yield iter(process.stdout or ())
        except BaseException:
            process.terminate()
            process.wait()
            raise


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    complaints: Path | int | None = None,
    stdin: int = subprocess.DEVNULL,
    descriptors: Sequence[int] = (),
) -> Child:
    """Start ``command`` in a session of its own, so that Ctrl-C reaches only us.

    Its standard error goes to ``complaints``, a file or a descriptor; None: where ours
    goes. ``stdin``: a descriptor; else it has nothing to read. ``descriptors``: it has
    these, too, by the same numbers.

    Raises:
        OSError: nothing was started.
    """
    _reap()
    given = contextlib.nullcontext(complaints if isinstance(complaints, int) else None)
    with complaints.open("ab") if isinstance(complaints, Path) else given as errors:
        process = Popen(  # noqa: S603  # the command is ours, no shell
            command,
            env=dict(environment),
            cwd=directory,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
            pass_fds=descriptors,
        )
    return Child(process.pid, os.pidfd_open(process.pid), process)


class Piped:
    """A process in a session of its own, from its start to ``close``."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it; its complaints go nowhere. Raises OSError."""
        _reap()
        self._process = Popen(  # noqa: S603  # the command is ours, no shell
            command,
            env=None if environment is None else dict(environment),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdout is not None  # noqa: S101  # it is a pipe
        self._stdout = self._process.stdout
        self.output = self._stdout.fileno()
        os.set_blocking(self.output, False)
        self.exit = os.pidfd_open(self._process.pid)

    def read(self) -> tuple[bytes, bool]:
        """What is there to read, and whether that was the last of it."""
        parts: list[bytes] = []
        try:
            while chunk := os.read(self.output, READ_BYTES):
                parts.append(chunk)
        except BlockingIOError:
            return b"".join(parts), False
        return b"".join(parts), True

    def kill(self) -> None:
        """SIGKILL to exactly this process."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.exit, signal.SIGKILL)

    def status(self) -> int | None:
        """Its exit code, or minus the signal that ended it; None: it is still there."""
        return self._process.poll()

    def close(self, *, wait_seconds: float) -> bool:
        """Kill it and give everything back; False: it would not end in time."""
        self.kill()
        wait_for([self.exit], seconds=wait_seconds)
        ended = self.status() is not None
        _let_go(self._process)
        self._stdout.close()
        os.close(self.exit)
        return ended
