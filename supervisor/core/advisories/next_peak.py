"""The next known peak: what each phase of an epoch needs, against what is left now.

The rules:

1. What a phase needs is its peak less the most that was in use between the steps of its
   epoch. The allocator counts one peak of all that was; so it is known of a phase only if
   that rose in it. If it did not, the phase needed no more than the peak that stands there.
2. A peak close to the limit is none to learn from: operations wait for each other's memory
   there, and take what there is.
3. Which operations run at once differs from time to time, and with it what a phase takes:
   of its last two times the one that took less counts. The first time is not enough: it
   traces and compiles.
4. What is in use now is the least of the newest readings between steps: one may come while
   the data are read ahead.
5. The next peak fits as long as what is in use and what it needs are within the limit.
   Nothing is told of a phase that was never seen.
6. Steps count where some samples are longer than others: else all need the same, and the
   first of an epoch has shown it. Steps of a batch in slices are left out: their size is
   chosen so that they nearly fill the limit, and is changed where they come too near.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from supervisor.wire.readings import AllocatorReading
from supervisor.wire.records.phase_peaks import EpochMemory, PeakPhase, PhasePeak
from supervisor.wire.slices import TIGHT_PART

LAST = 2
"""So many times of a phase are looked at."""
NEWEST = 3
"""What is in use now is the least of so many readings."""


def needed(before: int | None, seen: PhasePeak) -> int | None:
    """Bytes that a phase needed beyond what lies between steps; None: not known.

    ``before``: what it needed the time before.
    """
    own = max(seen.peak_bytes - seen.between_bytes, 0)
    rose = seen.peak_bytes > seen.before_bytes
    if rose and seen.peak_bytes <= TIGHT_PART * seen.limit_bytes:
        return own
    return None if before is None else min(before, own)


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseNeeds:
    """What the phases of a ``fit`` were seen to need, and how its newest epoch began."""

    seen: dict[PeakPhase, tuple[int, ...]] = field(
        default_factory=dict[PeakPhase, tuple[int, ...]]
    )
    """Bytes that each needed the last times, the newest last."""
    epoch: EpochMemory | None = None

    def and_then(self, seen: PhasePeak) -> "PhaseNeeds":
        """With one more phase that is over."""
        phase = PeakPhase(seen.phase)
        known = self.seen.get(phase, ())
        need = needed(known[-1] if known else None, seen)
        if need is None:
            return self
        return replace(self, seen={**self.seen, phase: (*known, need)[-LAST:]})

    @property
    def bytes_of(self) -> dict[PeakPhase, int]:
        """What each needs at least, of those of which it is known."""
        return {
            phase: min(times)
            for phase, times in self.seen.items()
            if len(times) == LAST
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAhead:
    """What is left in an epoch, and what is to come in it."""

    needs: PhaseNeeds
    in_use_bytes: int
    """Now, between steps."""
    limit_bytes: int
    sliced: bool = False
    steps_left: int | None = None
    """Of this epoch; None: not known."""
    steps_per_epoch: int | None = None

    @property
    def left_bytes(self) -> int:
        """What may still be taken."""
        return max(self.limit_bytes - self.in_use_bytes, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakAhead:
    """A phase to come that does not fit."""

    phase: PeakPhase
    need_bytes: int
    epochs: int = 0
    """It comes at the end of this epoch (0), or of a later one."""
    steps: int | None = None
    """Until then; None: not known."""


def in_use_now(epoch: EpochMemory, readings: Sequence[AllocatorReading]) -> int:
    """Bytes in use between steps; ``readings``: the newest, oldest first."""
    newest = [one.in_use for one in readings if one.step > epoch.step][-NEWEST:]
    return min(newest) if len(newest) == NEWEST else epoch.in_use_bytes


def next_peak(ahead: MemoryAhead) -> PeakAhead | None:
    """The phase that is to come and does not fit, of several the one that needs most."""
    epoch = ahead.needs.epoch
    if epoch is None:
        return None
    short = {
        phase: need
        for phase, need in ahead.needs.bytes_of.items()
        if need > ahead.left_bytes
        and not (phase is PeakPhase.STEPS and ahead.sliced)
        and not (phase is PeakPhase.VALIDATION and epoch.validation_epochs is None)
    }
    if not short:
        return None
    phase = max(short, key=lambda one: short[one])
    epochs = epoch.validation_epochs or 0 if phase is PeakPhase.VALIDATION else 0
    return PeakAhead(
        phase=phase,
        need_bytes=short[phase],
        epochs=epochs,
        steps=None if phase is PeakPhase.STEPS else _steps_until(ahead, epochs),
    )


def _steps_until(ahead: MemoryAhead, epochs: int) -> int | None:
    """Steps until the end of the epoch that is ``epochs`` after this one."""
    if ahead.steps_left is None or ahead.steps_per_epoch is None:
        return None
    return ahead.steps_left + epochs * ahead.steps_per_epoch
