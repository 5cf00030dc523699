"""Functions and classes by name, ``module:name``: in a snapshot they stand for themselves.

A snapshot may come from a bucket that others can write to, so a name in it is no order.
What is given back is what scripts keep: functions and classes of their own and of the
libraries they use, data types and arithmetic of Python; of Python's own library nothing
that runs a command, imports, or deletes a file.
"""

import enum
import functools
import inspect
import itertools
import math
import operator
import random
import statistics
import sys
from types import ModuleType
from typing import Any

from trainers.state.object_state import is_of_the_script

_OF_PYTHON = frozenset(
    one.__name__
    for one in (enum, functools, itertools, math, operator, random, statistics)
) | {
    "_collections", "_operator", "collections", "datetime", "decimal", "fractions",
    "pathlib", "uuid",
}  # fmt: skip
"""Modules of Python's own whose functions and classes only compute."""
_CALLS_BY_NAME = frozenset({"attrgetter", "methodcaller"})


class UntrustedNameError(Exception):
    """A snapshot names what no script keeps; the text says what."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"the snapshot names {place}, which is not given back: it is no data, and not of"
            " the script"
        )


def reference(value: Any) -> str | None:
    """``module:name`` if that is where ``value`` can be found again, else None."""
    module = getattr(value, "__module__", None) or "numpy"  # ufuncs have none
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    return f"{module}:{name}" if find(f"{module}:{name}") is value else None


def find(place: str) -> Any:
    """What ``module:name`` stands for; None: nothing."""
    module, _, name = place.partition(":")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = _kept_in(found, part)
    return found


def _kept_in(holder: Any, name: str) -> Any:
    """What a module or a class has under ``name``; None: nothing, or it is neither.

    Asked for by ``getattr``, some make it then: a module imports, and ``ctypes.cdll``
    loads whatever library the name says.
    """
    kind = type(holder)
    if issubclass(kind, ModuleType):
        return object.__getattribute__(holder, "__dict__").get(name)
    if not issubclass(kind, type):
        return None
    found = inspect.getattr_static(holder, name, None)
    return found.__func__ if isinstance(found, staticmethod) else found


def given_back(place: str, *, existing: Any = None) -> Any:
    """What ``place`` of a snapshot stands for; None: there is no such thing now.

    ``existing``: what the script has there. Raises UntrustedNameError.
    """
    found = find(place)
    if found is None or found is existing:
        return found
    # A function of Python may be had by way of another module: numpy.lib:os.system.
    if reference(found) != place or not _only_computes(found):
        raise UntrustedNameError(place)
    return found


def is_trusted(place: str) -> bool:
    """Whether ``place`` of a snapshot, by any name of it, is there and may be used."""
    found = find(place)
    return found is not None and _only_computes(found)


def class_of(place: str, base: type) -> Any:
    """The class at ``place``, derived from ``base``. Raises UntrustedNameError."""
    found = find(place)
    if not isinstance(found, type) or not issubclass(found, base):
        raise UntrustedNameError(place)
    return found


def _only_computes(found: Any) -> bool:
    module: str = getattr(found, "__module__", None) or "numpy"
    if is_of_the_script(found):
        return True
    if module == "builtins":
        return isinstance(found, type)
    package = module.partition(".")[0]  # pathlib._local, from Python 3.13 on
    if package in sys.stdlib_module_names:
        return package in _OF_PYTHON and found.__name__ not in _CALLS_BY_NAME
    return True
