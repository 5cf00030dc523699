"""The figures of a step where none are read yet: no advice is given from them."""

from collections.abc import Callable, Sequence
from typing import Any

import keras


def gaps(_batches: Any) -> Sequence[float] | None:
    """Not measured: the next batch may be drawn while a step is computed."""
    return None


def tracing_clock() -> Callable[[], int] | None:
    """Not read."""
    return None


def float64_products(_model: Any) -> tuple[int, int] | None:
    """Not looked at."""
    return None


def float64_is_meant() -> bool:
    """Whether the script set Keras' default type to it."""
    return bool(keras.config.floatx() == "float64")


def wide_inputs(
    _element_spec: Any,
    *,
    batch: int | None,  # noqa: ARG001  # of the Protocol
) -> tuple[int, tuple[str, ...]]:
    """Not looked at."""
    return 0, ()


def computes_on_cpu() -> bool:
    """A step may still be computed when the next batch is asked for."""
    return False
