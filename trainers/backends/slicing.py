"""A batch's structure of tensors, cut into slices (how many: ``supervisor.wire.slices``)."""

from collections.abc import Callable
from typing import Any

import keras


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
