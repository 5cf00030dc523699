"""The isolation of our packages from those of the script that have their names.

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
from pathlib import Path
from types import ModuleType

TELLING = {
    "supervisor": "wire/messages/directive.py",
    "trainers": "process/training_process.py",
}
"""Our packages, and a file of each that nobody else's has."""

PACKAGES = tuple(TELLING)

_hidden: dict[str, ModuleType] = {}
_lock = threading.RLock()


def _belongs(module: str, packages: tuple[str, ...]) -> bool:
    return module.partition(".")[0] in packages


def hide(packages: tuple[str, ...]) -> None:
    """Take ours out of ``sys.modules``, for a script that has its own."""
    # A copy of the names: other threads may be importing.
    for name in [name for name in list(sys.modules) if _belongs(name, packages)]:
        _hidden[name] = sys.modules.pop(name)


def _is_a_copy(origin: str | None, name: str) -> bool:
    """Whether a package found there is this one, wherever it is installed."""
    return origin is not None and (Path(origin).parent / TELLING[name]).exists()


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
        if spec is not None and not _is_a_copy(spec.origin, name):
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
