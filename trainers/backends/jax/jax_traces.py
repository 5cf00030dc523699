"""The compiled functions of a model on JAX.

They take all state as arguments and return it: nothing that they draw or change is kept
anywhere else. A variable that a step assigns to beside is not changed by it.
"""

from collections.abc import Sequence
from typing import Any

from trainers.backends import keras_compat

TRACES = True
MADE_AGAIN = False


def is_compiled(model: Any) -> bool:
    """Whether its steps are; else they read plain values anew each time."""
    return not getattr(model, "run_eagerly", True)


def trace_train(model: Any, _element_spec: Any) -> None:
    """Keras compiles a step for the shapes of each batch; ``fit`` has built the model."""
    keras_compat.build_optimizers(model, None)


def trace_test(_model: Any, _element_spec: Any) -> None:
    """As ``trace_train``."""


def draws_unseen(_model: Any) -> bool:
    """No step can."""
    return False


def functions_that_draw() -> list[str]:
    """None can."""
    return []


def changed_beside(_model: Any, _saved: Sequence[Any]) -> int:
    """None are."""
    return 0
