"""What supervision asks of a framework where steps are only tried: a part of ``base``."""

from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTrial:
    """Some steps of one size, tried: what they added to what is there between them."""

    added_bytes: tuple[int, ...]
    """Of each step but the first."""
    first_seconds: float
    """The first step, which traces and compiles."""
    step_seconds: float
    """The last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedTrial:
    """One call of the train function."""

    seconds: float
    """Until its results are there."""
    loss: float | None
    """Of its steps alone; None: they tell of none."""
    peak_bytes: int | None
    """In use in the allocator at most, meanwhile; None: it keeps no figures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialPlan:
    """How steps of one size are tried."""

    element_spec: Any
    """Shapes and dtypes of a batch of the script's."""
    least: int
    """Steps after the first."""
    most: int
    seconds: float
    """More than the least as long as they take no longer together."""


class StepTrials(Protocol):
    """Steps that are tried for their memory, in a process that trains nothing after."""

    @property
    def COMPILES(self) -> bool:  # noqa: N802  # a constant
        """Whether each size is compiled anew, whatever the model says."""

    @property
    def WHY_NOT(self) -> str | None:  # noqa: N802  # a constant
        """Why nothing can be tried on this backend; None: it can."""

    @property
    def WHY_NOT_STEPPED(self) -> str | None:  # noqa: N802  # as above
        """Why steps cannot be tried as they are trained; None: they can."""

    def device(self) -> str:
        """What steps are computed on: ``CPU`` or ``GPU``."""

    def stepped(self, model: Any, batches: Any) -> SteppedTrial | None:
        """Call the train function of ``model`` once, on what it draws from ``batches``;
        None: these are over."""

    def in_use(self) -> int | None:
        """Bytes in use in the framework's memory now; None: it keeps no figures."""

    def peak(self) -> int | None:
        """Bytes in use there at most since ``reset_peak``; None: as above."""

    def reset_peak(self) -> None:
        """Let the peak start again from what is in use now."""

    def kept(self, batch: Any) -> Any:
        """``batch`` in main memory, outside of the framework's where that is possible."""

    def whole(self, batch: Any) -> Any:
        """``batch`` with what each replica has of it put together."""

    def sized(self, batch: Any, size: int) -> Any:
        """``size`` samples of ``batch``, some of them again where it has fewer."""

    def tried(
        self, model: Any, batch: Any, short: Any | None, plan: TrialPlan
    ) -> StepTrial:
        """Train ``model`` on ``batch`` by the ``plan``. ``short``: a batch of another size
        or shape, as the data have, too; None: they do not."""

    def trained_once(self, model: Any) -> None:
        """Make what only a step makes: the variables of optimizers, say."""
