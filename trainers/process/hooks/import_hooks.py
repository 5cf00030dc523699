"""Import hooks: something is done right after a module was executed.

To look for a module is not to import it: ``importlib.util.find_spec`` may ask for one any
number of times, whoever calls it. So a hook hangs on the loader, and is called once for
each module that was executed to its end and stands in ``sys.modules`` then. What raised
on the way leaves it for the next try; what is reloaded is the same module.
"""

import contextlib
import gc
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Hook = Callable[[ModuleType], None]


@contextlib.contextmanager
def _without_collections() -> Generator[None]:
    """Without the garbage collector: a framework makes 100,000s of functions and classes
    that stay, and looking through them again and again is a fifth of the time that its
    import takes. Who has switched it off before finds it off."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class _Loader:
    """The module's own loader to all who look at it; tells when it has executed it."""

    def __init__(self, inner: Any, executed: Callable[[ModuleType], None]) -> None:
        self._inner = inner
        self._executed = executed

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        registered = spec is not None and sys.modules.get(spec.name) is module
        with _without_collections():
            self._inner.exec_module(module)
        # Not before: until its end the module is told by this loader (``_imported``).
        # From then on it keeps its own: resources and inspect ask it.
        if _is_ours(module.__loader__):
            module.__loader__ = self._inner
        if spec is not None and _is_ours(spec.loader):
            spec.loader = self._inner
        if registered:  # not a copy that somebody keeps for himself
            self._executed(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property  # type: ignore[misc]  # for isinstance(): nobody sets it
    def __class__(self) -> Any:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return self._inner.__class__

    @property
    def __dict__(self) -> Any:  # type: ignore[explicit-override, override]  # for vars()
        return self._inner.__dict__

    def __eq__(self, other: object) -> bool:  # type: ignore[explicit-override]  # as above
        mine: object = self._inner
        return bool(mine == (other._inner if type(other) is _Loader else other))

    def __hash__(self) -> int:  # type: ignore[explicit-override]  # as above
        return hash(self._inner)

    def __repr__(self) -> str:  # type: ignore[explicit-override]  # as above
        return repr(self._inner)

    def __reduce_ex__(self, protocol: Any) -> Any:  # type: ignore[explicit-override]  # as above
        return self._inner.__reduce_ex__(protocol)  # a copy is the loader's own


def _is_ours(loader: object) -> bool:
    return type(loader) is _Loader


def _imported(name: str) -> ModuleType | None:
    """The module of that name, if the import of it is over; without touching one that
    is loaded at the first touch, or what only stands in for it."""
    module = sys.modules.get(name)
    if type(module).__getattribute__ is not ModuleType.__getattribute__:
        return None
    spec: Any = vars(module).get("__spec__")
    if not isinstance(spec, ModuleSpec) or spec.name != name:
        return None
    initializing = getattr(spec, "_initializing", False)
    return None if initializing or _is_ours(spec.loader) else module


class _Hooks:
    """The hooks by name, and for which modules each was called."""

    def __init__(self, hooks: Mapping[str, Hook]) -> None:
        self._hooks = hooks
        self._called: dict[str, ModuleType] = {}
        self._lock = threading.Lock()

    def __contains__(self, name: str) -> bool:
        return name in self._hooks

    def call(self, name: str, module: ModuleType) -> None:
        """Once for each module."""
        with self._lock:
            if self._called.get(name) is module:
                return
            self._called[name] = module
        # Not under the lock: it imports, and others that import may wait for the lock.
        self._hooks[name](module)

    def catch_up(self) -> None:
        """Call those of modules that were imported past us: before we came, or by a
        finder that asks nobody."""
        for name in self._hooks:
            module = _imported(name)
            if module is not None:
                self.call(name, module)

    def around(self, spec: ModuleSpec | None) -> ModuleSpec | None:
        """``spec``, with the hook of its module if it has one."""
        if spec is None or spec.name not in self._hooks:
            return spec
        name, loader = spec.name, spec.loader
        # What cannot execute a module is none, or one of the old kind: see ``catch_up``.
        if hasattr(loader, "exec_module") and not _is_ours(loader):
            ours: Any = _Loader(loader, lambda module: self._executed(name, module))
            spec.loader = ours
        return spec

    def _executed(self, name: str, module: ModuleType) -> None:
        # A module may have put another in its own place.
        self.call(name, sys.modules.get(name, module))


class _Asking(threading.local):
    """The names for which this thread is asking the other finders."""

    def __init__(self) -> None:
        self.names: set[str] = set()


class _Finder:
    """Finds what those behind it find, of the names that have a hook."""

    def __init__(self, hooks: _Hooks) -> None:
        self._hooks = hooks
        self._asking = _Asking()

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """As ``importlib.abc.MetaPathFinder`` has it."""
        self._hooks.catch_up()
        names = self._asking.names
        if fullname not in self._hooks or fullname in names:
            return None  # those behind us may ask all finders themselves
        names.add(fullname)
        try:
            return self._hooks.around(self._of_others(fullname, path, target))
        finally:
            names.discard(fullname)

    def _of_others(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        finders = list(sys.meta_path)
        behind = finders.index(self) + 1 if self in finders else 0
        for finder in finders[behind:]:
            ask: Any = getattr(finder, "find_spec", None)
            found: ModuleSpec | None = ask and ask(name, path, target)
            if found is not None:
                return found
        return None


def _stand_around_path_finder(hooks: _Hooks) -> None:
    """For finders in front of ours that ask it alone, and for scripts that rearrange
    ``sys.meta_path``."""
    ask = PathFinder.find_spec

    def find_spec(
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        return hooks.around(ask(fullname, path, target))

    setattr(PathFinder, "find_spec", staticmethod(find_spec))  # noqa: B010  # mypy allows no other way


_installed: list[_Hooks] = []


def catch_up() -> None:
    """Modules stand in ``sys.modules`` that nobody executed just now: call their hooks."""
    for hooks in _installed:
        hooks.catch_up()


def after_import(hooks: Mapping[str, Hook]) -> None:
    """Call ``hooks[name](module)`` right after the module ``name`` was executed.

    Modules that are imported already are handed over at once; one that is taken out of
    ``sys.modules`` and imported anew is another one.
    """
    known = _Hooks(dict(hooks))
    _installed.append(known)
    known.catch_up()
    finder: Any = _Finder(known)
    sys.meta_path.insert(0, finder)
    _stand_around_path_finder(known)
