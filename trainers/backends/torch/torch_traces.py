"""The steps of a model on PyTorch: run as they are written, or by ``torch.compile``.

What they draw comes of generators that are saved. A compiled step is compiled again where
a plain value that it used is another: to other code than if it had been that from the start.
"""

from collections.abc import Sequence
from typing import Any

from trainers.backends import keras_compat

TRACES = False
MADE_AGAIN = False


def is_compiled(model: Any) -> bool:
    """Whether its steps are; else they read plain values anew each time."""
    return bool(model.jit_compile)


def trace_train(model: Any, _element_spec: Any) -> None:
    """Nothing is traced; ``fit`` has built the model."""
    keras_compat.build_optimizers(model, None)


def trace_test(_model: Any, _element_spec: Any) -> None:
    """As ``trace_train``."""


def draws_unseen(_model: Any) -> bool:
    """No step can."""
    return False


def functions_that_draw() -> list[str]:
    """As above."""
    return []


def changed_beside(_model: Any, _saved: Sequence[Any]) -> int:
    """Found by what changes."""
    return 0
