"""The arithmetic of slices, and cutting a batch's structure of tensors into them.

A batch of n samples is worked through as ``ceil(n / size)`` slices of ``size``
samples; the last one may be shorter.
"""

from collections.abc import Callable
from typing import Any

import keras


def count(*, batch: int, size: int) -> int:
    """How many slices of ``size`` samples a ``batch`` has; at least 1."""
    return max(1, -(-batch // max(1, size)))


def balanced(*, batch: int, size: int) -> int:
    """The smallest size with as many slices as ``size`` has: ``batch`` shared out evenly.

    What costs time is the number of slices; larger ones than these only need memory.
    """
    return -(-batch // count(batch=batch, size=size))


def leaves(structure: Any) -> list[Any]:
    """The tensors of a structure in Keras' order, without the Nones."""
    return [leaf for leaf in keras.tree.flatten(structure) if leaf is not None]


def map_leaves(function: Callable[[Any], Any], structure: Any) -> Any:
    """``structure`` with ``function`` applied to each tensor; Nones stay."""
    return keras.tree.map_structure(
        lambda leaf: None if leaf is None else function(leaf), structure
    )


def cut(structure: Any, start: Any, stop: Any) -> Any:
    """The samples ``start`` to ``stop`` (exclusive) of every tensor (n, …)."""
    return map_leaves(lambda leaf: leaf[start:stop], structure)


def static_batch(structure: Any) -> int | None:
    """The batch size written in the shapes; None where they leave it open."""
    return leaves(structure)[0].shape[0]
