"""Values of variables and arrays on JAX, taken and given back.

The private names that this leans on stand in the table of ``jax_fit``. What is taken is a
copy: a step takes the memory of its arrays over (they are donated to it).
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from keras.src import backend as keras_backend

KerasVariable: Any = keras_backend.Variable
KEYS = "jax key "
"""Before the name of their generator: the kind of random keys."""
WEAK = "jax number"
"""A number whose type gives way to those that it meets."""


def tensor_of(variable: Any) -> Any:
    """There is nothing inside of a variable of Keras' but its value."""
    return variable


def _present(variable: Any) -> Any:
    value = variable._value
    return variable.value if value is None else value


def dtype_of(variable: Any) -> str:
    """NumPy's name of the type of its value."""
    value = variable._value
    return np.dtype(variable.dtype if value is None else value.dtype).name


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """Its shape."""
    return tuple(variable.shape)


def values_of(variables: Sequence[Any]) -> list[Any]:
    """Copies of their present values."""
    return [np.array(_present(one)) for one in variables]


def array_of_value(value: Any) -> np.ndarray:
    """The array of what ``values_of`` gave."""
    return np.asarray(value)


def assign(variable: Any, array: np.ndarray) -> None:
    """Give ``variable`` the value ``array`` (same shape and dtype)."""
    variable.assign(_own(array))


assign_whole = assign


def _own(array: np.ndarray) -> Any:
    """``array`` in memory of JAX's: that of a snapshot is written to again."""
    return jax.numpy.array(np.array(array), copy=True)


def assign_bytes(variable: Any, content: bytes) -> None:
    """Give ``variable`` the value whose bytes these are."""
    array = np.frombuffer(content, np.dtype(dtype_of(variable)))
    assign(variable, array.reshape(variable.shape))


def _is_key(value: Any) -> bool:
    """Whether it is an array of random keys."""
    return jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _is_weak(value: Any) -> bool:
    """Whether its type gives way to those that it meets."""
    return getattr(value, "weak_type", False)  # keys have none


def _is_readable(value: Any) -> bool:
    """Whether it is an array with a value: no tracer, and none that a step took over."""
    if not isinstance(value, jax.Array) or isinstance(value, jax.core.Tracer):
        return False
    return not value.is_deleted() and value.is_fully_addressable


def framework_array(value: Any) -> np.ndarray | None:
    """A copy of an array or variable; None for any other value.

    Also of an array of several numbers whose type gives way to others (a weak one): what
    it was cannot be made again.
    """
    if isinstance(value, KerasVariable):
        return np.array(_present(value))
    if not _is_readable(value) or (_is_weak(value) and value.ndim > 0):
        return None
    return np.array(jax.random.key_data(value) if _is_key(value) else value)


def kind_of(value: Any) -> str:
    """The name of its type, or what is special about it."""
    if isinstance(value, jax.Array) and _is_key(value):
        return f"{KEYS}{jax.random.key_impl(value)}"
    if isinstance(value, jax.Array) and _is_weak(value):
        return WEAK
    kind = type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def tensor_array(value: Any) -> np.ndarray | None:
    """A look at the values of an array; None for any other value."""
    if not _is_readable(value):
        return None
    return np.asarray(jax.random.key_data(value) if _is_key(value) else value)


def framework_value(existing: Any, array: np.ndarray, kind: str) -> Any:
    """``existing`` with the value ``array`` if it is such a variable, else a new value.

    ``kind``: what ``kind_of`` told: a variable made in training is made anew.
    """
    if kind.startswith(KEYS):
        return jax.random.wrap_key_data(_own(array), impl=kind.removeprefix(KEYS))
    if kind == WEAK:
        return jax.numpy.asarray(array.item())
    if not kind.endswith("Variable"):
        return _own(array)
    if (
        isinstance(existing, KerasVariable)
        and shape_of(existing) == array.shape
        and dtype_of(existing) == array.dtype.name
    ):
        assign(existing, array)
        return existing
    return KerasVariable(_own(array))
