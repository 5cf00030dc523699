"""The variables of a model on PyTorch, and the buffers of modules inside of it.

A module of PyTorch's in a model of Keras' has its parameters listed by Keras, but not its
buffers: running means of a ``BatchNorm``, say.
"""

import contextlib
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from trainers.backends.model_listing import Listing
from trainers.backends.torch import torch_values


def _raw(value: Any) -> Any:
    """The variable that ``value`` is; or None."""
    return value


def _identity(variable: Any) -> int:
    return id(torch_values.tensor_of(variable))


_listing = Listing(
    (torch_values.KerasVariable, torch.nn.Parameter, torch.Generator),
    raw=_raw,
    identity=_identity,
)


def modules_of(model: Any) -> Iterator[tuple[str, Any]]:
    """Each module of PyTorch's inside of the model, Keras' layers among them, once."""
    seen: set[int] = set()
    layers = getattr(model, "_flatten_layers", None)
    for layer in [model] if layers is None else layers():
        if not isinstance(layer, torch.nn.Module):
            continue
        for name, module in layer.named_modules():
            if id(module) not in seen:
                seen.add(id(module))
                yield f"{getattr(layer, 'name', '')}.{name}", module


def _buffers(model: Any) -> Iterator[tuple[str, Any]]:
    for path, module in modules_of(model):
        for name, buffer in module._buffers.items():
            if buffer is not None:
                yield f"buffer:{path}.{name}", buffer


class KeptBuffers:
    """The buffers of modules, as they are now."""

    def __init__(self, modules: Iterable[Any]) -> None:
        self._kept = [
            (module, name, buffer, buffer.clone())
            for module in modules
            for name, buffer in module._buffers.items()
            if buffer is not None
        ]

    @property
    def changed(self) -> bool:
        """Whether any has another value since, or is another."""
        return not all(
            torch.equal(module._buffers[name], value)
            for module, name, _, value in self._kept
        )

    def put_back(self) -> None:
        """A module may have put another tensor into its place, too."""
        with torch.no_grad():
            for module, name, buffer, value in self._kept:
                buffer.copy_(value)
                module._buffers[name] = buffer


def listed(model: Any) -> list[tuple[str, Any]]:
    """Every variable that decides the rest of training, once, after what it is."""
    found = _listing.listed(model)
    return found + [("buffer", one) for _, one in _new(model, found)]


def variables(model: Any) -> list[tuple[str, Any]]:
    """The same, each after a readable name."""
    found = _listing.listed(model)
    return _listing.variables(model) + _new(model, found)


def _new(model: Any, found: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """The buffers, and parameters that Keras does not know of, that are none of ``found``."""
    known = {_identity(one) for _, one in found}
    fresh = []
    for name, one in itertools.chain(_buffers(model), _parameters(model)):
        if id(one) not in known:
            known.add(id(one))
            fresh.append((name, one))
    return fresh


def _parameters(model: Any) -> Iterator[tuple[str, Any]]:
    for path, module in modules_of(model):
        for name, one in module._parameters.items():
            if one is not None:
                yield f"parameter:{path}.{name}", one


def in_place(_model: Any) -> contextlib.AbstractContextManager[None]:
    """They always have their values."""
    return contextlib.nullcontext()


def take_over(_model: Any) -> None:
    """As above."""


def held_by_loop(_model: Any) -> bool:
    """As above."""
    return False
