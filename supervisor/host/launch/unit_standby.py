"""A standby that is a systemd unit of its user's: the unit of the next attempt, begun early.

The daemon and that unit meet at a socket beside its request, in a directory where the
daemon alone writes and that user alone reads. Whoever connects has to be the unit's main
process, by what the kernel says of the connection and systemd of the unit. What a user
owns is moved by the user's own process: it is told the directive, and writes it.
"""

import contextlib
import hashlib
import os
import signal
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path

from typing_extensions import override

from supervisor.host.launch import systemctl
from supervisor.host.launch.standby_process import StandbyProcess
from supervisor.host.launch.systemctl import SystemdError
from supervisor.host.process.cgroup import oom_kills
from supervisor.host.process.peer_ids import peer_ids
from supervisor.wire.messages.standby_messages import MOST_BYTES

LOOK_SECONDS = 0.05
"""How often systemd is asked whether it has ended, where somebody waits for that."""


def meeting_point(requests: Path, job: str) -> Path:
    """Where units of ``job`` that stand by connect to: a socket's path has 107 bytes at
    most, and a job's name may take most of them."""
    name = hashlib.blake2b(job.encode(), digest_size=8).hexdigest()
    return requests / f"standby-{name}.sock"


def listening(path: Path) -> socket.socket:
    """A socket that the group of its directory may connect to. Raises OSError."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o660)
        listener.listen(1)
        listener.settimeout(0.0)
    except OSError:
        listener.close()
        raise
    return listener


@dataclass(kw_only=True)
class UnitStandby(StandbyProcess):
    """A unit that waits to be an attempt."""

    unit: str
    user_id: int
    plan: bytes
    """What it is told first, a line."""
    request: Path
    listener: socket.socket
    point: Path
    """Where that listens."""
    channel: socket.socket | None = None
    """None: it has not connected yet."""
    pid: int | None = None
    """Of the unit's main process, from then on."""
    oom_kills_before: int | None = None
    _hung_up: bool = False
    _waits: list[socket.socket] = field(default_factory=list[socket.socket])
    """Connections that systemd has not said of yet whose they are."""

    @property
    @override
    def in_the_way(self) -> bool:
        return True  # it has the attempt's unit

    @property
    @override
    def has_seen_oom_kills(self) -> bool:
        now = None if self.pid is None else oom_kills(self.pid)
        return now is not None and now != self.oom_kills_before

    @override
    def _heard(self) -> bytes:
        if self.channel is None:
            self._meet()
        if self.channel is None:
            return b""
        try:
            said = self.channel.recv(MOST_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            said = b""
        self._hung_up = not said
        return said

    def _meet(self) -> None:
        with contextlib.suppress(OSError):
            connected, _ = self.listener.accept()
            self._waits.append(connected)
        while self._waits:
            connected = self._waits[0]
            try:
                main = systemctl.show(self.unit, "MainPID").get("MainPID", "")
            except SystemdError:
                return  # it is asked again
            del self._waits[0]
            pid, user, _ = peer_ids(connected)
            if user == self.user_id and str(pid) == main:
                self._begin(connected, pid)
                return
            connected.close()

    def _begin(self, connected: socket.socket, pid: int) -> None:
        self.pid, self.oom_kills_before = pid, oom_kills(pid)
        self.channel = connected
        self.listener.close()
        self.point.unlink(missing_ok=True)
        connected.settimeout(0.0)
        try:
            connected.sendall(self.plan)
        except OSError:
            self._hung_up = True

    def send(self, message: bytes) -> None:
        """Tell it. Raises OSError where less than all of it was taken."""
        if self.channel is None or self._hung_up:
            raise BrokenPipeError(32, os.strerror(32))
        self.channel.sendall(message)

    def hang_up(self) -> None:
        """It hears no more of us, and nobody else connects."""
        for one in (self.channel, self.listener, *self._waits):
            if one is not None:
                one.close()
        self._hung_up = True
        self.point.unlink(missing_ok=True)

    @override
    def ended(self) -> bool:
        connected = self.channel is not None and not self._hung_up
        return not connected and self._rests()

    def _rests(self) -> bool:
        try:
            found = systemctl.show(self.unit, "ActiveState", "Job")
        except SystemdError:
            return False  # it is asked again
        return systemctl.at_rest(found)

    @override
    def ask_end(self) -> None:
        self.hang_up()
        self._signal(signal.SIGTERM)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(SystemdError):  # it has ended
            systemctl.signal_main(self.unit, number.name)

    @override
    def kill(self) -> None:
        self.hang_up()
        self._signal(signal.SIGKILL)

    @override
    def wait_for_end(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._rests():
                return True
            time.sleep(LOOK_SECONDS)
        return self._rests()

    @override
    def clear(self) -> None:
        self.hang_up()
        self.request.unlink(missing_ok=True)
        with contextlib.suppress(SystemdError):  # it was forgotten before
            systemctl.forget(self.unit)
