"""State on JAX that belongs to no model: variables of Keras'."""

from typing import Any

import keras

from trainers.backends import keras_compat
from trainers.backends.jax import jax_variables
from trainers.backends.jax.jax_values import KerasVariable


def is_variable(value: Any) -> bool:
    """Whether ``value`` is a variable."""
    return isinstance(value, KerasVariable)


def state_of(value: Any) -> Any:
    """The variable that it is."""
    return value


def variables_of(owner: Any, *, below: bool) -> list[Any]:
    """All variables of an object of Keras; of a model those of its optimizer, too.

    ``below``: only those that the model it is a layer of does not know of.
    """
    if isinstance(owner, keras.Model) and not below:
        return [variable for _, variable in jax_variables.listed(owner)]
    carried = owner.states if isinstance(owner, keras.layers.RNN) else None
    own = () if below else getattr(owner, "variables", ())
    return [*own, *keras.tree.flatten(carried or ())]


def global_generator() -> Any | None:
    """JAX has none."""
    return None


def mark(variable: Any) -> Any:
    """Its value, which is another once ``variable`` has changed."""
    return variable._value


def same_mark(before: Any, now: Any) -> bool:
    """Whether nothing has changed between two marks of one variable."""
    return before is now


def is_table(_value: Any) -> bool:
    """JAX has none."""
    return False


def names_of_parts(_value: Any) -> frozenset[str]:
    """As ``held_in``."""
    return frozenset()


def names_of_tensors(_value: Any) -> frozenset[str]:
    """As ``held_in``."""
    return frozenset()


def held_in(_value: Any) -> list[tuple[str, Any]]:
    """Nothing is looked for in any."""
    return []


def table_content(_table: Any) -> tuple[Any, Any]:
    """As above."""
    return [], []


def fill_table(_table: Any, _keys: Any, _values: Any) -> None:
    """As above."""


def python_function(value: Any) -> Any | None:
    """What a compiled function was made of; None: it is none."""
    of_jax = type(value).__module__.partition(".")[0] in ("jax", "jaxlib")
    return getattr(value, "__wrapped__", None) if of_jax else None


build_optimizers = keras_compat.build_optimizers_of
