"""What the commands share that measure a script and train nothing (estimate, advise)."""

import contextlib
import os
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import NoReturn

import click
import psutil

from supervisor.cli.options import EXIT_INTERRUPTED, fail
from supervisor.cli.state_directory import state_sentence
from supervisor.cli.views.summary import last_words
from supervisor.core.text.log_level import LogLevel
from supervisor.core.text.units import parse_size
from supervisor.core.text.visible import visible
from supervisor.host.memory.main_memory import capacity
from supervisor.runtime.measuring.certification import forget
from supervisor.wire.paths import AttemptPaths

EXIT_TERMINATED = 128 + signal.SIGTERM


class TerminatedError(BaseException):
    """Whoever calls is to end: no fault that a command could answer to."""


POOL_PART = 0.7
"""Of the main memory that is free: the script's own data need some, too."""


def free_pool() -> int:
    """Bytes of main memory that may be measured in."""
    return int(POOL_PART * capacity(os.getpid(), rss=0, limit=None))


def size_of(text: str | None, option: str) -> int | None:
    """The bytes that ``option`` says; ends the command where that is no size."""
    try:
        return None if text is None else parse_size(text)
    except ValueError as error:
        fail(f"{option}: {error}")


@contextlib.contextmanager
def directory_for(state_dir: Path, prefix: str) -> Generator[Path]:
    """A directory for the files of attempts, removed after. Its name has the ``prefix`` and
    the process that makes it."""
    before = signal.signal(signal.SIGTERM, _terminated)
    try:
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        _remove_left(state_dir, prefix)
        root = Path(
            tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=state_dir.absolute())
        )
    except OSError as error:
        fail(state_sentence(state_dir, error))
    try:
        yield root
    except TerminatedError:
        fail("SIGTERM: ended before it was measured", exit_code=EXIT_TERMINATED)
    except KeyboardInterrupt:
        fail("interrupted before it was measured", exit_code=EXIT_INTERRUPTED)
    finally:
        forget(root)
        signal.signal(signal.SIGTERM, before)


def exit_code_after(end: BaseException) -> int:
    """Of a command that was ended by Ctrl-C or SIGTERM, and says what it has."""
    return EXIT_TERMINATED if isinstance(end, TerminatedError) else EXIT_INTERRUPTED


def _terminated(_number: int, _frame: object) -> None:
    """Once: what is begun by it must come to its end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise TerminatedError


def _remove_left(state_dir: Path, prefix: str) -> None:
    """What such commands have left here that were killed."""
    for left in state_dir.glob(f"{prefix}*"):
        owner = left.name.removeprefix(prefix).partition("-")[0]
        if owner.isdigit() and not psutil.pid_exists(int(owner)):
            forget(left)


def say(text: str, *, level: LogLevel = LogLevel.INFO) -> None:  # noqa: ARG001  # a Notifier
    """Tell who waits."""
    click.echo(visible(text), err=True)


def fail_after(error: Exception, failed: AttemptPaths | None) -> NoReturn:
    """End the command with what is wrong, and the last words of the attempt, if it was one
    that ``failed``."""
    said = [str(error)]
    if failed is not None:
        said.append(last_words(failed.crash, failed.output))
    fail("\n".join(said), exit_code=1)
