"""The recorder of memory by the phases of an epoch: a mark as each begins and as it ends.

Nothing is reset, as others count by the same peak: what a phase needs is worked out from
the marks by who reads the records (``supervisor.core.advisories.next_peak``). A mark takes
some microseconds, and there are a dozen in an epoch. A record is written where it tells
something else than the one before it, so a training that settles writes none.
"""

from collections.abc import Callable
from typing import Any

from supervisor.wire.event_file import RecordKind
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak
from trainers.backends.memory.allocator_figures import MemoryMark

NEWS = 1 / 512
"""Figures that differ by less of the limit are told once."""


class PhaseRecorder:
    """The phases of one ``fit``."""

    def __init__(
        self, say: Callable[..., None], mark: Callable[[], MemoryMark | None]
    ) -> None:
        """``say(kind, **fields)`` writes a record; ``mark`` tells what is in use now."""
        self._say, self._mark = say, mark
        self._between = 0
        """The most that was in use between two steps of this epoch."""
        self._began: tuple[PeakPhase, MemoryMark] | None = None
        self._at_begin: MemoryMark | None = None
        """As the epoch began; None: nothing tells, or its first step is done."""
        self._told: dict[str, tuple[tuple[int, ...], object]] = {}

    def epoch_begins(self) -> None:
        """Right before its first step."""
        self._between = 0
        self._at_begin = self.begins(PeakPhase.STEPS)

    def stepped(self, step: int, validation_epochs: Callable[[], int | None]) -> None:
        """A step is done, the ``step``-th of the run."""
        before, self._at_begin = self._at_begin, None
        mark = None if before is None else self._seen()
        if before is None or mark is None:
            return
        memory = EpochMemory(
            step=step,
            in_use_bytes=min(before.in_use, mark.in_use),
            validation_epochs=validation_epochs(),
        )
        figures, other = (memory.in_use_bytes,), memory.validation_epochs
        if self._is_news(RecordKind.EPOCH_MEMORY, figures, other, mark.limit):
            self._say(RecordKind.EPOCH_MEMORY, **memory.to_json())

    def begins(self, phase: PeakPhase) -> MemoryMark | None:
        """One that was under way is over, and not told of."""
        mark = self._seen()
        self._began = None if mark is None else (phase, mark)
        return mark

    def ends(self, phase: PeakPhase) -> None:
        """Tell what it came to, if ``phase`` is the one that began."""
        began, self._began = self._began, None
        if began is None or began[0] is not phase:
            return
        mark = self._seen() if phase is PeakPhase.STEPS else self._mark()
        if mark is None:
            return
        peak = PhasePeak(
            phase=phase,
            between_bytes=self._between,
            before_bytes=began[1].peak,
            peak_bytes=mark.peak,
            limit_bytes=mark.limit,
        )
        figures = (peak.between_bytes, peak.peak_bytes)
        rose = peak.peak_bytes > peak.before_bytes
        if self._is_news(phase, figures, rose, mark.limit):
            self._say(RecordKind.PHASE_PEAK, **peak.to_json())

    def _seen(self) -> MemoryMark | None:
        """A mark between two steps."""
        mark = self._mark()
        if mark is not None:
            self._between = max(self._between, mark.in_use, mark.most_between)
        return mark

    def _is_news(
        self, name: str, figures: tuple[int, ...], other: Any, limit: int
    ) -> bool:
        told = self._told.get(name)
        if told is not None and told[1] == other:
            moved = [abs(a - b) for a, b in zip(told[0], figures, strict=True)]
            if max(moved) < NEWS * limit:
                return False
        self._told[name] = figures, other
        return True


def epochs_until_validation(every: Any, *, epoch: int, epochs: int) -> int | None:
    """After how many epochs the next validation is, of ``epochs`` that are to be made; 0:
    at the end of this one (``epoch``, from 0); None: there is none any more.

    ``every``: Keras' ``validation_freq``, a number of epochs, or a list of which.
    """
    if isinstance(every, int):
        ahead = -(epoch + 1) % max(every, 1)
        return ahead if epoch + ahead < epochs else None
    try:
        later = [int(one) - 1 - epoch for one in every]
    except (TypeError, ValueError):
        return None
    return min((one for one in later if 0 <= one < epochs - epoch), default=None)
