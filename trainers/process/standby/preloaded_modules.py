"""Preloaded modules: imported ahead, hidden, and put back when the script imports them.

To the script nothing is imported before it asks for it; what it asks for is there at once.
Before a framework is put back its circumstances are compared with those under which it was
imported (``import_context``). Where they differ there is no way back in this process: the
attempt begins once more, as if there had been no standby.
"""

import contextlib
import gc
import importlib
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from supervisor.wire.messages.standby_messages import (
    FRAMEWORKS,
    ImportRecord,
    difference,
)
from trainers.process.environment.installed_packages import is_installed
from trainers.process.hooks import import_hooks
from trainers.process.script import run_entropy
from trainers.process.standby.import_context import context

OURS = frozenset({"supervisor", "trainers"})
ELSEWHERE = ("jax", "torch")
"""Frameworks of which it was not tried what their import touches."""
CONTEXT = "tensorflow.python.eager.context"
STARTED = "_context_handle"
"""A private name: not None once TensorFlow has looked for devices."""
SAME_MAIN = "__mp_main__"
"""What ``multiprocessing`` calls the main module."""
UNKNOWN_BACKEND = (
    "Keras computes with {}, and only with TensorFlow it is imported ahead"
)

Files = dict[str, tuple[int, int]]
"""Of each: when it was changed, and its size."""
Restart = Callable[[str], NoReturn]


class UnusableError(Exception):
    """Nothing can be imported ahead; the message is for a person."""


@dataclass(slots=True)
class PreloadedPart:
    """What came with the import of one framework."""

    record: ImportRecord
    modules: dict[str, ModuleType]
    environment: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """What the import did to it."""
    draws: Any = None
    """The state of Python's global generator after it; None: as before."""


@dataclass(slots=True)
class PreloadedModules:
    """What was imported, until the script asks for it."""

    parts: list[PreloadedPart] = field(default_factory=list[PreloadedPart])
    files: Files = field(default_factory=Files)

    def changed(self) -> str | None:
        """A file that is not as it was when it was imported; None: there is none."""
        now = files_of(self.files)
        return next(
            (path for path in self.files if self.files[path] != now[path]), None
        )

    def offer(self, initial: dict[str, str], restart: Restart) -> None:
        """Let the script find them; ``restart``: begin this attempt once more."""
        finder: Any = _PreloadedFinder(self.parts, initial, restart)
        sys.meta_path.insert(0, finder)
        _stand_before_path_finder(finder)


def preload(
    records: Sequence[ImportRecord], *, seed: int, arguments: Sequence[str]
) -> PreloadedModules:
    """Import what ``records`` say as they say, and hide it again.

    Raises UnusableError, and whatever an import raises.
    """
    if not {"tensorflow", "keras"}.intersection(one.name for one in records):
        message = "the script imports no TensorFlow"
        raise UnusableError(message)
    initial, path, argv = dict(os.environ), list(sys.path), list(sys.argv)
    modules = set(sys.modules)
    entropy = run_entropy.install_ahead(seed)
    import_hooks.after_import(
        {
            "numpy.random.bit_generator": lambda it: run_entropy.numpy_asks(
                entropy, it
            ),
            "numpy.random.mtrand": lambda it: run_entropy.numpy_begins(entropy, it),
        }
    )
    drawn = random.getstate()
    found = PreloadedModules()
    sys.argv = list(arguments)
    gc.disable()
    try:
        found.parts.extend(_import(record, initial) for record in records)
        _refuse_if_started()
        everything = {
            name: it for part in found.parts for name, it in part.modules.items()
        }
        _refuse_if_asked_within(records, everything)
        found.files = files_of(_sources(everything))
    finally:
        gc.enable()
        for name in set(sys.modules) - modules:
            if _is_hidden(name):
                del sys.modules[name]
        _set_environment(initial)
        sys.path[:], sys.argv = path, argv
        random.setstate(drawn)
    return found


def _import(record: ImportRecord, initial: dict[str, str]) -> PreloadedPart:
    _set_environment(applied(initial, record.environment))
    sys.path[:] = record.path
    if context(record.name, initial) != replace(record, within=()):
        message = (
            f"before it imports {record.name} the script draws random numbers, or changes"
            " directory or processors"
        )
        raise UnusableError(message)
    known, before = set(sys.modules), random.getstate()
    environment = dict(os.environ)
    importlib.import_module(record.name)
    if tuple(sys.path) != record.path:
        message = f"the import of {record.name} changes sys.path"
        raise UnusableError(message)
    new = [name for name in sys.modules if name not in known]
    for name in ELSEWHERE:
        if name in new:
            raise UnusableError(UNKNOWN_BACKEND.format(name))
    return PreloadedPart(
        record=record,
        modules={name: sys.modules[name] for name in new if _is_hidden(name)},
        environment=difference(environment, dict(os.environ)),
        draws=None if random.getstate() == before else random.getstate(),
    )


def _refuse_if_asked_within(
    records: Sequence[ImportRecord], modules: Mapping[str, ModuleType]
) -> None:
    """A package that the script imports before, and a framework imports as well, does not
    ask for NumPy once more where it was imported ahead."""
    for record in records:
        for name in record.within:
            if name in modules:
                message = (
                    f"the script imports {name} before {record.name}, which it imports"
                    f" itself: import {record.name} first"
                )
                raise UnusableError(message)


