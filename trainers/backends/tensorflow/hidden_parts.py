"""State of TensorFlow's that belongs to no model: variables, generators, tables.

The private names that this leans on stand in the table of ``fit_compat``.
"""

import zlib
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.ops import stateful_random_ops
from tensorflow.python.ops.lookup_ops import DenseHashTable, MutableHashTable

from trainers.backends import keras_compat
from trainers.backends.tensorflow import model_variables, replicas, tensor_values

TABLES = (tf.lookup.experimental.MutableHashTable, DenseHashTable, MutableHashTable)


NAMES: tuple[tuple[Any, str], ...] = (
    (stateful_random_ops, "global_generator"),
    (DenseHashTable, "export"),
    (DenseHashTable, "remove"),
)
IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (DenseHashTable.__init__, ("self._empty_key =", "self._deleted_key =")),
)
READ_BYTES = 1 << 16
"""A variable of so many bytes is read to find out whether it has changed."""


def is_variable(value: Any) -> bool:
    """Whether ``value`` is a variable, or a random generator, whose state is one."""
    return isinstance(
        value, (tensor_values.KerasVariable, tf.Variable, tf.random.Generator)
    )


def state_of(value: Any) -> Any:
    """The variable that it is, or keeps its state in."""
    return value.state if isinstance(value, tf.random.Generator) else value


def variables_of(owner: Any, *, below: bool) -> list[Any]:
    """All variables of an object of Keras; of a model those of its optimizer, too.

    ``below``: only those that the model it is a layer of does not know of: the state
    that a recurrent layer carries from batch to batch.
    """
    if isinstance(owner, keras.Model) and not below:
        return [variable for _, variable in model_variables.listed(owner)]
    carried = owner.states if isinstance(owner, keras.layers.RNN) else None
    own = () if below else getattr(owner, "variables", ())
    return [*own, *keras.tree.flatten(carried or ())]


def global_generator() -> Any | None:
    """The state of ``tf.random.get_global_generator()``, where that was ever made."""
    generator = stateful_random_ops.global_generator
    return None if generator is None else generator.state


def mark(variable: Any) -> Any:
    """What is another, or not ``same_mark``, once ``variable`` has changed.

    Of a large one in main memory that is the value itself: an update goes to new memory
    for as long as the old one is held.
    """
    inner = tensor_values.tensor_of(variable)
    if not inner.shape.is_fully_defined():
        return None
    parts = replicas.copies(inner)
    if len(parts) > 1:
        return tuple(mark(one) for one in parts)
    (value,) = tensor_values.values_of([inner])
    array = tensor_values.array_of_value(value)
    if array.nbytes <= READ_BYTES or isinstance(value, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return value


def same_mark(before: Any, now: Any) -> bool:
    """Whether nothing has changed between two marks of one variable."""
    if isinstance(before, int) or before is None:
        return bool(before == now)
    if isinstance(before, tuple):
        return all(same_mark(one, two) for one, two in zip(before, now, strict=True))
    one, two = before._numpy(), now._numpy()
    return one.__array_interface__["data"] == two.__array_interface__["data"]


def is_table(value: Any) -> bool:
    """Whether ``value`` is a lookup table that training can change."""
    return isinstance(value, TABLES)


def names_of_parts(_value: Any) -> frozenset[str]:
    """As ``held_in``."""
    return frozenset()


def names_of_tensors(_value: Any) -> frozenset[str]:
    """As ``held_in``."""
    return frozenset()


def held_in(_value: Any) -> list[tuple[str, Any]]:
    """Nothing is looked for in any."""
    return []


def table_content(table: Any) -> tuple[Any, Any]:
    """The keys of ``table``, and the value of each: arrays, of strings lists."""
    keys, values = table.export()
    if isinstance(table, DenseHashTable):
        empty = (table._empty_key, table._deleted_key)
        kept = tf.reduce_all([keys != one for one in empty], axis=0)
        keys, values = keys[kept], values[kept]
    keys, values = keys.numpy(), values.numpy()
    if len(keys):  # a table has no order of its own
        order = np.lexsort(keys.reshape(len(keys), -1).T)
        keys, values = keys[order], values[order]
    return _plain(keys), _plain(values)


def _plain(array: np.ndarray) -> Any:
    """Strings as a list of bytes."""
    return array.tolist() if array.dtype.hasobject else array


def fill_table(table: Any, keys: Any, values: Any) -> None:
    """Let ``table`` hold these, and nothing else."""
    present, _ = table_content(table)
    if len(present):
        table.remove(tf.constant(present, table.key_dtype))
    if len(keys):
        table.insert(
            tf.constant(keys, table.key_dtype), tf.constant(values, table.value_dtype)
        )


def python_function(value: Any) -> Any | None:
    """What a ``tf.function`` was made of; None: it is none."""
    of_tensorflow = type(value).__module__.startswith("tensorflow.")
    return getattr(value, "python_function", None) if of_tensorflow else None


build_optimizers = keras_compat.build_optimizers_of
