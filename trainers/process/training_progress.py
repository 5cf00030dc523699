"""How far training got in this attempt, for those who report its end."""

from typing import Any, NamedTuple, Protocol


class RunningFit(Protocol):
    """The ``fit``, or loop of the script's own, that is followed now."""

    @property
    def model(self) -> Any:
        """What it trains."""

    @property
    def callbacks(self) -> list[Any]:
        """The script's own."""

    @property
    def data_adapter(self) -> Any | None:
        """Keras' adapter of its data."""


class LastSaved(NamedTuple):
    """The newest snapshot on disk that this attempt knows of."""

    step: int | None = None
    snapshot: str | None = None


class TrainingProgress:
    """The calls of ``fit`` of one attempt."""

    def __init__(self) -> None:
        self._steps: int | None = None
        self._running: RunningFit | None = None
        self._saved = LastSaved()
        self._is_open = False

    @property
    def is_open(self) -> bool:
        """Whether the first call of ``fit`` has opened the snapshots."""
        return self._is_open

    def opened(self) -> None:
        """The snapshots are open."""
        self._is_open = True

    @property
    def steps(self) -> int | None:
        """Steps completed by this attempt; None before a supervised ``fit``."""
        return self._steps

    @property
    def running(self) -> RunningFit | None:
        """The ``fit`` that runs now."""
        return self._running

    @property
    def saved(self) -> LastSaved:
        """The newest snapshot on disk."""
        return self._saved

    def called(self) -> None:
        """The script called ``fit``, whether or not there is a step left in it."""
        self._steps = self._steps or 0

    def began(self, fit: RunningFit) -> None:
        """``fit`` has steps left to do."""
        self.called()
        self._running = fit

    def ran(self, steps: int) -> None:
        """So many more are done."""
        self._steps = (self._steps or 0) + steps

    def ended(self) -> None:
        """The ``fit`` that ran is over."""
        self._running = None

    def is_saved(self, *, step: int, snapshot: str) -> None:
        """``snapshot`` is on disk."""
        self._saved = LastSaved(step, snapshot)
