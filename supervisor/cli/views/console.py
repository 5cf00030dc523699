"""Where a run is shown: a live line in a terminal, plain lines anywhere else."""

import contextlib
import os
import time
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from typing import IO, Protocol, Self, cast

from rich.console import Console
from rich.live import Live
from rich.text import Text
from typing_extensions import override

from supervisor.cli.command_hint import named_place
from supervisor.cli.views.progress import progress_line, stillness
from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.placed_hints import with_place
from supervisor.core.text.units import clock_time, format_duration
from supervisor.core.text.visible import visible
from supervisor.host.service.journal import marked
from supervisor.host.service.nonblocking_writer import NonblockingWriter, left_out

PLAIN_SECONDS = 10.0
"""How often progress is logged without a terminal."""


class LastingConsole(Console):
    """Nobody may be reading any more (``| head``, a closed terminal): go on quietly.

    A run must not end because its output has no reader.
    """

    @override
    def on_broken_pipe(self) -> None:
        self.quiet = True
        nowhere = os.open(os.devnull, os.O_WRONLY)  # for what is still in the buffer
        os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)

    place = ""
    """The option that suggested commands need: what is said comes from other threads, which
    do not know the command that runs."""

    def put(self, text: str) -> None:
        """Print ``text`` as it is, what a terminal would obey made visible."""
        with contextlib.suppress(OSError):
            self.print(
                visible(with_place(text, self.place)),
                markup=False,
                emoji=False,
                highlight=False,
                soft_wrap=True,
            )


@contextlib.contextmanager
def lasting(
    descriptor: int = 1, *, gap: Callable[[], str] = left_out
) -> Generator[LastingConsole]:
    """A console on standard output that never holds up who writes to it; at the end it
    waits until all is read."""
    out = NonblockingWriter(descriptor, gap=gap)
    try:
        console = LastingConsole(file=cast("IO[str]", out))
        console.place = named_place()
        yield console
    finally:
        with contextlib.suppress(OSError):
            out.finish()


class View(Protocol):
    """What the loop needs of a place to show things."""

    def say(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """Something happened."""

    def show(self, status: JobStatus) -> None:
        """This is how things are."""

    def end(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """It is over: the last lines."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


class PlainView(View):
    """Log lines with the time in UTC: for journald, Slurm, a pipe."""

    every_seconds = PLAIN_SECONDS
    """How often progress is told."""

    def __init__(
        self,
        console: LastingConsole,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._shown = ""
        self._shown_at: datetime | None = None
        self._clock, self._moved_at = clock, clock()
        self._reached: tuple[int, int | None] = (0, None)

    @override
    def __enter__(self) -> Self:
        return self

    @override
    def __exit__(self, *_: object) -> None:
        return None

    @override
    def say(self, text: str, /, *, level: LogLevel = LogLevel.INFO) -> None:
        """One line, at once."""
        stamp = clock_time(datetime.now(UTC))
        self._console.put(marked(f"{stamp} {text}", level, descriptor=1))

    @override
    def end(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """As they are."""
        self._console.put(marked(text, level, descriptor=1))

    @override
    def show(self, status: JobStatus) -> None:
        """The progress line, if it is new and the last one is old enough."""
        now = datetime.now(UTC)
        due = (
            self._shown_at is None
            or (now - self._shown_at).total_seconds() >= self.every_seconds
        )
        line = progress_line(status) + self._stands_still(status)
        if due and line != self._shown and status.pid is not None:
            self._shown, self._shown_at = line, now
            self.say(line)

    def _stands_still(self, status: JobStatus) -> str:
        """Since when no step was done: a hang is seen long before it is judged."""
        reached = (status.attempt, status.step)
        if reached != self._reached:
            self._reached, self._moved_at = reached, self._clock()
        silent = self._clock() - self._moved_at
        if silent < self.every_seconds or status.step is None:
            return ""
        if stillness(status):  # the line has it, with how long that may go on
            return ""
        return f" · no step for {format_duration(silent)}"


class LiveView(PlainView):
    """A line that changes in place, below what was said."""

    def __init__(self, console: LastingConsole) -> None:
        super().__init__(console)
        self._live = Live(console=console, refresh_per_second=4, transient=True)

    @override
    def __enter__(self) -> Self:
        self._live.start()
        return self

    @override
    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._live.stop()

    @override
    def show(self, status: JobStatus) -> None:
        """Replace the line."""
        line = Text(visible(progress_line(status)), overflow="fold")
        with contextlib.suppress(OSError):
            self._live.update(line)


def view(console: LastingConsole) -> View:
    """The right one for where we run."""
    return LiveView(console) if console.is_terminal else PlainView(console)
