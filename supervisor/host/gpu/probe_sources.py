"""Sources of a GPU probe's lines: a child, or the service that keeps one."""

import contextlib
import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from supervisor.core.gpu.probe_supervision import Ended, Limits
from supervisor.host.process.child_process import Piped

PROBE = "supervisor.host.gpu.probe_main"
READ_BYTES = 65536
READS = 64
"""At a time: whoever writes without an end must not keep us busy."""
DRIVER = Path("/sys/module/nvidia")
"""Is there while NVIDIA's kernel module is loaded (sysfs, Documentation/ABI)."""
LINK_LIMITS = Limits(first_seconds=45.0, wait_most_seconds=2.0, absent_seconds=2.0)
"""Asking a socket costs nothing, so it is asked often. The service itself has 30 s for
its first sample, and 5 s to kill."""


class NoSourceError(Exception):
    """There is nothing to ask on this machine; the message says why."""


class ChildSource:
    """A probe that is a child of ours."""

    def __init__(
        self, *, interval_seconds: float, environment: Mapping[str, str] | None
    ) -> None:
        """Start it, in ``environment``. Raises OSError."""
        command = [sys.executable, "-m", PROBE, str(interval_seconds)]
        self._child = Piped(command, environment=environment)

    @property
    def descriptors(self) -> tuple[int, ...]:
        """Its output, and its end."""
        return self._child.output, self._child.exit

    def read(self) -> tuple[bytes, Ended | None]:
        """What is there to read, and how it ended, if it has."""
        status = self._child.status()  # asked first: all it wrote is read below
        chunk, _ = self._child.read()
        if status is None:
            return chunk, None
        return chunk, Ended(f"its exit status was {status}.")

    def kill(self) -> None:
        """SIGKILL; in D state that ends nothing."""
        self._child.kill()

    def close(self, *, wait_seconds: float) -> None:
        """Kill it; one that will not end is left behind."""
        self._child.close(wait_seconds=wait_seconds)


class GpuClient:
    """A connection to ``host.gpu.probe_service``, from its making to ``close``.

    A Unix socket: who may connect is decided by the permissions of its directory. What
    comes over it is the probe's own lines, and they are trusted no more than those.
    """

    def __init__(self, path: Path) -> None:
        """Connect; never waits. Raises OSError."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(0.0)  # never wait
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._ended: Ended | None = None

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The socket."""
        return (self._socket.fileno(),)

    def read(self) -> tuple[bytes, Ended | None]:
        """What is there to read, and whether that was the last of it."""
        parts: list[bytes] = []
        for _ in range(READS):
            try:
                chunk = self._socket.recv(READ_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                self._ended = Ended(error.strerror or str(error), seen=False)
                break
            if not chunk:
                self._ended = Ended("its service has ended.", seen=False)
                break
            parts.append(chunk)
        return b"".join(parts), self._ended

    def kill(self) -> None:
        """Speak with it no more: who keeps the probe may end it, we may not."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self, *, wait_seconds: float) -> None:
        """Give the socket back."""
        del wait_seconds
        self._socket.close()


ProbeSource = ChildSource | GpuClient


def linked(path: Path, *, driver: Path = DRIVER) -> GpuClient:
    """A line to the service at ``path``.

    Raises:
        NoSourceError: nobody listens there, and there is no driver to be asked.
        OSError: nobody listens there.
    """
    try:
        return GpuClient(path)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        if driver.exists():
            raise
        message = f"nobody listens at {path}, and no driver is loaded"
        raise NoSourceError(message) from error
