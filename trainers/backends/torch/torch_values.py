"""Values of variables and tensors on PyTorch, taken and given back.

The private names that this leans on stand in the table of ``torch_fit``. Optimizers and
layers change tensors in place, so what is taken is a copy.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from keras.src import backend as keras_backend

KerasVariable: Any = keras_backend.Variable
GENERATOR = "torch generator "
"""Before its device: the kind of a random generator."""
ANEW = "torch tensor "
"""Before its device: the kind of a tensor that is no parameter."""
PARAMETER = "torch parameter "
"""The same of a parameter."""
CHANGED, TRAINED = " changed", " trained"
"""After it, where it was ever changed in place, and where gradients are asked for."""
WITHOUT_NUMPY = {
    torch.bfloat16: (torch.int16, "bfloat16"),
    torch.float8_e4m3fn: (torch.uint8, "float8_e4m3fn"),
    torch.float8_e5m2: (torch.uint8, "float8_e5m2"),
}
"""Types that NumPy has by ml_dtypes alone, after what has as many bits."""


def tensor_of(variable: Any) -> Any:
    """The tensor inside a Keras variable, which is the same for good; others as they are."""
    return variable._value if isinstance(variable, KerasVariable) else variable


def dtype_of(variable: Any) -> str:
    """NumPy's name of the type of its value."""
    inner = tensor_of(variable)
    if isinstance(inner, torch.Generator):
        return "uint8"
    return str(inner.dtype).removeprefix("torch.")


def shape_of(variable: Any) -> tuple[int, ...] | None:
    """Its shape."""
    inner = tensor_of(variable)
    if isinstance(inner, torch.Generator):
        inner = inner.get_state()
    return tuple(inner.shape)


def values_of(variables: Sequence[Any]) -> list[Any]:
    """Copies of their present values, in main memory."""
    return [_copied(tensor_of(one)) for one in variables]


def _copied(inner: Any) -> Any:
    if isinstance(inner, torch.Generator):
        return inner.get_state()
    value = inner.detach()
    return value.clone() if value.device.type == "cpu" else value.cpu()


def array_of_value(value: Any) -> np.ndarray:
    """The array of what ``values_of`` gave."""
    found = WITHOUT_NUMPY.get(value.dtype)
    if found is None:
        plain: np.ndarray = value.resolve_conj().resolve_neg().numpy()
        return plain
    import ml_dtypes  # noqa: PLC0415  # Keras brings it

    bits, name = found
    array: np.ndarray = value.contiguous().view(bits).numpy()
    return array.view(getattr(ml_dtypes, name))


def _own(array: np.ndarray) -> Any:
    """``array`` in memory of PyTorch's: that of a snapshot is written to again."""
    own = np.array(array)
    for kind, (bits, name) in WITHOUT_NUMPY.items():
        if own.dtype.name == name:
            same_bits = str(bits).removeprefix("torch.")
            return torch.from_numpy(own.view(same_bits)).view(kind)
    return torch.from_numpy(own)


def assign(variable: Any, array: np.ndarray) -> None:
    """Give ``variable`` the value ``array`` (same shape and dtype)."""
    inner = tensor_of(variable)
    if isinstance(inner, torch.Generator):
        inner.set_state(_own(array))
        return
    with torch.no_grad():
        inner.copy_(_own(array))


assign_whole = assign


def assign_bytes(variable: Any, content: bytes) -> None:
    """Not asked for: no loop of the script's own is followed."""
    raise NotImplementedError


def _is_readable(value: Any) -> bool:
    """Whether it is a tensor with values of its own, one after another in memory."""
    return (
        isinstance(value, torch.Tensor)
        and value.layout is torch.strided
        and not value.is_meta
        and not value.is_quantized
    )


def framework_array(value: Any) -> np.ndarray | None:
    """A copy of the values of a tensor or variable; None for any other value.

    Of a random generator that is its state.
    """
    inner = tensor_of(value)
    if isinstance(inner, torch.Generator):
        return array_of_value(inner.get_state())
    if not _is_readable(inner):
        return None
    return array_of_value(_copied(inner))


def kind_of(value: Any) -> str:
    """What it is, where it lies, and how it is used."""
    if isinstance(value, KerasVariable):
        return "Variable"
    if isinstance(value, torch.Generator):
        return f"{GENERATOR}{value.device}"
    kind = PARAMETER if isinstance(value, torch.nn.Parameter) else ANEW
    changed = CHANGED if not value.is_inference() and value._version else ""
    trained = TRAINED if value.is_leaf and value.requires_grad else ""
    return f"{kind}{value.device}{changed}{trained}"


def tensor_array(value: Any) -> np.ndarray | None:
    """A look at the values of a tensor; None for any other value."""
    if isinstance(value, torch.Generator):
        return array_of_value(value.get_state())
    if not _is_readable(value):
        return None
    return array_of_value(value.detach().cpu())


def framework_value(existing: Any, array: np.ndarray, kind: str) -> Any:
    """``existing`` with the value ``array`` if it is such a variable, else a new one.

    ``kind``: what ``kind_of`` told. A tensor that was never changed in place may be a
    constant of the script's: it stays, and another takes its place.
    """
    if kind.startswith(GENERATOR):
        return _generator(existing, array, device=kind.removeprefix(GENERATOR))
    own = kind == "Variable" or kind.startswith(PARAMETER) or CHANGED in kind
    if own and _fits(existing, array):
        assign(existing, array)
        return existing
    if kind == "Variable":
        return KerasVariable(_own(array))
    device = kind.removeprefix(PARAMETER).removeprefix(ANEW).split()[0]
    made, trained = _own(array).to(device), TRAINED in kind
    if kind.startswith(PARAMETER):
        return torch.nn.Parameter(made, requires_grad=trained)
    return made.requires_grad_(trained)


def _generator(existing: Any, state: np.ndarray, *, device: str) -> Any:
    if not isinstance(existing, torch.Generator) or str(existing.device) != device:
        existing = torch.Generator(device)
    assign(existing, state)
    return existing


def _fits(existing: Any, array: np.ndarray) -> bool:
    """Whether it is a variable or tensor of this shape and type, with room of its own."""
    inner = tensor_of(existing)
    return (
        _is_readable(inner)
        and inner.is_contiguous()
        and shape_of(inner) == array.shape
        and dtype_of(inner) == array.dtype.name
    )
