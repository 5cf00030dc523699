"""Objects of the script's own classes: their attributes are state.

``Tracker`` in ``LambdaCallback(on_epoch_end=lambda epoch, logs: tracker.add(logs))`` is
one. What such an object refers to but does not own (models, data, files, locks) is left
as the script made it; objects of other people's classes are not looked into.
"""

import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from trainers.process.environment.installed_packages import is_installed
from trainers.state.iterator_state import NoWayBackError

BASES = ("builtins", "abc", "typing")
"""Modules whose classes an own class may inherit from: they keep nothing."""


def is_own(value: Any) -> bool:
    """Whether ``value`` is an instance of a plain class that the script defines."""
    return is_own_kind(type(value))


def is_own_kind(kind: type) -> bool:
    """Whether it is such a class."""
    return kind.__module__ not in BASES and all(
        one is object
        or (
            (one.__module__ in BASES or _is_own_name(one.__module__))
            and not issubclass(one, (BaseException, dict, list, set, tuple, str, int))
        )
        for one in kind.__mro__
    )


def is_of_own_class(value: Any) -> bool:
    """Whether the class of ``value`` is the script's, whatever it inherits from."""
    return is_of_the_script(type(value))


def is_of_the_script(thing: Any) -> bool:
    """Whether a class or function is defined by the script or a module of its own."""
    module = getattr(thing, "__module__", None)
    return isinstance(module, str) and _is_own_name(module)


def is_own_module(module: ModuleType) -> bool:
    """Whether it is the script, or a module of its own."""
    return _is_own_name(module.__name__)


def attributes(value: Any) -> Mapping[str, Any]:
    """The attributes of an object itself, those in slots too."""
    kept = getattr(value, "__dict__", {})
    slots = _slots(type(value))
    if not slots:
        return kept
    filled = (name for name in slots if hasattr(value, name))
    return {**{name: getattr(value, name) for name in filled}, **kept}


def set_attribute(value: Any, name: str, content: Any) -> None:
    """Past what the class makes of it: Keras' layers count what they are given."""
    if name in getattr(value, "__dict__", {}) or not hasattr(type(value), name):
        vars(value)[name] = content
    else:
        object.__setattr__(value, name, content)


def give_back(value: Any, name: str, content: Any) -> None:
    """Set an attribute of an object of ``is_own``: no code of its class runs for it.

    Raises NoWayBackError: there is no place for it (any more).
    """
    if name in _slots(type(value)):
        object.__setattr__(value, name, content)
    elif hasattr(value, "__dict__"):
        vars(value)[name] = content
    else:
        message = f"{type(value).__name__} has no slot {name}"
        raise NoWayBackError(message)


def _slots(kind: type) -> list[str]:
    """Names by which they are found: private ones are mangled."""
    found = [
        (one, name)
        for one in kind.__mro__
        for name in _as_tuple(vars(one).get("__slots__", ()))
        if name not in ("__dict__", "__weakref__")
    ]
    return [
        f"_{one.__name__.lstrip('_')}{name}"
        if name.startswith("__") and not name.endswith("__")
        else name
        for one, name in found
    ]


def _as_tuple(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_own_name(name: str) -> bool:
    """Whether module ``name`` is the script, or lies outside of every library."""
    if name == "__main__":
        return True
    file = getattr(sys.modules.get(name), "__file__", None)
    first = name.partition(".")[0]
    if file is None or first in sys.stdlib_module_names | {"trainers", "supervisor"}:
        return False
    return not is_installed(file)
