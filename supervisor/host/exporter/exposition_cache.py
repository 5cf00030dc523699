"""What scrapes are answered with: rendered beforehand, once a scene.

``publish`` puts a scene up. A thread renders it, away from the loop, in the formats that
were asked for lately, not more often than about once a second, and a scrape is handed
bytes that are ready. The first scrape of a format renders it itself, in the thread that
serves it.
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
from supervisor.host.exporter.exposition import ExpositionEncoder, MetricsSnapshot

WANTED_SECONDS = 600.0
"""A format that nobody asked for in this time is not rendered any more."""
APART_SECONDS = 0.9
"""From one rendering to the next, at least."""
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
        """Show these from now on; never waits."""
        number = 1 if self._shown is None else self._shown.number + 1
        self._shown = _Shown(
            number, MetricsSnapshot(tuple(statuses), machine or Machine())
        )
        self._changed.set()

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

    def _body(self, form: Form, shown: _Shown) -> bytes:
        """To be asked for by one at a time."""
        ready = self._ready.get(form)
        if ready is not None and ready.number >= shown.number:
            return ready.body
        if form.gzipped:
            plain = self._body(Form(openmetrics=form.openmetrics), shown)
            body = gzip.compress(plain, GZIP_LEVEL, mtime=0)
        else:
            pause = PAUSE_SECONDS if threading.current_thread() is self._thread else 0.0
            encoder = self._encoders[form.openmetrics]
            body = encoder.encode(shown.scene, pause_seconds=pause)
        self._ready[form] = _Ready(shown.number, body)
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

    def _try_to_refresh(self, shown: _Shown) -> None:
        """What cannot be rendered is not shown: a scrape that fails is noticed, one that
        tells of yesterday is not."""
        self._begun_at = time.monotonic()
        try:
            self._refresh(shown, now=self._begun_at)
        except Exception:  # noqa: BLE001  # told to whoever scrapes; the next may go well
            self._ready.clear()

    def _refresh(self, shown: _Shown, *, now: float) -> None:
        for form, asked in list(self._wanted.items()):
            if now - asked <= WANTED_SECONDS:
                self._body(form, shown)
            else:
                del self._wanted[form]
        for form, ready in list(self._ready.items()):
            if ready.number < shown.number:  # nobody keeps that ready any more
                del self._ready[form]
