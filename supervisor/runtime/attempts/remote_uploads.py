"""The uploads of one run: the process that sends its snapshots, from start to end.

Whatever becomes of it, training goes on and the run ends as it would have: what it has to
say is read from its file, and told.
"""

import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass, field
from typing import Any

from supervisor.core.jobs.job_status import JobState, RemoteStatus
from supervisor.core.remediation.overrides import NOTHING, Overrides
from supervisor.core.text.log_level import LogLevel, Notifier
from supervisor.host.process.child_process import Child, start, wait_for
from supervisor.host.remote.snapshot_uploader import RunNews, UploadRequest
from supervisor.runtime.status_builder import remote_status
from supervisor.wire.files import read_json, write_json
from supervisor.wire.paths import RunPaths

REQUEST = "remote-request.json"
LOG = "remote-uploader.log"
AGAIN_SECONDS = 30.0
"""An uploader that ended by itself is started again after so long."""


def told_overrides(overrides: Overrides) -> dict[str, Any] | None:
    """What remedies put in force, for the next machine: what is about the computation
    and its memory, not about the GPUs of this one."""
    if overrides == NOTHING:
        return None
    return {**asdict(overrides), "avoid": (), "awaited": None}


@dataclass(kw_only=True)
class RemoteUploads:
    """The uploader of a run."""

    request: UploadRequest
    paths: RunPaths
    say: Notifier
    _process: Child | None = None
    _words: int = -1
    _started_at: float = 0.0
    _told: str | None = None
    """The problem that was told last."""
    _sent: RunNews | None = field(default=None)
    _over: bool = False

    def look(self, state: JobState, overrides: Overrides, *, now: float) -> None:
        """Keep it running and informed, and tell what went wrong; never waits."""
        if self._over:
            return
        if self._process is None or self._process.ended():
            self._again(now)
        self._send(
            RunNews(state=state, ended=False, overrides=told_overrides(overrides))
        )
        told = remote_status(self.paths, now=now)
        if told is not None:
            self._tell(told)

    def _again(self, now: float) -> None:
        if self._process is not None and now - self._started_at < AGAIN_SECONDS:
            return
        self._started_at = now
        self._close()
        try:
            self._start()
        except OSError as error:
            self.say(
                f"the uploader cannot be started: {error.strerror}",
                level=LogLevel.WARNING,
            )

    def _start(self) -> None:
        self._forget_earlier_claim()
        request = self.paths.root / REQUEST
        write_json(request, self.request.to_json())
        reader, writer = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(writer, False)
        command = (
            sys.executable, "-I", "-m",
            "supervisor.host.remote.snapshot_uploader", str(request),
        )  # fmt: skip
        try:
            self._process = start(
                command,
                environment=os.environ,
                directory=self.paths.root,
                complaints=self.paths.root / LOG,
                stdin=reader,
            )
        except OSError:
            os.close(writer)
            raise
        finally:
            os.close(reader)
        self._words, self._sent = writer, None

    def _forget_earlier_claim(self) -> None:
        """What was told under another claim than this one, such as that it was taken
        over, would be read before the uploader tells anything."""
        value = read_json(self.paths.remote_progress)
        if value is not None and value.get("claim") != self.request.claim:
            self.paths.remote_progress.unlink(missing_ok=True)

    def _send(self, news: RunNews) -> None:
        if self._words < 0 or news == self._sent:
            return
        line = json.dumps(news.to_json()).encode() + b"\n"
        try:
            os.write(self._words, line)
        except BlockingIOError:  # it is busy: the next look tells it
            return
        except OSError:  # it has ended
            return
        self._sent = news

    def _tell(self, told: RemoteStatus) -> None:
        if told.taken_by is not None:
            self._over = True
            self._close()
            self.say(
                f"{told.taken_by} has taken the run over: nothing more of it is sent to"
                f" {told.address} from here",
                level=LogLevel.WARNING,
            )
        elif told.problem is not None and told.problem != self._told:
            self.say(
                f"a snapshot was not sent to {told.address}, and is tried again:"
                f" {told.problem}",
                level=LogLevel.WARNING,
            )
        elif told.problem is None and self._told is not None:
            self.say(f"snapshots are sent to {told.address} again")
        self._told = told.problem

    def finish(
        self, state: JobState, overrides: Overrides, *, seconds: float, now: float
    ) -> None:
        """The run has ended: let what is newest be sent, and wait for it, ``seconds`` at
        most or until Ctrl-C."""
        if self._over:
            return
        if self._process is None or self._process.ended():
            self._started_at = -AGAIN_SECONDS
            self._again(now)
        if self._process is None:
            return
        self._send(
            RunNews(state=state, ended=True, overrides=told_overrides(overrides))
        )
        interrupted = False
        try:
            wait_for([self._process.descriptor], seconds=seconds)
        except KeyboardInterrupt:
            interrupted = True
        if not self._process.ended():
            why = "Ctrl-C" if interrupted else f"{seconds:.0f} s were not enough"
            self.say(
                f"what is newest is not in {self.request.address} as a whole: {why}",
                level=LogLevel.WARNING,
            )
        told = remote_status(self.paths, now=now)
        if told is not None and not self._over:
            self._tell(told)
        self.close()

    def close(self) -> None:
        """End it, whatever it does: what is not sealed does not count."""
        self._over = True
        self._close()

    def _close(self) -> None:
        if self._words >= 0:
            os.close(self._words)
            self._words = -1
        if self._process is not None:
            with contextlib.suppress(PermissionError):
                self._process.send(signal.SIGKILL)
            wait_for([self._process.descriptor], seconds=5.0)
            self._process.ended()
            self._process.close()
            self._process = None
