"""The screen of a run in a terminal: what the script prints, our own lines, the status row.

A thread of its own reads the log and writes; nobody else here writes to the terminal. So a
terminal that is slow, stopped with Ctrl-S or gone holds up that thread alone, never the
supervisor, and training has no part in it at all.
"""

import codecs
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import Any, Self

from typing_extensions import override

from supervisor.cli.views import status_row
from supervisor.cli.views.console import View
from supervisor.cli.views.status_line import Pace, RunView, left_seconds, status_line
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.terminal_filter import obeyed
from supervisor.core.text.units import clock_time, format_size
from supervisor.core.text.visible import visible
from supervisor.host.telemetry.output_follower import OutputFollower

NAME = "trainwarden"
TURN_SECONDS = 0.05
"""How often the log is looked at; Keras draws its bar as often."""
QUIET_TURN_SECONDS = 0.25
"""... where nothing has come for a while."""
PART_BYTES = 32 * 1024
BEHIND_BYTES = 8 << 20
"""A terminal that is so far behind what is printed goes on near the end of it."""
KEPT_BYTES = 64 * 1024
SUSPEND_SECONDS = 0.5
"""So long Ctrl-Z waits for the row to be given back."""
USUAL_SIZE = (80, 24)
"""Of a terminal that does not tell: columns and rows."""
COLOURS = {
    LogLevel.ERROR: "\x1b[1;31m",
    LogLevel.WARNING: "\x1b[1;33m",
    LogLevel.INFO: "\x1b[1;36m",
}
ROW_COLOUR, SILENT_COLOUR = "\x1b[36m", "\x1b[33m"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenOptions:
    """What of it is wanted."""

    quiet: bool = False
    """Only warnings of ours, and no status row."""
    colour: bool = True
    row: bool = True

    @classmethod
    def of(cls, environment: Mapping[str, str], *, quiet: bool) -> "ScreenOptions":
        """As the environment says: https://no-color.org, and terminals that know nothing."""
        known = environment.get("TERM", "dumb") not in {"", "dumb"}
        colour = known and not environment.get("NO_COLOR")
        return cls(quiet=quiet, colour=colour, row=known and not quiet)


