"""The answer to a scrape: rendered when it is asked for, once for each scene and form."""

import gzip
import threading
from collections.abc import Iterable
from dataclasses import dataclass

from supervisor.core.jobs.job_status import JobStatus
from supervisor.core.metrics.machine_state import Machine
from supervisor.host.exporter.exposition import ExpositionEncoder, MetricsSnapshot

GZIP_LEVEL = 1
"""A scrape shrinks to a tenth; more effort would save little."""


@dataclass(frozen=True, slots=True)
class Form:
    """How a scrape wants its answer."""

    openmetrics: bool = False
    gzipped: bool = False


class ExpositionCache:
    """Any thread publishes, any number of threads read."""

    def __init__(self) -> None:
        self._scene: MetricsSnapshot | None = None
        self._rendered: MetricsSnapshot | None = None
        """What the bodies tell of."""
        self._bodies: dict[Form, bytes] = {}
        self._encoders = {
            openmetrics: ExpositionEncoder(openmetrics=openmetrics)
            for openmetrics in (False, True)
        }
        self._rendering = threading.Lock()

    def publish(
        self, statuses: Iterable[JobStatus], machine: Machine | None = None
    ) -> None:
        """Show these from now on; never waits."""
        self._scene = MetricsSnapshot(tuple(statuses), machine or Machine())

    def read(self, form: Form) -> bytes | None:
        """What to answer; None: nothing was published yet."""
        with self._rendering:
            scene = self._scene
            if scene is None:
                return None
            if scene is not self._rendered:
                self._bodies.clear()
                self._rendered = scene
            return self._body(form, scene)

    def _body(self, form: Form, scene: MetricsSnapshot) -> bytes:
        if form not in self._bodies:
            if form.gzipped:
                plain = self._body(Form(openmetrics=form.openmetrics), scene)
                body = gzip.compress(plain, GZIP_LEVEL, mtime=0)
            else:
                body = self._encoders[form.openmetrics].encode(scene)
            self._bodies[form] = body
        return self._bodies[form]
