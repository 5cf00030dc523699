"""Whether a process is whole after a step that failed, where that was never tried."""

from typing import Any

import keras

UNTRIED = f"that was not tried yet on {keras.backend.backend()}"


def why_never(_model: Any) -> str:
    """Why no ``fit`` is made again in its process."""
    return UNTRIED


def why_memory_in_doubt(_model: Any) -> str:
    """The same."""
    return UNTRIED


def memory_in_use() -> None:
    """Not asked for."""
    return


def batch_bytes(_element_spec: Any, _batch: int | None) -> int:
    """Not asked for."""
    return 0
