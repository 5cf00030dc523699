"""How steps are computed, where the spec says so and not the script: XLA, recomputation.

To be applied before Keras makes the train function of a ``fit``. The dtype policy is none
of these: layers take it when they are made (``process.hooks``).
"""

from dataclasses import dataclass
from typing import Any

from supervisor.wire.directive import Directive
from trainers.backends import recomputation

NO_RECOMPUTATION = (
    "this version of Keras cannot compute activations again: keras.remat came with 3.9"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was changed in a model."""

    recomputed: int = 0
    """Layers whose activations are computed again."""
    left_out: int = 0
    """Layers that are not, for their state changes with each call."""


def apply(model: Any, directive: Directive) -> Applied:
    """Let ``model`` compute as the ``directive`` says.

    Raises NotImplementedError with a sentence: this version of Keras cannot.
    """
    if directive.jit is not None and bool(model.jit_compile) is not directive.jit:
        model.jit_compile = directive.jit
        model.train_function = None
    if not directive.recompute:
        return Applied()
    if not recomputation.supported():
        raise NotImplementedError(NO_RECOMPUTATION)
    marked, left_out = recomputation.recompute(model)
    if marked:
        model.train_function = None
    return Applied(recomputed=marked, left_out=left_out)
