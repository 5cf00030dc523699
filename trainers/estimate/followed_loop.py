"""A loop of the script's own without a session, measured by the calls of what it compiled.

A call of a ``tf.function`` that moves an optimizer's counter is a step, as in a run
(``trainers.loops``). The first such call traces it: it is measured from the next one on.
What is trained is what the optimizer is applied to; other variables are among the data.

This is loaded in the middle of the import of Keras: what measures, which needs Keras whole,
at the first step.
"""

from collections.abc import Callable, Sequence
from typing import Any

from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks.own_steps import counted
from trainers.process.script import isolation


class FollowedLoop:
    """The calls that the script makes of compiled functions."""

    def __init__(self, attempt: Attempt, hooks: Any) -> None:
        """``hooks``: ``backends.tensorflow.functions.call_hooks``."""
        self._attempt, self._hooks = attempt, hooks
        self._optimizers: list[Any] = []
        self._trained: list[Any] = []
        self._measured: Any = None
        """The ``loop_memory.LoopMeasurement``, once a step was made."""
        self.in_call = False
        """Whether such a function runs, or is traced."""

    def applied(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """``optimizer`` is applied to ``variables`` within a call."""
        if optimizer not in self._optimizers:
            self._optimizers.append(optimizer)
            self._trained += variables

    def call(
        self,
        function: Any,
        run: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """What ``run(function, *args, **kwargs)`` returns."""
        before = self._steps()
        self.in_call = True
        try:
            with self._hooks.quiet():
                result = run(function, *args, **kwargs)
        finally:
            self.in_call = False
        if not self._attempt.training.measured and self._steps() > before:
            self._over(args, kwargs)
        return result

    def elsewhere(self, function: Any) -> None:
        """Another thread calls ``function``: no step of the script's."""

    def script_ends(self) -> None:
        """The loop was shorter than a measurement: what there was of it counts."""
        if self._measured is not None:
            self._measured.over()

    def _steps(self) -> int:
        return sum(
            counted(getattr(one, "iterations", None)) for one in self._optimizers
        )

    def _over(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A step is."""
        if self._measured is None:
            module = isolation.load("trainers.estimate.loop_memory")
            parts = module.LoopParts()
            parts.model, parts.trained = list(self._trained), list(self._trained)
            for one in self._optimizers:
                parts.add(one)
            self._measured = module.LoopMeasurement(self._attempt, parts)
            return
        self._measured.drew((args, kwargs))
        self._measured.stepped()
