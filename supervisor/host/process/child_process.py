"""Starting and watching processes. The only module that starts any.

By pidfd (pidfd_open(2)), where psutil's ``send_signal`` looks first who has the pid, and
sends after that.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen  # noqa: TID251  # this is the one module
from typing import Self

from typing_extensions import override

from supervisor.host.process.piped_child import wait_for


@dataclass(slots=True)
class Process:
    """A process of this machine; ``descriptor`` becomes readable when it has ended."""

    pid: int
    descriptor: int

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
class Neighbour(Process):
    """A process that somebody else started."""

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has ``pid`` now. Raises ProcessLookupError."""
        return cls(pid, os.pidfd_open(pid))


@dataclass(slots=True)
class Child(Process):
    """A child of ours."""

    _process: Popen[bytes]

    @override
    def ended(self) -> bool:
        """Whether it has ended; if so, it is reaped."""
        return self._process.poll() is not None


class TimeUpError(Exception):
    """A command took longer than it may, and was ended."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended, and what it said."""

    code: int
    output: str
    errors: str


def run_to_end(command: Sequence[str], *, seconds: float | None = None) -> Done:
    """Run ``command`` and wait for its end, ``seconds`` at most.

    Raises:
        OSError: nothing was started.
        TimeUpError: it did not end in time, and was killed.
    """
    try:
        done = subprocess.run(  # noqa: S603  # the command is ours, no shell
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeUpError from error
    output, errors = (
        part.decode(errors="replace") for part in (done.stdout, done.stderr)
    )
    return Done(done.returncode, output, errors)


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
    complaints: Path | None = None,
) -> Child:
    """Start ``command`` in a session of its own, so that Ctrl-C reaches only us.

    Its standard error goes to ``complaints``; None: where ours goes.

    Raises:
        OSError: nothing was started.
    """
    ours = contextlib.nullcontext()
    with ours if complaints is None else complaints.open("ab") as errors:
        process = Popen(  # noqa: S603  # the command is ours, no shell
            command,
            env=dict(environment),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
    return Child(process.pid, os.pidfd_open(process.pid), process)
