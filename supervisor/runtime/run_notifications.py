"""The notifications of a run: each is sent by a process beside it, which nobody waits for."""

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

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
AT_ONCE = 8
"""More senders than that have never ended: something is wrong, and no more are started."""
COMMAND = (
    sys.executable, "-I", "-m",
    "supervisor.host.notifications.notification_sender",
)  # fmt: skip


@dataclass(kw_only=True)
class RunNotifications:
    """Tells people of one run; whatever becomes of it, the run goes on."""

    job: str
    spec: NotifySpec
    directory: Path
    """Where the log of what was sent lies."""
    say: Notifier
    patience: float = FINISH_SECONDS
    """How long its end waits for those that are being sent; a daemon does not."""
    _senders: list[tuple[str, Child]] = field(default_factory=list[tuple[str, Child]])

    def happened(
        self, before: RunState, after: RunState, effects: Sequence[Effect]
    ) -> None:
        """A transition of the run: tell of it whom it concerns. Never waits."""
        if not self.spec.wanted:
            return
        self.look()
        for one in notifications_of(before, after, effects, job=self.job):
            if one.kind in self.spec.on:
                self._send(one)

    def look(self) -> None:
        """What became of the senders; each failure is told once."""
        going: list[tuple[str, Child]] = []
        for kind, child in self._senders:
            if not child.ended():
                going.append((kind, child))
                continue
            child.close()
            if child.status:
                self._failed(kind, f"see {self.directory / LOG}")
        self._senders = going

    def finish(self) -> None:
        """The run has ended: wait a little for what is being sent; it is sent all the
        same, and subprocess reaps who ends later."""
        ended_by = time.monotonic() + self.patience
        for _, child in self._senders:
            wait_for([child.descriptor], seconds=max(ended_by - time.monotonic(), 0))
        self.look()
        for _, child in self._senders:
            child.close()
        self._senders.clear()

    def _send(self, notification: Notification) -> None:
        if len(self._senders) >= AT_ONCE:
            self._failed(notification.kind, "earlier ones are still being sent")
            return
        request = SendRequest(
            notification=notification,
            addresses=self.spec.addresses,
            command=self.spec.command,
            seconds=AGAIN_SECONDS,
        )
        try:
            child = _started(request, self.directory)
        except OSError as error:
            self._failed(notification.kind, f"{error.strerror}")
            return
        self._senders.append((notification.kind, child))

    def _failed(self, kind: str, because: str) -> None:
        said = f"the notification {kind!r} did not reach everybody: {because}"
        self.say(said, level=LogLevel.WARNING)


def _started(request: SendRequest, directory: Path) -> Child:
    """A sender with its request. Raises OSError."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        # It fits into the pipe (64 KiB, pipe(7)): texts are shortened.
        os.write(writer, request.to_json().encode())
        return start(
            COMMAND,
            environment=os.environ,
            directory=directory,
            complaints=directory / LOG,
            stdin=reader,
        )
    finally:
        os.close(reader)
        os.close(writer)
