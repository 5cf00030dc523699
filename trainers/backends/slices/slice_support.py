"""What supervision asks of a framework to work through a batch in slices: a part of
``base``."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from trainers.backends.memory.allocator_figures import Figures, PeakReading
from trainers.backends.slices.slice_loss import LossRules


class SliceSupport(Protocol):
    """The steps of a batch in slices, and the memory that they need."""

    def own_variable(self, value: int) -> Any:
        """An integer that is no part of training, with ``assign`` and ``numpy``; a
        compiled step sees what it is then."""

    def step(
        self, model: Any, *, rules: LossRules, wide_products: bool
    ) -> Callable[..., Any]:
        """What makes the train step of ``model``, of two own variables: ``size``,
        samples a slice, and ``seen``, which is raised to the samples of each batch."""

    def reduced_step(
        self, model: Any, *, exponent: float, rates: Sequence[Any]
    ) -> Callable[..., Any]:
        """The same where each slice is a batch of its own, for the script's step.

        ``rates``: learning rates, which are divided by this power of the slices.
        """

    def computed_by(
        self, model: Any, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """``function``, part of a train step, compiled as that of ``model`` is."""

    def why_not_on_devices(self, model: Any) -> str | None:
        """Why its devices cannot work through slices, as half a sentence; None: they
        can."""

    def is_sparse(self, leaf: Any) -> bool:
        """Whether it is a tensor that is not cut as one of plain rows."""

    def compiles_less(self, model: Any) -> str | None:
        """What of its step is compiled no more in slices, as a sentence; None: nothing."""

    def changed_by_steps(self, model: Any) -> list[str]:
        """What steps in slices change in a result, whatever the model is made of: as
        sentences."""

    # --- the check before training ---

    def kept(self, model: Any) -> AbstractContextManager[None]:
        """Within, ``model`` is as in training; at the end random states, and what it
        keeps beside its variables, are put back."""

    def stirred_beside(
        self, model: Any
    ) -> AbstractContextManager[list[tuple[Any, bool]]]:
        """Layers that a forward pass within changes beside their variables, and whether
        by drawing random numbers; else they keep statistics. Filled at the end."""

    def drawn_as_whole(
        self,
        model: Any,
        few: Any,
        spans: Sequence[tuple[int, int]],
        before: dict[int, Any],
    ) -> list[tuple[Any, Any]] | None:
        """Predictions and added losses of slices of ``few`` that draw the random numbers
        of the whole batch; None: not all of them can be drawn so.

        ``before``: values, by ``id``, of the states that the whole batch began with.
        """

    # --- memory ---

    def limit_bytes(self) -> int | None:
        """Of the allocator of the first GPU; None: there is none, or it is not known."""

    def peak(self) -> PeakReading | None:
        """The allocator now; None: it keeps no figures."""

    def reset_peak(self) -> None:
        """Let the peak start again from what is in use now."""

    def figures(self, *, needed: bool) -> Figures | None:
        """What is known of its free blocks; ``needed``: it may be waited for."""

    def wait(self, results: Any) -> None:
        """Return once what ``results`` were computed by is over."""
