"""The framework's variables beside the model's: by what they are found again, and which
have changed."""

import weakref
from collections.abc import Callable, Collection, Mapping
from typing import Any

from trainers.backends.selected import backend
from trainers.state.hidden.reachable import Reached
from trainers.state.variable_state import Places

MADE_SINCE = "{}, made since"
"""Where what there was when ``fit`` began is elsewhere now."""


class WatchedVariables:
    """Those that a ``fit`` reaches."""

    def __init__(self) -> None:
        self._marks: dict[str, Any] = {}
        """As they were when ``fit`` began, by name (see ``present``)."""
        self._begun: dict[str, Callable[[], Any]] = {}
        """Those that there were then, by path, not kept alive."""

    def begin(self, found: Reached) -> None:
        """``found``: what ``fit`` begins with."""
        self._marks = marks_of(found)
        self._begun = {path: _weakly(one) for path, one in found.variables.items()}

    def named(self) -> dict[str, Any]:
        """Those that there were when ``fit`` began, by the path that each had then: wherever
        they have gone since, they are found by it."""
        held = ((path, one()) for path, one in self._begun.items())
        return {path: one for path, one in held if one is not None}

    def has_changed(self, name: str, variable: Any) -> bool:
        """Once it has it is saved for good: its mark need not be held any more."""
        before = self._marks.get(name)
        if before is None:
            return True
        if backend.hidden.same_mark(before, backend.hidden.mark(variable)):
            return False
        del self._marks[name]
        return True


def _weakly(one: Any) -> Callable[[], Any]:
    """What gives ``one`` as long as there is one. PyTorch's generators are kept."""
    try:
        return weakref.ref(one)
    except TypeError:
        return lambda: one


def marks_of(found: Reached) -> dict[str, Any]:
    """The mark of each, by its present path."""
    return {path: backend.hidden.mark(one) for path, one in found.variables.items()}


def moved(found: Reached, places: Places) -> set[str]:
    """The paths of variables when ``fit`` began that lead elsewhere now."""
    now = ((path, places.path_of(one)) for path, one in found.variables.items())
    return {begun for path, begun in now if begun is not None and begun != path}


def present(
    found: Reached, places: Places, elsewhere: Collection[str]
) -> dict[str, Any]:
    """The variables beside the model's by their names: the path of each when ``fit`` began,
    and of one that was made since its own. ``elsewhere``: those that have ``moved``."""
    since = {
        MADE_SINCE.format(path) if path in elsewhere else path: one
        for path, one in found.variables.items()
        if places.of(one) is None
    }
    begun = places.named().items()
    return since | {path: one for path, one in begun if not places.is_of_model(one)}


def others_changed(
    found: Reached, held: Mapping[str, Any], saved: Collection[str]
) -> list[str]:
    """The paths of those whose marks are not those ``held``, but for the ``saved``."""
    now = {
        path: backend.hidden.mark(one)
        for path, one in found.variables.items()
        if path in held and path not in saved
    }
    same = backend.hidden.same_mark
    return [path for path, mark in now.items() if not same(held[path], mark)]
