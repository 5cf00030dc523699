"""Objects of the script's own classes: their attributes are state.

``Tracker`` in ``LambdaCallback(on_epoch_end=lambda epoch, logs: tracker.add(logs))`` is
one. What such an object refers to but does not own (models, data, files, locks) is left
as the script made it; objects of other people's classes are not looked into.
"""

import sys
from pathlib import Path
from typing import Any

BASES = ("builtins", "abc", "typing")
"""Modules whose classes an own class may inherit from: they keep nothing."""


def is_own(value: Any) -> bool:
    """Whether ``value`` is an instance of a plain class that the script defines."""
    kind = type(value)
    if kind.__module__ in BASES or not hasattr(value, "__dict__"):
        return False
    return all(
        one is object
        or (
            (one.__module__ in BASES or _is_of_the_script(one.__module__))
            and "__slots__" not in vars(one)
            and not issubclass(one, (BaseException, dict, list, set, tuple, str, int))
        )
        for one in kind.__mro__
    )


def _is_of_the_script(name: str) -> bool:
    """Whether module ``name`` is the script, or lies outside of every library."""
    module = sys.modules.get(name)
    if name == "__main__":
        return True
    file = getattr(module, "__file__", None)
    if file is None or name.partition(".")[0] in ("trainers", "supervisor"):
        return False
    libraries = (sys.prefix, sys.base_prefix)
    place = Path(file).resolve()
    return "site-packages" not in place.parts and not any(
        place.is_relative_to(Path(one).resolve() / "lib") for one in libraries
    )
