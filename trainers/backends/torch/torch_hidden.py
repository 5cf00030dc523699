"""State on PyTorch that belongs to no model: parameters, tensors and generators."""

import zlib
from typing import Any

import keras
import numpy as np
import torch

from trainers.backends import keras_compat
from trainers.backends.torch import torch_values, torch_variables
from trainers.backends.torch.torch_values import KerasVariable

OF_MODULES = frozenset(vars(torch.nn.Module())) - {"training"}
"""What each module has to keep its parts and hooks in."""
TENSORS_OF_MODULES = frozenset({"_parameters", "_buffers"})
READ_BYTES = 1 << 22
"""Of a larger tensor only some values are read to find out whether it has changed."""


def is_variable(value: Any) -> bool:
    """Whether ``value`` is one: any tensor can be changed in place."""
    return isinstance(value, (KerasVariable, torch.Tensor, torch.Generator))


def state_of(value: Any) -> Any:
    """The variable that it is."""
    return value


def variables_of(owner: Any, *, below: bool) -> list[Any]:
    """All variables of an object of Keras; of a model those of its optimizer, too.

    ``below``: only those that the model it is a layer of does not know of.
    """
    if isinstance(owner, keras.Model) and not below:
        return [variable for _, variable in torch_variables.listed(owner)]
    carried = owner.states if isinstance(owner, keras.layers.RNN) else None
    own = () if below else getattr(owner, "variables", ())
    return [*own, *keras.tree.flatten(carried or ())]


def global_generator() -> Any | None:
    """PyTorch's is saved with the random states."""
    return None


def mark(variable: Any) -> Any:
    """What is another once ``variable`` has changed."""
    array = torch_values.tensor_array(torch_values.tensor_of(variable))
    if array is None:
        return None
    flat = array.reshape(-1)
    version = None
    if flat.nbytes > READ_BYTES:
        version = _version(torch_values.tensor_of(variable))
        flat = flat[:: flat.nbytes // READ_BYTES + 1]
    return (
        array.shape,
        version,
        zlib.crc32(np.ascontiguousarray(flat).view(np.uint8).data),
    )


def _version(tensor: Any) -> int | None:
    """How often it was changed in place, as far as PyTorch counts that."""
    return None if tensor.is_inference() else int(tensor._version)


def same_mark(before: Any, now: Any) -> bool:
    """Whether nothing has changed between two marks of one variable."""
    return bool(before == now)


def is_table(_value: Any) -> bool:
    """PyTorch has none."""
    return False


def names_of_parts(value: Any) -> frozenset[str]:
    """Attributes under which a module keeps what ``held_in`` has of it."""
    return OF_MODULES if isinstance(value, torch.nn.Module) else frozenset()


def names_of_tensors(value: Any) -> frozenset[str]:
    """Those of them under which it keeps variables."""
    return TENSORS_OF_MODULES if isinstance(value, torch.nn.Module) else frozenset()


def held_in(value: Any) -> list[tuple[str, Any]]:
    """Parameters, buffers and modules of a module; Keras knows those of its layers, but
    not what is in a module that one of them wraps."""
    if isinstance(value, keras.layers.TorchModuleWrapper):
        return [("module", value.module)]
    if not isinstance(value, torch.nn.Module) or isinstance(value, keras.Layer):
        return []
    kept = (value._parameters, value._buffers, value._modules)
    return [pair for one in kept for pair in one.items() if pair[1] is not None]


def table_content(_table: Any) -> tuple[Any, Any]:
    """As above."""
    return [], []


def fill_table(_table: Any, _keys: Any, _values: Any) -> None:
    """As above."""


def python_function(value: Any) -> Any | None:
    """What ``torch.compile`` made ``value`` of; None: it did not."""
    return getattr(value, "_torchdynamo_orig_callable", None)


build_optimizers = keras_compat.build_optimizers_of
