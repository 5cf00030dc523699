"""The recorder of progress: pages of the running attempt, thinned, on their way to the ledger.

It costs training nothing: the page is read anyway. Writing waits for the disk, so the
series is written the more seldom the longer the attempt lasts, and at its end.
"""

import contextlib
import math
from dataclasses import dataclass, field

from supervisor.core.diagnosis.evidence import Evidence
from supervisor.core.jobs.accounting.progress_series import (
    ProgressPoint,
    ProgressSeries,
)
from supervisor.host.ledger.ledger_file import LedgerError
from supervisor.host.ledger.run_archive import RunArchive
from supervisor.host.service.clock import Clock
from supervisor.wire.page import Page

FIRST_SECONDS = 5.0
"""What a reader misses of a young attempt, at most."""
MOST_SECONDS = 300.0
"""... and of an old one; between them a twentieth of what it has lasted."""
SHARE = 20


def point_of(page: Page, *, seconds: float) -> ProgressPoint:
    """What ``page`` tells, so many ``seconds`` after the launch of its attempt."""
    loss = _figure(page.loss)
    return ProgressPoint(
        seconds=round(max(seconds, 0.0), 3),
        step=page.step,
        epoch=page.epoch,
        loss=loss,
        loss_step=None if loss is None else page.loss_step or None,
        step_seconds=_figure(page.step_seconds),
        device_bytes=page.memory_in_use_bytes,
        pool_bytes=page.memory_pool_bytes,
        limit_bytes=page.memory_limit_bytes,
        largest_free_bytes=page.memory_largest_free_bytes,
        peak_bytes=page.memory_peak_bytes,
        host_bytes=page.host_rss_bytes,
    )


def _figure(value: float | None) -> float | None:
    """Six digits; JSON has none for what is no number."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.6g}")


def _limit_in(evidence: Evidence) -> int | None:
    """What the allocator had to keep to, by what it wrote of its failure: an attempt that
    came to no step has told it on no page."""
    figures = (evidence.dump, *(one.figures for one in evidence.log.dumps))
    known = (one.limit_bytes for one in figures if one is not None)
    return next((one for one in known if one is not None), None)


@dataclass(kw_only=True)
class ProgressRecorder:
    """The series of one run's attempts, one after the other."""

    run: int
    archive: RunArchive
    clock: Clock
    cpu_limit_bytes: int | None = None
    """Of the CPU's allocator, where the spec sets one: known before anybody tells it."""
    _attempt: int | None = None
    _began: float = 0.0
    """Monotonic seconds."""
    _due: float = 0.0
    _series: ProgressSeries = field(default_factory=ProgressSeries)
    _before: int | None = None
    """The most of what came before the series."""

    def __post_init__(self) -> None:
        with contextlib.suppress(LedgerError):
            self._before, _ = self.archive.device_peak(self.run)

    @property
    def run_peak_bytes(self) -> int | None:
        """The most that an allocator had in use, of all attempts; None: not known."""
        known = (self._before, self._series.device_peak_bytes)
        return max((one for one in known if one is not None), default=None)

    def begin(self, attempt: int) -> None:
        """An attempt was launched just now."""
        self._follow(attempt, ProgressSeries(), began=self.clock.now())

    def take_over(self, attempt: int) -> None:
        """An attempt goes on that an earlier supervisor followed."""
        try:
            series = self.archive.series(self.run, attempt)
            at = self.archive.began_at(self.run, attempt)
        except (LedgerError, ValueError):
            series, at = ProgressSeries(), None
        since = 0.0 if at is None else self.clock.wall() - at
        began = self.clock.now() - max(since, series.seconds)
        self._follow(attempt, series, began=began)

    def _follow(self, attempt: int, series: ProgressSeries, *, began: float) -> None:
        self._before = self.run_peak_bytes
        self._attempt, self._series, self._began = attempt, series, began
        self._due = self.clock.now() + FIRST_SECONDS

    def see(self, page: Page) -> None:
        """Where the attempt is now."""
        if self._attempt is None:
            return
        point = point_of(page, seconds=self.clock.now() - self._began)
        self._series = self._series.with_point(point)
        if self.clock.now() >= self._due:
            self.write()

    def told_peak(self, peak_bytes: int | None, limit_bytes: int | None) -> None:
        """The attempt tells of a peak: between two looks it may have come and gone."""
        self._add(peak_bytes=peak_bytes, limit_bytes=limit_bytes)

    def failed(self, evidence: Evidence) -> None:
        """A step failed: what the allocator says of that is on no page."""
        if evidence.dump is not None:
            limit = self.cpu_limit_bytes or _limit_in(evidence)
            self._add(peak_bytes=evidence.dump.peak_bytes, limit_bytes=limit)

    def end(self, evidence: Evidence | None = None) -> None:
        """The attempt has ended: what was seen of it is written down."""
        if evidence is not None:
            self.failed(evidence)
        if evidence is not None and evidence.exit is not None:
            self._add(host_bytes=evidence.exit.max_rss_bytes)
        self.write()
        self._attempt = None

    def _add(self, **known: int | None) -> None:
        """What belongs to the newest point, where anything is known."""
        if self._attempt is None or not any(known.values()):
            return
        point = ProgressPoint(seconds=self._series.seconds, **known)
        self._series = self._series.with_point(point)

    def write(self) -> None:
        """Write the series down. A curve is worth no retry: a ledger that cannot be
        written now is told of by those who have to, and the next time is soon enough."""
        if self._attempt is None or not self._series.points:
            return
        lasted = self.clock.now() - self._began
        wait = min(max(FIRST_SECONDS, lasted / SHARE), MOST_SECONDS)
        self._due = self.clock.now() + wait
        try:
            self.archive.put_progress(self.run, self._attempt, self._series)
        except LedgerError:
            return
