"""An owner of state: an object, a module, a class, a closure, and names of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class Owner:
    """An object, module, class or closure, and the names of it that are followed."""

    path: str
    """From something that a person knows: a name of the script, ``model``, a class."""
    names: tuple[str, ...]
    values: Callable[[], Mapping[str, Any]]
    put: Callable[[str, Any], None]
