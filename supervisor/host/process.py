"""Starting and watching processes. The only module that starts any."""

import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen  # noqa: TID251  # this is the one module


@dataclass(slots=True)
class Child:
    """A child of ours; ``descriptor`` becomes readable when it has ended."""

    pid: int
    descriptor: int
    _process: Popen[bytes]

    def send(self, number: signal.Signals) -> bool:
        """Signal exactly this process; False: it is gone. Never another one's pid."""
        try:
            signal.pidfd_send_signal(self.descriptor, number)
        except ProcessLookupError:
            return False
        return True

    def ended(self) -> bool:
        """Whether it has ended (and is reaped)."""
        return self._process.poll() is not None

    def wait(self, *, timeout_seconds: float) -> bool:
        """Wait for its end; False: it still runs."""
        ready, _, _ = select.select([self.descriptor], [], [], timeout_seconds)
        return bool(ready) and self.ended()

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.descriptor)


def run_to_end(command: Sequence[str]) -> tuple[int, str]:
    """Run ``command`` and wait: its exit code and what it said on standard error.

    Raises:
        OSError: nothing was started.
    """
    done = subprocess.run(  # noqa: S603  # the command is ours, no shell
        command, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stderr.decode(errors="replace")


def start(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    directory: Path,
) -> Child:
    """Start ``command`` in a session of its own, so that Ctrl-C reaches only us.

    Raises:
        OSError: nothing was started.
    """
    process = Popen(  # noqa: S603  # the command is ours, no shell
        command,
        env=dict(environment),
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    return Child(process.pid, os.pidfd_open(process.pid), process)
