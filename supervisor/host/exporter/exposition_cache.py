"""What scrapes are answered with: rendered beforehand, once a scene.

``publish`` puts a scene up. It is rendered in the formats that were asked for lately, not
more often than about once a second, and a scrape is handed bytes that are ready. What
takes long is rendered by a thread, away from the loop; what took a moment last time is
rendered where it is published, as to wake up a thread, whose caches are cold, costs as
much again. The first scrape of a format renders it itself, in the thread that serves it.
"""

import gzip
import math
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.metrics.machine_state import Machine
from supervisor.host.exporter.exposition import (
    ExpositionEncoder,
    MetricsSnapshot,
    TakesLongError,
)

WANTED_SECONDS = 600.0
"""A format that nobody asked for in this time is not rendered any more."""
APART_SECONDS = 0.9
"""From one rendering to the next, at least."""
AT_ONCE_SECONDS = 0.005
"""What took no more than this is rendered where it is published."""
PAUSE_SECONDS = 0.0002
"""Rendering beforehand has time: it lets others have the interpreter in between."""
GZIP_LEVEL = 1
"""A scrape shrinks to a tenth; more effort would save little."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a scrape wants its answer."""

    openmetrics: bool = False
    gzipped: bool = False


@dataclass(slots=True)
class _Ready:
    number: int
    body: bytes


@dataclass(slots=True)
class _Shown:
    """What is up now. ``number`` counts the scenes."""

    number: int = 0
    scene: MetricsSnapshot = field(default_factory=MetricsSnapshot)


class ExpositionCache:
    """Any thread publishes, any number of threads read."""

    def __init__(self) -> None:
        self._shown: _Shown | None = None
        self._ready: dict[Form, _Ready] = {}
        self._wanted: dict[Form, float] = {}
        self._encoders = {
            openmetrics: ExpositionEncoder(openmetrics=openmetrics)
            for openmetrics in (False, True)
        }
        self._rendering = threading.Lock()
        self._begun_at = -math.inf
        """When formats were last rendered beforehand (monotonic seconds)."""
        self._costs: dict[Form, float] = {}
        """Processor seconds that rendering took, the last time."""
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Render by itself from now on."""
        self._thread = threading.Thread(target=self._work, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop rendering."""
        self._closed.set()
        self._changed.set()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def publish(
        self, statuses: Iterable[JobStatus], machine: Machine | None = None
    ) -> None:
        """Show these from now on; takes ``AT_ONCE_SECONDS`` at the most, or about."""
        number = 1 if self._shown is None else self._shown.number + 1
        scene = MetricsSnapshot(tuple(statuses), machine or Machine())
        self._shown = shown = _Shown(number, scene)
        if not self._is_cheap() or not self._rendering.acquire(blocking=False):
            self._changed.set()
            return
        try:
            self._try_to_refresh(shown, most_seconds=AT_ONCE_SECONDS)
        except TakesLongError:  # as where runs are new: not here, then
            self._costs.clear()
            self._begun_at = -math.inf
            self._changed.set()
        finally:
            self._rendering.release()

    def _is_cheap(self) -> bool:
        """Whether to render here, and now."""
        passed = time.monotonic() - self._begun_at
        cost = sum(self._costs.get(form, math.inf) for form in list(self._wanted))
        due = passed >= APART_SECONDS
        return self._thread is not None and due and cost <= AT_ONCE_SECONDS

    @property
    def ready(self) -> bool:
        """Whether anything was published yet."""
        return self._shown is not None

    def read(self, form: Form) -> bytes | None:
        """What to answer; None: nothing was published yet."""
        shown = self._shown
        if shown is None:
            return None
        kept_ready = form in self._wanted and self._thread is not None
        self._wanted[form] = time.monotonic()
        ready = self._ready.get(form)
        if ready is not None and (kept_ready or ready.number == shown.number):
            return ready.body
        return self._render(form, shown)

    def render(self, form: Form) -> None:
        """Render what is up now, at once."""
        if self._shown is not None:
            self._render(form, self._shown)

    def remembered(self, form: Form) -> int:
        """How many series the encoder of that form remembers."""
        return self._encoders[form.openmetrics].remembered

    def _render(self, form: Form, shown: _Shown) -> bytes:
        with self._rendering:
            return self._body(form, shown)

    def _body(
        self, form: Form, shown: _Shown, *, most_seconds: float = math.inf
    ) -> bytes:
        """To be asked for by one at a time. Raises TakesLongError."""
        ready = self._ready.get(form)
        if ready is not None and ready.number >= shown.number:
            return ready.body
        began = time.thread_time()
        if form.gzipped:
            plain_form = Form(openmetrics=form.openmetrics)
            plain = self._body(plain_form, shown, most_seconds=most_seconds)
            body = gzip.compress(plain, GZIP_LEVEL, mtime=0)
        else:
            pause = PAUSE_SECONDS if threading.current_thread() is self._thread else 0.0
            encoder = self._encoders[form.openmetrics]
            body = encoder.encode(
                shown.scene, pause_seconds=pause, most_seconds=most_seconds
            )
        self._ready[form] = _Ready(shown.number, body)
        self._costs[form] = time.thread_time() - began
        return body

    def _work(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            passed = time.monotonic() - self._begun_at
            if self._closed.wait(max(APART_SECONDS - passed, 0.0)):
                return
            with self._rendering:
                if self._shown is not None:
                    self._try_to_refresh(self._shown)

    def _try_to_refresh(self, shown: _Shown, *, most_seconds: float = math.inf) -> None:
        """What cannot be rendered is not shown: a scrape that fails is noticed, one that
        tells of yesterday is not. Raises TakesLongError."""
        self._begun_at = time.monotonic()
        try:
            self._refresh(shown, now=self._begun_at, most_seconds=most_seconds)
        except TakesLongError:
            raise
        except Exception:  # noqa: BLE001  # told to whoever scrapes; the next may go well
            self._ready.clear()

    def _refresh(self, shown: _Shown, *, now: float, most_seconds: float) -> None:
        for form, asked in list(self._wanted.items()):
            if now - asked <= WANTED_SECONDS:
                self._body(form, shown, most_seconds=most_seconds)
            else:
                del self._wanted[form]
                self._costs.pop(form, None)
        for form, ready in list(self._ready.items()):
            if ready.number < shown.number:  # nobody keeps that ready any more
                del self._ready[form]