def _is_hidden(name: str) -> bool:
    """Not the standard library's: one of those more is no other thing to a script."""
    top = name.partition(".")[0]
    return top not in sys.stdlib_module_names and top not in OURS


def _refuse_if_started() -> None:
    """No device, no thread of the runtime: neither is to wait with us."""
    module: Any = sys.modules.get(CONTEXT)
    if module is None:
        message = "Keras computes with something else than TensorFlow"
        raise UnusableError(message)
    made = module.context_safe()
    if made is not None and getattr(made, STARTED, None) is not None:
        message = "the import of TensorFlow alone begins to use devices"
        raise UnusableError(message)


def _sources(modules: dict[str, ModuleType]) -> list[str]:
    """The files of ``modules``. Raises UnusableError where one is the script's own."""
    # The main module stands there as well, by another name, and is ours as yet.
    named = [it for name, it in modules.items() if name != SAME_MAIN]
    found = [getattr(it, "__file__", None) for it in named]
    sources = [path for path in found if isinstance(path, str)]
    for path in sources:
        if not is_installed(path):
            message = f"the framework imports {path}, which is no installed package's"
            raise UnusableError(message)
    return sources


def files_of(paths: Sequence[str] | Files) -> Files:
    """How each of the files is now; (0, 0): it is not there."""
    found: Files = {}
    for path in paths:
        found[path] = (0, 0)
        with contextlib.suppress(OSError):
            known = Path(path).stat()
            found[path] = known.st_mtime_ns, known.st_size
    return found


def applied(environment: dict[str, str], changes: dict[str, Any]) -> dict[str, str]:
    """``environment`` with ``changes`` in it."""
    whole = {**environment, **changes}
    return {name: str(value) for name, value in whole.items() if value is not None}


def _set_environment(wanted: dict[str, str]) -> None:
    """Only what differs is touched: C code may hold pointers to the rest."""
    for name, value in difference(dict(os.environ), wanted).items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


class _PreloadedFinder:
    """Finds what was imported ahead."""

    def __init__(
        self, parts: list[PreloadedPart], initial: dict[str, str], restart: Restart
    ) -> None:
        self._parts, self._initial, self._restart = parts, initial, restart
        self._hidden: dict[str, ModuleType] = {}
        for part in parts:
            self._hidden.update(part.modules)

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """As ``importlib.abc.MetaPathFinder`` has it: a look puts nothing back."""
        del path, target
        module = self._hidden.get(fullname)
        if module is None:
            return None
        known = getattr(module, "__spec__", None)
        loader: Any = _PreloadedLoader(self, fullname)
        found = ModuleSpec(fullname, loader, origin=getattr(known, "origin", None))
        found.submodule_search_locations = getattr(
            known, "submodule_search_locations", None
        )
        return found

    def put_back(self, name: str) -> ModuleType:
        """The module that was asked for: what came with it is there, too."""
        module = self._hidden[name]
        if name in FRAMEWORKS:
            self._put_back_part(name)
        else:  # something that frameworks import, too
            self._show([one for one in self._hidden if _is_below(one, name)])
        return module

    def _put_back_part(self, name: str) -> None:
        part = self._parts[0] if self._parts else None
        now = context(name, self._initial)
        if part is None or part.record.name != name:
            self._restart(f"this time the script imports {name} at another point")
        elif now != replace(part.record, within=()):
            self._restart(
                f"this time the script imports {name} under other circumstances: "
                f"{_differing(now, part.record)}"
            )
        else:
            self._parts.pop(0)
            if part.draws is not None:
                random.setstate(part.draws)
            _set_environment(applied(dict(os.environ), part.environment))
            self._show([one for one in part.modules if one in self._hidden])

    def _show(self, names: list[str]) -> None:
        for name in names:
            sys.modules[name] = self._hidden.pop(name)
        if SAME_MAIN in names:
            sys.modules[SAME_MAIN] = sys.modules["__main__"]


def _stand_before_path_finder(finder: _PreloadedFinder) -> None:
    """For scripts that rearrange ``sys.meta_path``: what is native must not be loaded a
    second time."""
    ask = PathFinder.find_spec

    def find_spec(
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        return finder.find_spec(fullname) or ask(fullname, path, target)

    setattr(PathFinder, "find_spec", staticmethod(find_spec))  # noqa: B010  # mypy allows no other way


def _is_below(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _differing(now: ImportRecord, then: ImportRecord) -> str:
    names = ("environment", "path", "directory", "processors", "draws")
    found = [name for name in names if getattr(now, name) != getattr(then, name)]
    if found == ["environment"]:
        changed = now.environment.items() ^ then.environment.items()
        return ", ".join(sorted({name for name, _ in changed}))
    return ", ".join(found)


class _PreloadedLoader:
    """Puts a module back in the place of executing it."""

    def __init__(self, finder: _PreloadedFinder, name: str) -> None:
        self._finder, self._name = finder, name
        self._known: Any = None

    def create_module(self, _spec: ModuleSpec) -> ModuleType:
        """The module as it is."""
        module = self._finder.put_back(self._name)
        self._known = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It is executed: what waits for it is told."""
        module.__spec__ = self._known
        import_hooks.catch_up()
