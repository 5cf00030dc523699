"""The memory report of a job, on request: its live map, or the one that an OOM left behind."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from supervisor.core.diagnosis.stack_traces import named_subject
from supervisor.core.memory.bfc_map import MemoryMap, figures_of
from supervisor.core.memory.figures import MemoryFigures, complete
from supervisor.host.telemetry.allocator_dump import read_first_map, read_map
from supervisor.wire.files import read_json
from supervisor.wire.messages.memory_answer import MemoryAnswer
from supervisor.wire.page import MemorySource, Page, read_page
from supervisor.wire.paths import AttemptPaths
from supervisor.wire.records.end_records import CrashReport
from supervisor.wire.records.oom_subject import OomSubject

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReport:
    """What is known of the memory of an attempt. None: not known."""

    attempt: int
    live: bool
    """It was asked just now; False: what it left behind."""
    step: int | None
    source: str | None
    """``map``, ``counts`` or ``estimate``; ``oom`` for a map of a failed request."""
    figures: MemoryFigures
    largest_allocatable_bytes: int | None
    """The largest tensor that would fit."""
    memory_map: MemoryMap | None
    answer: MemoryAnswer | None
    between_steps_bytes: int | None = None
    """In use at the last step boundary that was seen."""
    subject: OomSubject | None = None
    """What a request that failed was for."""


def ask(files: AttemptPaths, *, seconds: float) -> MemoryAnswer | None:
    """Ask a living attempt; None: it did not get to a step boundary in ``seconds``.

    Raises OSError where its directory may not be written to.
    """
    before = _answer(files)
    _request(files.memory_request)
    found = _until(lambda: _newer(files, before), seconds)
    if found is None:
        files.memory_request.unlink(missing_ok=True)
    return found


def _request(path: Path) -> None:
    """Make the file; who asks may have more rights than whose directory it is."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    os.close(os.open(path, flags, 0o600))


def _newer(files: AttemptPaths, before: MemoryAnswer | None) -> MemoryAnswer | None:
    now = _answer(files)
    return now if now is not None and now != before else None


def _until(
    ready: Callable[[], MemoryAnswer | None], seconds: float
) -> MemoryAnswer | None:
    return Retrying(
        retry=retry_if_result(lambda found: found is None),
        wait=wait_fixed(POLL_SECONDS),
        stop=stop_after_delay(seconds),
        retry_error_callback=lambda _state: None,
    )(ready)


def _answer(files: AttemptPaths) -> MemoryAnswer | None:
    value = read_json(files.memory_answer)
    return None if value is None else MemoryAnswer.from_json(value)


def live_report(
    files: AttemptPaths,
    number: int,
    answer: MemoryAnswer,
    *,
    beside: Callable[[Page | None], Page | None] = lambda page: page,
) -> MemoryReport:
    """What a living attempt answered; ``beside``: adds what others know to its page."""
    page, memory_map = beside(read_page(files.page)), read_map(files.memory_map)
    return _report(number, page, memory_map, answer, step=answer.step, live=True)


def kept_report(files: AttemptPaths, number: int) -> MemoryReport:
    """What an attempt left behind: the map of its OOM, else its last figures."""
    page, memory_map = read_page(files.page), read_first_map(files.dumps)
    step = None if page is None else page.step
    report = _report(number, page, memory_map, _answer(files), step=step, live=False)
    if memory_map is None:  # the figures of the page are those of a step boundary
        return report
    between = None if page is None else page.memory_in_use_bytes
    return replace(report, between_steps_bytes=between, subject=_subject(files))


def _subject(files: AttemptPaths) -> OomSubject | None:
    """As the crash report names it."""
    value = read_json(files.crash)
    crash = None if value is None else CrashReport.from_json(value)
    return None if crash is None else named_subject(crash.memory)


def _report(
    number: int,
    page: Page | None,
    memory_map: MemoryMap | None,
    answer: MemoryAnswer | None,
    *,
    step: int | None,
    live: bool,
) -> MemoryReport:
    figures = _of_page(page)
    if memory_map is not None:
        figures = figures_of(memory_map, limit_bytes=figures.limit_bytes)
    of_oom = memory_map is not None and not live
    return MemoryReport(
        attempt=number,
        live=live,
        step=step,
        source="oom" if of_oom else _source(page),
        figures=figures,
        largest_allocatable_bytes=_allocatable(figures, page),
        memory_map=memory_map,
        answer=answer,
        between_steps_bytes=figures.in_use_bytes,
    )


def _source(page: Page | None) -> str | None:
    known = {int(source): source.name.lower() for source in MemorySource}
    return None if page is None else known.get(page.memory_source or 0)


def _allocatable(figures: MemoryFigures, page: Page | None) -> int | None:
    """By the map, else by the page."""
    growth, block = figures.growth_bytes, figures.largest_free_bytes
    if growth is not None and block is not None:
        return max(growth, block)
    return None if page is None else page.memory_largest_allocatable_bytes


def _of_page(page: Page | None) -> MemoryFigures:
    if page is None:
        return MemoryFigures()
    figures = MemoryFigures(
        limit_bytes=page.memory_limit_bytes,
        in_use_bytes=page.memory_in_use_bytes,
        peak_bytes=page.memory_peak_bytes,
        pool_bytes=page.memory_pool_bytes,
        largest_free_bytes=page.memory_largest_free_bytes,
    )
    return replace(complete(figures), fragmentation=page.memory_fragmentation)
