"""A run without a terminal: what the script prints to standard output, byte for byte; what we
say to standard error, each line marked as ours."""

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Self

from typing_extensions import override

from supervisor.cli.views.console import LastingConsole, PlainView
from supervisor.cli.views.run_screen import NAME, TURN_SECONDS
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import clock_time, format_size
from supervisor.host.service.journal import marked
from supervisor.host.telemetry.output_follower import OutputFollower

PART_BYTES = 64 * 1024
SELDOM_SECONDS = 60.0
"""How often progress is told beside what the script prints itself."""


class OutputCopy(threading.Thread):
    """Copies what attempts print to ``descriptor``, waiting for who reads there: in a thread
    of its own, so that nothing else does."""

    def __init__(
        self,
        follower: OutputFollower,
        *,
        descriptor: int,
        left_out: Callable[[int], None],
    ) -> None:
        """``left_out``: told how many bytes a reader came too late for."""
        super().__init__(name="output", daemon=True)
        self._follower, self._descriptor = follower, descriptor
        self._left_out, self._over = left_out, threading.Event()

    @override
    def run(self) -> None:
        over = False
        try:
            while self._copied() or not over:
                over = self._over.wait(TURN_SECONDS)
        except OSError:
            return  # nobody reads any more: the run goes on
        finally:
            self._follower.close()

    def finish(self) -> None:
        """No more will be printed: wait until all is read."""
        self._over.set()
        self.join()

    def _copied(self) -> bool:
        """Copy what there is now; whether there was something."""
        part = self._follower.read(PART_BYTES)
        if part.left_out_bytes:
            self._left_out(part.left_out_bytes)
        left = part.content
        while left:
            left = left[os.write(self._descriptor, left) :]
        return bool(part.content)


class RunLines(PlainView):
    """Our lines, for journald, Slurm, or whoever reads a file of them."""

    def __init__(
        self, console: LastingConsole, follower: OutputFollower | None, *, quiet: bool
    ) -> None:
        """``console``: on standard error. ``follower``: None: output is not shown."""
        super().__init__(console)
        self._follower, self._quiet = follower, quiet
        self._copy = (
            None
            if follower is None
            else OutputCopy(follower, descriptor=1, left_out=self._tell_gap)
        )
        if follower is not None:
            self.every_seconds = SELDOM_SECONDS

    @override
    def __enter__(self) -> Self:
        if self._copy is not None:
            self._copy.start()
        return self

    @override
    def __exit__(self, *_: object) -> None:
        if self._copy is not None:
            self._copy.finish()

    @override
    def say(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """One line, at once."""
        if not self._quiet or level < LogLevel.INFO:
            self._put(f"{clock_time(datetime.now(UTC))} {text}", level)

    @override
    def end(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """The last lines, below all that the script printed."""
        if self._copy is not None:
            self._copy.finish()
        if not self._quiet or level < LogLevel.INFO:
            self._put(text, level)

    @override
    def show(self, status: JobStatus) -> None:
        """A line of progress, now and then."""
        if self._follower is not None:
            self._follower.newest = max(self._follower.newest, status.attempt)
        if not self._quiet:
            super().show(status)

    def _tell_gap(self, size: int) -> None:
        said = f"{format_size(size)} of output are left out: nobody read them in time"
        self.say(said, level=LogLevel.WARNING)

    def _put(self, text: str, level: LogLevel) -> None:
        self._console.put(marked(f"{NAME}: {text}", level))
