"""The report of an exception that nobody caught: to the supervisor and on stderr."""

import contextlib
import json
import os
import signal
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from supervisor.wire.files import write_json
from supervisor.wire.records.end_records import CrashReport
from supervisor.wire.records.oom_subject import OomSubject
from trainers.process import allocation_subject, full_disks

OURS = str(Path(__file__).resolve().parents[1])
"""Frames of files below this directory are not shown: the mistake is not there."""

_IN_FIT = "_trainwarden_in_fit"
_NO_STEP = "_trainwarden_no_step"
_FRAMEWORKS = ("/keras/", "/tensorflow/")
"""Parts of the paths of files in which an exception is not the script's own."""
_ARRAY_TO_TENSOR = "_EagerConst"
"""The op that copies a NumPy array to a device."""

MAX_TEXT = 256 * 1024
"""Characters of a message or traceback that are kept: head and tail."""
ROOM_BYTES = 8192
"""Of a report on a full disk: two blocks."""


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


def _shortened(text: str, most: int = MAX_TEXT) -> str:
    if len(text) <= most:
        return text
    half = max(most // 2, 1)
    return f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"


def qualified_name(kind: type) -> str:
    """``module.Name`` of an exception's class; builtins without their module."""
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def mark_in_fit(error: BaseException, *, during: OomSubject = OomSubject.STEP) -> None:
    """Remember that ``error`` left a supervised ``fit``, and ``during`` what.

    On the exception itself: a reference to it from elsewhere would keep its frames,
    and with them the tensors, of a script that catches it and tries again.
    """
    with contextlib.suppress(AttributeError, TypeError):
        setattr(error, _IN_FIT, during)


def mark_no_step(error: BaseException) -> None:
    """Remember that ``error`` left an evaluation or a prediction of the script's own."""
    with contextlib.suppress(AttributeError, TypeError):
        setattr(error, _NO_STEP, True)


def _came_from_fit(error: BaseException) -> OomSubject | None:
    """What a supervised ``fit`` did when ``error`` left it; None: it came from none."""
    for one in allocation_subject.chain(error):
        during: OomSubject | None = getattr(one, _IN_FIT, None)
        if during is not None:
            return during
    return None


def report(
    error: BaseException, *, steps_done: int | None, own_steps: bool = False
) -> CrashReport:
    """The crash report for ``error``; ``own_steps``: the script makes training steps
    outside of ``fit``."""
    during = _came_from_fit(error)
    elsewhere = _outside_of_fit(error, own_steps=own_steps)
    subject, allocation = _memory(error, during, elsewhere)
    disk = full_disks.full_disk(error)
    return CrashReport(
        exception=qualified_name(type(error)),
        message=_shortened(str(error)),
        traceback=_shortened(formatted(error)),
        steps_done=steps_done,
        in_fit=during is not None,
        memory=subject,
        allocation=allocation,
        full_disk=None if disk is None else disk.mount_point,
        full_disk_free_bytes=0 if disk is None else disk.free_bytes,
        full_disk_bytes=0 if disk is None else disk.size_bytes,
        full_disk_named=disk is not None and disk.named,
        unprompted=_is_unprompted(error),
    )


def _is_unprompted(error: BaseException) -> bool:
    """SIGINT is ignored in this process (``signals``), unless the script takes it."""
    ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    return isinstance(error, KeyboardInterrupt) and ignored


def _outside_of_fit(error: BaseException, *, own_steps: bool) -> OomSubject:
    """What asked for memory if no ``fit`` did."""
    chain = allocation_subject.chain(error)
    if not own_steps or any(hasattr(one, _NO_STEP) for one in chain):
        return OomSubject.OUTSIDE
    return OomSubject.OWN_STEP


def _memory(
    error: BaseException, during: OomSubject | None, elsewhere: OomSubject
) -> tuple[OomSubject | None, str | None]:
    """What memory was asked for, and the allocation that failed where ``error`` does not
    tell that itself. None: it was not memory, or nobody can tell."""
    noted = allocation_subject.watch.last
    if allocation_subject.out_of_memory(error):
        if noted is not None:
            return noted.subject, None
        if during is None and _ARRAY_TO_TENSOR in str(error):
            return OomSubject.DATA, None
        return during or elsewhere, None
    if noted is not None and _is_frameworks(error):
        return noted.subject, noted.text
    return None, None


def _is_frameworks(error: BaseException) -> bool:
    """Whether ``error`` was raised in Keras or TensorFlow, not in the script."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [one.filename for one in frames if not one.filename.startswith(OURS)]
    return any(part in path for path in theirs[-1:] for part in _FRAMEWORKS)


def reserve(path: Path) -> None:
    """Room beside ``path``: a report has to fit on a disk that is full then, as it may
    well be for that that the script ended. Raises OSError, ENOSPC among them."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    descriptor = os.open(_room(path), flags, 0o640)
    try:
        os.posix_fallocate(descriptor, 0, ROOM_BYTES)
    finally:
        os.close(descriptor)


def release(path: Path) -> None:
    """Give the room back: nothing will be reported."""
    with contextlib.suppress(OSError):
        _room(path).unlink(missing_ok=True)


def write(path: Path, crash: CrashReport) -> None:
    """Leave ``crash`` at ``path``, on a full disk as much of it as ``reserve`` made room
    for; it must not hide the user's exception."""
    try:
        write_json(path, crash.to_json())
    except OSError:
        with contextlib.suppress(OSError):
            _write_into_room(path, crash)
    release(path)


def _room(path: Path) -> Path:
    return path.with_name(f".{path.name}.room")


def _write_into_room(path: Path, crash: CrashReport) -> None:
    most = ROOM_BYTES // 2
    while len(content := _encoded(crash, most)) > ROOM_BYTES:
        most //= 2
    descriptor = os.open(_room(path), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(descriptor, content, 0)
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    _room(path).rename(path)


def _encoded(crash: CrashReport, most: int) -> bytes:
    """Its texts of ``most`` characters together, at most."""
    texts = {
        "exception": _shortened(crash.exception, most // 8),
        "message": _shortened(crash.message, most // 4),
        "traceback": _shortened(crash.traceback, most // 2),
        "allocation": crash.allocation and _shortened(crash.allocation, most // 8),
    }
    return json.dumps(replace(crash, **texts).to_json()).encode()  # type: ignore[arg-type]  # texts, by name