class RunScreen(View):
    """What a person sees of a run in the foreground."""

    def __init__(
        self,
        follower: OutputFollower | None,
        options: ScreenOptions,
        *,
        descriptor: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``follower``: of what the script prints; None: that is not shown."""
        self._follower, self._options = follower, options
        self._descriptor, self._clock = descriptor, clock
        self._began = self._news_at = clock()
        self._lines: deque[str] = deque()
        self._status: JobStatus | None = None
        self._sign: tuple[object, ...] = ()
        self._pace = Pace()
        self._over, self._paused, self._rowless = (threading.Event() for _ in range(3))
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._at_line_start, self._gone = True, False
        self._size: tuple[int, int] | None = None
        """Columns and rows, while the row is there."""
        self._row = ""
        self._thread = threading.Thread(target=self._work, name="screen", daemon=True)
        self._stops_before: Any = None

    @override
    def __enter__(self) -> Self:
        self._thread.start()
        if threading.current_thread() is threading.main_thread():
            self._stops_before = signal.signal(signal.SIGTSTP, self._suspended)
        return self

    @override
    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._stops_before is not None:
            signal.signal(signal.SIGTSTP, self._stops_before)

    @override
    def say(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """One line of ours, below what was printed up to now."""
        if self._options.quiet and level > LogLevel.WARNING:
            return
        stamp = clock_time(datetime.now(UTC))
        self._lines.append(self._marked(f"{stamp} {text}", level))

    @override
    def end(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """The last lines, in which the run is summed up."""
        if not self._options.quiet or level < LogLevel.INFO:
            self._lines.append(self._marked(text, level))

    @override
    def show(self, status: JobStatus) -> None:
        """This is how things are."""
        now = self._clock()
        if self._follower is not None:
            self._follower.newest = max(self._follower.newest, status.attempt)
        sign = (status.state, status.attempt, status.phase, status.step)
        if sign != self._sign:
            self._sign, self._news_at = sign, now
        self._pace = self._pace.seen(status, now=now)
        self._status = status

    def _marked(self, text: str, level: LogLevel) -> str:
        colour = COLOURS[level] if self._options.colour else ""
        plain = status_row.PLAIN if self._options.colour else ""
        return f"{plain}{colour}{NAME}:{plain} {visible(text)}\n"

    def _work(self) -> None:
        # A job of the shell in the background is not stopped for writing (``stty tostop``).
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU, signal.SIGTTIN})
        while not self._over.is_set():
            self._turn()
            silent = self._clock() - self._news_at > 2.0
            self._over.wait(QUIET_TURN_SECONDS if silent else TURN_SECONDS)
        self._turn()
        self._write(visible(self._rest, log=True))
        self._rest = ""
        self._flush_lines()
        self._close_row()
        if self._follower is not None:
            self._follower.close()

    def _turn(self) -> None:
        """Put on the screen what is new: first what was printed before our lines."""
        if self._paused.is_set():
            self._close_row()
            self._rowless.set()
            return
        said = bool(self._lines)
        self._mind_size()
        shown = self._printed()
        if said:
            self._write(shown)
            self._flush_lines()
            shown = ""
        self._write(shown, row=self._repainted(again=said or bool(shown)))

    def _printed(self) -> str:
        """What the script has printed up to now; of much all but the end is written."""
        if self._follower is None:
            return ""
        if self._follower.unread_bytes > BEHIND_BYTES:
            self._left_out(self._follower.skip(keep=KEPT_BYTES))
        frame = ""
        while True:
            part = self._follower.read(PART_BYTES)
            if part.left_out_bytes:
                self._left_out(part.left_out_bytes)
            if not part.content:
                return frame
            self._news_at = self._clock()
            text = self._rest + self._decoder.decode(part.content)
            shown, self._rest = obeyed(text)
            self._write(frame)
            frame = shown
            if self._paused.is_set():
                return frame

    def _left_out(self, size: int) -> None:
        said = f"{format_size(size)} of output are left out here; the log has them"
        self._lines.append(self._marked(said, LogLevel.INFO))

    def _flush_lines(self) -> None:
        while self._lines:
            begin = "" if self._at_line_start else "\r\n"
            self._write(begin + self._lines.popleft())

    def _mind_size(self) -> None:
        """Open the row, or move it to where the bottom is now."""
        size = self._wanted()
        if size is None:
            self._close_row()
        elif self._size is None:
            self._write(row=status_row.opened(size[1]))
        elif size != self._size:
            self._write(row=status_row.resized(size[1]))
        if size != self._size:
            self._size, self._row = size, ""

    def _wanted(self) -> tuple[int, int] | None:
        """The size of a screen that has room for the row, and is ours to draw on."""
        if not self._options.row or self._gone or self._status is None:
            return None
        try:
            if os.tcgetpgrp(self._descriptor) != os.getpgrp():
                return None  # in the background
        except OSError:
            pass  # not the terminal that controls us
        try:
            columns, rows = os.get_terminal_size(self._descriptor)
        except OSError:
            return None
        size = (columns, rows) if columns and rows else USUAL_SIZE
        return size if status_row.fits(size[1], size[0]) else None

    def _repainted(self, *, again: bool) -> str:
        """The row, if it is another than is there, or what was written may have erased it."""
        if self._size is None or self._status is None:
            return ""
        status = self._status
        now = self._clock()
        view = RunView(
            status=status,
            elapsed_seconds=now - self._began,
            left_seconds=left_seconds(status, self._pace),
            silent_seconds=now - self._news_at,
        )
        columns, rows = self._size
        line = status_line(view, columns - 1)
        if line == self._row and not again:
            return ""
        self._row = line
        colour = SILENT_COLOUR if view.silent else ROW_COLOUR
        return status_row.drawn(
            line, rows, colour=colour if self._options.colour else ""
        )

    def _close_row(self) -> None:
        if self._size is not None:
            self._write(row=status_row.closed(self._size[1]))
            self._size, self._row = None, ""

    def _write(self, text: str = "", *, row: str = "") -> None:
        """Wait until the terminal has taken it; nothing where it is gone. ``row``: what
        leaves the cursor where it is."""
        if text:
            self._at_line_start = text.endswith("\n")
        left = (text + row).encode(errors="replace")
        while left and not self._gone:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                time.sleep(TURN_SECONDS)
            except OSError:
                self._gone = True

    def _suspended(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: the shell gets its terminal whole. Training goes on meanwhile."""
        self._rowless.clear()
        self._paused.set()
        self._rowless.wait(SUSPEND_SECONDS)
        os.kill(os.getpid(), signal.SIGSTOP)
        self._paused.clear()
