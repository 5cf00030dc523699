"""The notifications of runs: each is sent by a process beside them, which nobody waits for."""

import os
import socket
import stat
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import DEVNULL

from supervisor.core.jobs.notification import Notification
from supervisor.core.jobs.spec import NotifySpec
from supervisor.core.lifecycle.effects import Effect
from supervisor.core.lifecycle.notifications import notifications_of
from supervisor.core.lifecycle.run_state import RunState
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.host.notifications.notification_sender import SendRequest
from supervisor.host.process.child_process import Child, start, wait_for

LOG = "notifications.log"
AGAIN_SECONDS = 120.0
"""For how long an address that does not take a notification is tried again."""
FINISH_SECONDS = 10.0
"""How long the end of a run in the foreground waits for its last notification."""
AT_ONCE = 64
"""More senders than that at a time: something is wrong, and no more are started."""
COMMAND = (
    sys.executable, "-I", "-m",
    "supervisor.host.notifications.notification_sender",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Sender:
    """A process that sends, and who is told if it fails."""

    job: str
    kind: str
    child: Child
    say: Notifier


@dataclass(kw_only=True)
class NotificationSenders:
    """The processes that send now."""

    spec: NotifySpec
    directory: Path
    """Where the log of what was sent lies."""
    _going: list[_Sender] = field(default_factory=list[_Sender])

    def send(self, notification: Notification, say: Notifier) -> None:
        """Start to send it; never waits."""
        if len(self._going) >= AT_ONCE:
            because = "too many are being sent"
            say(_failure(notification.kind, because), level=LogLevel.WARNING)
            return
        title = f"{notification.title} on {socket.gethostname()}"
        request = SendRequest(
            notification=replace(notification, title=title),
            addresses=self.spec.addresses,
            command=self.spec.command,
            seconds=AGAIN_SECONDS,
        )
        try:
            child = _started(request, self.directory)
        except OSError as error:
            say(
                _failure(notification.kind, f"{error.strerror}"), level=LogLevel.WARNING
            )
            return
        self._going.append(_Sender(notification.job, notification.kind, child, say))

    def look(self) -> None:
        """What became of them; each failure is told once. Never waits."""
        for one in [one for one in self._going if one.child.ended()]:
            self._going.remove(one)
            one.child.close()
            if one.child.status:
                because = f"see {self.directory / LOG}"
                one.say(_failure(one.kind, because), level=LogLevel.WARNING)

    def finish(self, say: Notifier) -> None:
        """Nobody looks any more: wait a little for what is being sent, until Ctrl-C. It is
        sent all the same."""
        ended_by = time.monotonic() + FINISH_SECONDS
        try:
            for one in self._going:
                left = max(ended_by - time.monotonic(), 0.0)
                wait_for([one.child.descriptor], seconds=left)
        except KeyboardInterrupt:
            pass
        self.look()
        if self._going:
            kinds = ", ".join(one.kind for one in self._going)
            say(
                f"still being sent: the notification of {kinds}; what comes of it will"
                f" stand in {self.directory / LOG}"
            )
        for one in self._going:
            one.child.close()
        self._going.clear()


def _failure(kind: str, because: str) -> str:
    return f"the notification of {kind} did not reach everybody: {because}"


@dataclass(frozen=True, kw_only=True)
class RunNotifications:
    """Tells people of one run; whatever becomes of it, the run goes on."""

    job: str
    senders: NotificationSenders
    say: Notifier
    look: str | None = None
    """With what commands to look at it, where those of a daemon do not find it."""

    def happened(
        self, before: RunState, after: RunState, effects: Sequence[Effect]
    ) -> None:
        """A transition of the run: tell of it whom it concerns. Never waits."""
        wanted = self.senders.spec
        if not wanted.wanted:
            return
        self.senders.look()
        told = notifications_of(
            before, after, effects, job=self.job, on=wanted.on, look=self.look
        )
        for one in told:
            self.senders.send(one, self.say)


def _started(request: SendRequest, directory: Path) -> Child:
    """A sender with its request. Raises OSError."""
    # In memory: that a disk is full may be what is told.
    with os.fdopen(os.memfd_create("notification"), "w+b") as given:
        given.write(request.to_json().encode())
        given.seek(0)
        log = _opened(directory / LOG)
        try:
            return start(
                COMMAND,
                environment=os.environ,
                directory=Path("/"),
                complaints=DEVNULL if log is None else log,
                stdin=given.fileno(),
            )
        finally:
            if log is not None:
                os.close(log)


def _opened(path: Path) -> int | None:
    """The log, to append to; None: what lies there is no file of ours alone. The script
    may write where it lies: no pipe that nobody reads, no link to another file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_nlink == 1:
        return descriptor
    os.close(descriptor)
    return None
