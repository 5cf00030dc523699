"""A child whose output is read bit by bit, by somebody who never waits for it."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from subprocess import Popen  # noqa: TID251  # beside host.process: one with a pipe

READ_BYTES = 65536


class Piped:
    """A process in a session of its own, from its start to ``close``."""

    def __init__(
        self, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it; its complaints go nowhere. Raises OSError."""
        self.output, writer = os.pipe2(os.O_CLOEXEC)
        try:
            self._process = Popen(  # noqa: S603  # the command is ours, no shell
                command,
                env=None if environment is None else dict(environment),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            os.close(self.output)
            raise
        finally:
            os.close(writer)
        os.set_blocking(self.output, False)
        self.pid = self._process.pid
        self.exit = os.pidfd_open(self.pid)

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
        os.close(self.output)
        os.close(self.exit)
        return ended


def wait_for(descriptors: Sequence[int], *, seconds: float) -> set[int]:
    """Those of ``descriptors`` that have something to read, after so long at most."""
    poll = select.poll()  # ``select`` knows none above 1,023; a daemon may have more
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(1000 * seconds)}
