"""The variables of a model that decide the rest of its training."""

import contextlib
from typing import Any

import tensorflow as tf

from trainers.backends.model_listing import Listing
from trainers.backends.tensorflow import replicas, tensor_values


def _raw(value: Any) -> Any:
    """The variable that ``value`` is, or that a random generator keeps; or None."""
    if isinstance(value, tf.random.Generator):
        return value.state
    return (
        value if isinstance(value, (tensor_values.KerasVariable, tf.Variable)) else None
    )


def _identity(variable: Any) -> int:
    return id(tensor_values.tensor_of(variable))


def _others(variable: Any) -> tuple[Any, ...]:
    """The copies of a variable for the replicas after the first."""
    return replicas.copies(tensor_values.tensor_of(variable))[1:]


_listing = Listing(
    (tensor_values.KerasVariable, tf.Variable, tf.random.Generator),
    raw=_raw,
    identity=_identity,
    others=_others,
)
listed = _listing.listed
variables = _listing.variables


def in_place(_model: Any) -> contextlib.AbstractContextManager[None]:
    """They always have their values."""
    return contextlib.nullcontext()


def take_over(_model: Any) -> None:
    """As above."""


def held_by_loop(_model: Any) -> bool:
    """As above."""
    return False
