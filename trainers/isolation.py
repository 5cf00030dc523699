"""Living in somebody else's process: whose package has which name.

A project may have a top-level package ``trainers`` or ``supervisor`` of its own beside
its script. Then the script gets its own, and ours are kept here; ``borrowed`` puts ours
back under their names for the moment in which one of our modules is imported late.
"""

import contextlib
import importlib
import importlib.util
import sys
import threading
from collections.abc import Iterator
from types import ModuleType

PACKAGES = ("supervisor", "trainers")

_hidden: dict[str, ModuleType] = {}
_lock = threading.RLock()


def _belongs(module: str, packages: tuple[str, ...]) -> bool:
    return module.partition(".")[0] in packages


def hide(packages: tuple[str, ...]) -> None:
    """Take ours out of ``sys.modules``, for a script that has its own."""
    # A copy of the names: other threads may be importing.
    for name in [name for name in list(sys.modules) if _belongs(name, packages)]:
        _hidden[name] = sys.modules.pop(name)


def shadowed() -> tuple[str, ...]:
    """Which of our package names the script's own path provides too."""
    found = []
    for name in PACKAGES:
        kept = sys.modules.pop(name, None)
        try:
            spec = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            spec = None
        finally:
            if kept is not None:
                sys.modules[name] = kept
        ours = None if kept is None else kept.__file__
        if spec is not None and spec.origin != ours:
            found.append(name)
    return tuple(found)


@contextlib.contextmanager
def borrowed() -> Iterator[None]:
    """Our packages under their own names; afterwards the script's again."""
    with _lock:
        packages = tuple({name.partition(".")[0] for name in _hidden})
        theirs = {
            name: sys.modules.pop(name)
            for name in list(sys.modules)
            if _belongs(name, packages)
        }
        sys.modules.update(_hidden)
        try:
            yield
        finally:
            hide(packages)
            sys.modules.update(theirs)


def load(name: str) -> ModuleType:
    """Import our module ``name``, whoever owns its package's name by now."""
    with borrowed():
        return importlib.import_module(name)
