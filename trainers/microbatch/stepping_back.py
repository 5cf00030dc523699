"""A smaller slice after a step that came too near the limit, as long as that helps."""

from dataclasses import dataclass

from supervisor.wire.slices import TIGHT_PART, balanced
from trainers.microbatch.calibration import (
    ONE_PIECE,
    SMALL_PIECE,
    Readings,
)


def stepped_back(
    size: int,
    step: Readings,
    *,
    batch: int,
    limit_bytes: int,
) -> int:
    """The slice after a ``step`` in slices of ``size``: where that came too near to the
    limit, one that makes a slice more. That costs little, and running out costs a crash.

    Not where memory that is short makes operations wait, and no more: where a step asks
    for many small pieces (measured: an mlp at 0.998 of the limit, on a busy machine too)
    or for one block alone.
    """
    if step.peak <= TIGHT_PART * limit_bytes:
        return size
    added = max(1, step.peak - step.between)
    part = None if step.request is None else step.request / added
    if part is not None and not SMALL_PIECE <= part < ONE_PIECE:
        return size
    return balanced(batch=batch, size=max(1, size - 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedBack:
    """The first step of a ``fit`` after which a smaller slice was taken, in bytes."""

    size: int
    """Samples a slice in it."""
    added: int
    """What it added to what lay there before."""

    def is_vain(self, size: int, step: Readings) -> bool:
        """Whether slices of half the size, or less, have saved less than half of what they
        would if all that a step adds were theirs: what is large then is no slice (a buffer
        of fixed size, say), and ever smaller ones would only be slow."""
        would_be = self.added * (1 - size / self.size)
        return 2 * size <= self.size and 2 * self._saved(step) < would_be

    def unsliced_bytes(self, size: int, step: Readings) -> int:
        """What ``step`` needed whatever the size, by the line through it and the first."""
        each = max(0, self._saved(step)) / (self.size - size)
        return int(step.peak - each * size)

    def _saved(self, step: Readings) -> int:
        return self.added - (step.peak - step.between)
