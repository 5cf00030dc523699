"""The progress of training in this attempt, for those who report its end."""

from typing import Any, Protocol


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

    @property
    def pipeline(self) -> Any | None:
        """The framework's pipeline of its batches; None: there is none, or not yet."""

    @property
    def batch(self) -> int | None:
        """Samples of a batch; None: not known."""


class TrainingProgress:
    """The calls of ``fit`` of one attempt."""

    def __init__(self) -> None:
        self.steps: int | None = None
        """Steps completed by this attempt; None before a supervised ``fit``."""
        self.running: RunningFit | None = None
        """The ``fit`` that runs now."""
        self.loop = False
        """Whether calls of the script's own loop are recorded: a drain waits for one."""
        self.own_steps = False
        """Whether the script makes steps outside of ``fit``, and called none since."""
        self.saved: tuple[int | None, str | None] = None, None
        """Step and name of the newest snapshot on disk that this attempt knows of."""
        self.measured = False
        """Whether steps of the script's own loop are measured now: they may be made, though
        nothing is trained."""
        self.needs_told = False
        """Whether a ``fit`` told what its steps need of memory."""
        self.is_open = False
        """Whether the first call of ``fit`` has opened the snapshots."""

    def opened(self) -> None:
        """The snapshots are open."""
        self.is_open = True

    def called(self) -> None:
        """The script called ``fit``, whether or not there is a step left in it."""
        self.own_steps = False
        self.steps = self.steps or 0

    def began(self, fit: RunningFit) -> None:
        """``fit`` has steps left to do."""
        self.called()
        self.running = fit

    def ran(self, steps: int) -> None:
        """So many more are done."""
        self.steps = (self.steps or 0) + steps

    def ended(self) -> None:
        """The ``fit`` that ran is over."""
        self.running = None

    def is_saved(self, *, step: int, snapshot: str) -> None:
        """``snapshot`` is on disk."""
        self.saved = step, snapshot
