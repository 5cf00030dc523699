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
from dataclasses import dataclass
from typing import NamedTuple, Self

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


class _Ready(NamedTuple):
    """An answer, and what it tells of."""

    scene: MetricsSnapshot
    body: bytes


class ExpositionCache:
    """Any thread publishes, any number of threads read."""

    def __init__(self) -> None:
        self._scene: MetricsSnapshot | None = None
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
        self._scene = MetricsSnapshot(tuple(statuses), machine or Machine())
        self._changed.set()

    def read(self, form: Form) -> bytes | None:
        """What to answer; None: nothing was published yet."""
        scene = self._scene
        if scene is None:
            return None
        kept_ready = form in self._wanted and self._thread is not None
        self._wanted[form] = time.monotonic()
        ready = self._ready.get(form)
        if ready is not None and (kept_ready or ready.scene is scene):
            return ready.body
        with self._rendering:
            return self._body(form, self._scene or scene)

    def _body(self, form: Form, scene: MetricsSnapshot) -> bytes:
        """To be asked for by one at a time."""
        ready = self._ready.get(form)
        if ready is not None and ready.scene is scene:
            return ready.body
        if form.gzipped:
            plain = self._body(Form(openmetrics=form.openmetrics), scene)
            body = gzip.compress(plain, GZIP_LEVEL, mtime=0)
        else:
            pause = PAUSE_SECONDS if threading.current_thread() is self._thread else 0.0
            encoder = self._encoders[form.openmetrics]
            body = encoder.encode(scene, pause_seconds=pause)
        self._ready[form] = _Ready(scene, body)
        return body

    def _work(self) -> None:
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            passed = time.monotonic() - self._begun_at
            if self._closed.wait(max(APART_SECONDS - passed, 0.0)):
                return
            with self._rendering:
                if self._scene is not None:
                    self._try_to_refresh(self._scene)

    def _try_to_refresh(self, scene: MetricsSnapshot) -> None:
        """What cannot be rendered is not shown: a scrape that fails is noticed, one that
        tells of yesterday is not."""
        self._begun_at = time.monotonic()
        try:
            self._refresh(scene, now=self._begun_at)
        except Exception:  # noqa: BLE001  # told to whoever scrapes; the next may go well
            self._ready.clear()

    def _refresh(self, scene: MetricsSnapshot, *, now: float) -> None:
        for form, asked in list(self._wanted.items()):
            if now - asked <= WANTED_SECONDS:
                self._body(form, scene)
            else:
                del self._wanted[form]
        for form, ready in list(self._ready.items()):
            if ready.scene is not scene:  # nobody keeps that ready any more
                del self._ready[form]
