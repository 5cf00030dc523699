"""What is said of an exception that nobody caught: to the supervisor and on stderr."""

import contextlib
import traceback
from collections.abc import Iterator
from pathlib import Path

from supervisor.wire.files import write_json
from supervisor.wire.records import CrashReport

OURS = str(Path(__file__).resolve().parents[1])
"""Frames of files below this directory are not shown: the mistake is not there."""

_IN_FIT = "_trainwarden_in_fit"

MAX_TEXT = 256 * 1024
"""Characters of a message or traceback that are kept: head and tail."""


def _linked(
    report: traceback.TracebackException,
) -> Iterator[traceback.TracebackException]:
    """``report`` and every exception it tells of."""
    waiting: list[traceback.TracebackException | None] = [report]
    while waiting:
        one = waiting.pop()
        if one is not None:
            yield one
            waiting += [one.__cause__, one.__context__, *(one.exceptions or ())]


def formatted(error: BaseException) -> str:
    """The traceback as Python prints it, our own frames left out."""
    report = traceback.TracebackException.from_exception(error)
    for one in _linked(report):
        kept = [frame for frame in one.stack if not frame.filename.startswith(OURS)]
        one.stack = traceback.StackSummary.from_list(kept)
    return "".join(report.format())


def _shortened(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    half = MAX_TEXT // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"


def qualified_name(kind: type) -> str:
    """``module.Name`` of an exception's class; builtins without their module."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def mark_in_fit(error: BaseException) -> None:
    """Remember that ``error`` left a supervised ``fit``.

    On the exception itself: a reference to it from elsewhere would keep its frames,
    and with them the tensors, of a script that catches it and tries again.
    """
    with contextlib.suppress(AttributeError, TypeError):
        setattr(error, _IN_FIT, True)


def _came_from_fit(error: BaseException | None) -> bool:
    seen: list[int] = []
    while error is not None and id(error) not in seen:
        if getattr(error, _IN_FIT, False):
            return True
        seen.append(id(error))
        error = error.__cause__ or error.__context__
    return False


def report(error: BaseException, *, steps_done: int | None) -> CrashReport:
    """The crash report for ``error``."""
    return CrashReport(
        exception=qualified_name(type(error)),
        message=_shortened(str(error)),
        traceback=_shortened(formatted(error)),
        steps_done=steps_done,
        in_fit=_came_from_fit(error),
    )


def write(path: Path, crash: CrashReport) -> None:
    """Leave ``crash`` at ``path``; a full disk must not hide the user's exception."""
    try:
        write_json(path, crash.to_json())
    except OSError:
        return
