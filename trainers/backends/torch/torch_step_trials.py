"""What a step needs on PyTorch: nothing is tried, as its CPU allocator keeps no figures."""

from typing import Any, NoReturn

COMPILES = False
WHY_NOT_STEPPED: str | None = (
    "on PyTorch the memory of a step is not known; alternatives are tried on TensorFlow"
)
WHY_NOT: str | None = "on PyTorch the memory of a step is not known before it is made"


def in_use() -> None:
    """Not counted."""
    return


def peak() -> None:
    """Not counted."""
    return


def reset_peak() -> None:
    """There is none."""
    return


def kept(_batch: Any) -> NoReturn:
    """Nobody asks: ``WHY_NOT`` is looked at before."""
    raise NotImplementedError


def whole(_batch: Any) -> NoReturn:
    """Nobody asks."""
    raise NotImplementedError


def sized(_batch: Any, _size: int) -> NoReturn:
    """Nobody asks."""
    raise NotImplementedError


def tried(_model: Any, _batch: Any, _short: Any, _plan: Any) -> NoReturn:
    """Nobody asks."""
    raise NotImplementedError


def trained_once(_model: Any) -> NoReturn:
    """Nobody asks."""
    raise NotImplementedError


def device() -> NoReturn:
    """Nobody asks: ``WHY_NOT_STEPPED`` is looked at before."""
    raise NotImplementedError


def stepped(_model: Any, _batches: Any) -> NoReturn:
    """As above."""
    raise NotImplementedError
