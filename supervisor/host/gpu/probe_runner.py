"""The runner of one probe, wherever its lines come from.

The watch of a supervisor has one, and the service that keeps the probe for a daemon.
Nothing here waits for a driver.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from supervisor.core.gpu.gpu_readings import Absent, GpuSample, Hanging, Logged
from supervisor.core.gpu.probe_protocol import parse_line
from supervisor.core.gpu.probe_supervision import (
    Backfill,
    Effect,
    Ended,
    Event,
    Heard,
    KillProbe,
    ProbeMessage,
    ProbeSupervision,
    StartProbe,
    Tick,
    step,
)
from supervisor.host.gpu.probe_sources import NoSourceError, ProbeSource
from supervisor.host.service.clock import Clock

LINE_BYTES = 1024 * 1024
"""Longer lines are nothing that a probe writes."""


Heed = Callable[[bytes, GpuSample | Logged], None]
"""Takes a line in, as it came and as it was understood."""


def unheeded(_since: float) -> None:
    """Nobody asks the journal."""


@dataclass(slots=True, kw_only=True)
class ProbeRunner:
    """The probe that there is at a time, and how it is doing."""

    begin: Callable[[], ProbeSource]
    """Raises OSError, NoSourceError."""
    heed: Heed
    say: Callable[[str], None]
    clock: Clock
    probe: ProbeSupervision
    missed: Callable[[float], None] = unheeded
    """Told since when nobody listened (monotonic seconds)."""
    _source: ProbeSource | None = None
    _unread: bytes = b""
    _inbox: deque[Event] = field(default_factory=deque[Event])

    @property
    def descriptors(self) -> tuple[int, ...]:
        """What becomes readable when ``read`` has something to do."""
        return () if self._source is None else self._source.descriptors

    def tick(self) -> None:
        """Do what is due."""
        self._inbox.append(Tick())
        self._catch_up()

    def read(self) -> None:
        """Take in what was said."""
        source = self._source
        if source is None:
            return
        chunk, ended = source.read()
        *lines, rest = (self._unread + chunk).split(b"\n")
        self._unread = rest[:LINE_BYTES]
        for line in lines:
            self._take(line)
        if ended is not None:
            self._drop(wait_seconds=0.0)
            self._inbox.append(ended)
        self._catch_up()

    def close(self) -> None:
        """End it; one that cannot be killed is left behind."""
        self._drop(wait_seconds=self.probe.limits.kill_seconds)

    def _take(self, line: bytes) -> None:
        said = parse_line(line)
        match said:
            case Absent() | Hanging():
                self._inbox.append(said)
            case GpuSample():
                self.heed(line, said)
                self._inbox.append(Heard())
            case Logged():
                self.heed(line, said)
            case None:
                return

    def _catch_up(self) -> None:
        while self._inbox:
            event = self._inbox.popleft()
            self.probe, effects = step(self.probe, event, now=self.clock.now())
            for effect in effects:
                self._perform(effect)

    def _perform(self, effect: Effect) -> None:
        match effect:
            case StartProbe():
                self._start()
            case KillProbe():
                if self._source is not None:
                    self._source.kill()
            case ProbeMessage(text=text):
                self.say(text)
            case Backfill(since=since):
                self.missed(since)

    def _start(self) -> None:
        self._drop(wait_seconds=0.0)  # one that said that there is nothing to ask
        try:
            self._source = self.begin()
        except NoSourceError as error:
            # Where there was something once, this is a failure and no property.
            because, known = str(error), self.probe.heard is not None
            self._inbox.append(Ended(because) if known else Absent(because))
        except OSError as error:
            self._inbox.append(Ended(error.strerror or str(error)))

    def _drop(self, *, wait_seconds: float) -> None:
        if self._source is not None:
            self._source.close(wait_seconds=wait_seconds)
        self._source, self._unread = None, b""
