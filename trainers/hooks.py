"""Doing something right after a module was imported, without importing it ourselves."""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

type_of_hook = Callable[[ModuleType], None]


class _Loader(importlib.abc.Loader):
    """The module's own loader, and then the hook."""

    def __init__(self, inner: Any, hook: type_of_hook) -> None:
        self._inner = inner
        self._hook = hook

    def create_module(self, spec):
        return self._inner.create_module(spec)

    def exec_module(self, module):
        # The module keeps its own loader: resources and inspect ask it.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        self._hook(module)

    def __getattr__(self, name):
        return getattr(self._inner, name)


class _Finder(importlib.abc.MetaPathFinder):
    """First in ``sys.meta_path``; only looks at the names that have a hook."""

    def __init__(self, hooks: dict[str, type_of_hook]) -> None:
        self._hooks = hooks

    def find_spec(self, fullname, path, target=None):
        hook = self._hooks.pop(fullname, None)
        if hook is None:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, hook)
        return spec


def after_import(hooks: dict[str, type_of_hook]) -> None:
    """Call ``hooks[name](module)`` once, right after ``name`` was imported.

    Modules that are imported already are handed over at once.
    """
    waiting = dict(hooks)
    for name in [name for name in waiting if name in sys.modules]:
        waiting.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _Finder(waiting))
