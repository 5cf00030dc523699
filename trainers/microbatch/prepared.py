"""What microbatching changed for a ``fit``: light to import, where nothing is sliced."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from supervisor.wire.slices import count


@dataclass(kw_only=True)
class Prepared:
    """What was changed for one ``fit``; ``restore`` undoes it."""

    batch: int | None = None
    """Samples in a whole batch; None: not looked at."""
    mode: str | None = None
    """``exact``, ``two_pass`` or ``reduce``; None: not sliced."""
    deviations: tuple[str, ...] = ()
    restore: Callable[[], None] = lambda: None
    """Undo the changes to the model; call it when ``fit`` is over, however it ended."""
    _size: Callable[[], int] | None = field(default=None, repr=False)
    _calibration: Any = field(default=None, repr=False)
    """The ``CalibrationRun``."""

    @property
    def size(self) -> int | None:
        """Samples a slice, now; None: not sliced."""
        return None if self._size is None else self._size()

    @property
    def daring(self) -> bool:
        """Whether the next step is the first of a size that might not fit."""
        return self._calibration is not None and bool(self._calibration.daring)

    @property
    def slices(self) -> int:
        """Slices of a whole batch, now; 1: not sliced."""
        if self.size is None or self.batch is None:
            return 1
        return count(batch=self.batch, size=self.size)
