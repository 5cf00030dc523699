"""State that the standard library keeps for a script: caches of its functions, context
variables, the environment.

Each is told as names and values, with a way to put them back.
"""

import contextvars
import functools
import gc
import os
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

CachedFunction = functools._lru_cache_wrapper  # noqa: SLF001  # has no public name
OURS = "TRAINWARDEN_"
"""How names of the environment begin that are ours, another in each attempt."""
UNREADABLE = "the results of {} calls (they can be read only where maxsize is None)"
DRAWS = frozenset(
    {
        "Random", "SystemRandom", "choice", "choices", "default_rng", "getrandbits",
        "integers", "monotonic", "next", "normal", "now", "numpy_function", "open",
        "perf_counter", "permutation", "permuted", "rand", "randint", "randn", "random",
        "random_sample", "read", "sample", "secrets", "send", "shuffle",
        "standard_normal", "time", "time_ns", "today", "truncated_normal", "uniform",
        "urandom", "uuid1", "uuid4",
    }
)  # fmt: skip
"""Names by which a function gets something else each time."""
MOST_DEEP = 4
"""Functions that a cached one calls are looked into so far."""
_UNSET = object()


@dataclass(frozen=True, slots=True)
class LibraryState:
    """What is kept, by names, and how one is put back."""

    names: tuple[str, ...]
    values: Callable[[], Mapping[str, Any]]
    put: Callable[[str, Any], None]


@dataclass(frozen=True, slots=True)
class UnreadableCache:
    """Results that cannot be read; another once a call has been made anew."""

    misses: int

    @override
    def __str__(self) -> str:
        """What it holds, in words."""
        return UNREADABLE.format(self.misses)


def of_cache(function: Any) -> LibraryState | None:
    """What ``function``, made by ``functools.cache`` or ``lru_cache``, has kept of its
    calls. None: nothing, or what it makes the same again, as far as its code tells."""
    size = function.cache_parameters()["maxsize"]
    if size == 0 or not may_change(function.__wrapped__):
        return None
    kept = _results(function) if size is None else None

    def values() -> Mapping[str, Any]:
        found = UnreadableCache(function.cache_info().misses) if kept is None else kept
        return {"the cache": found}

    def put(_name: str, results: Any) -> None:
        if kept is not None:
            kept.clear()
            kept.update(results)

    return LibraryState(("the cache",), values, put)


def _results(function: Any) -> dict[Any, Any] | None:
    """By arguments. CPython's wrapper leads to it, as the garbage collector sees it
    (``lru_cache_tp_traverse`` in Modules/_functoolsmodule.c)."""
    own = vars(function)
    held = (one for one in gc.get_referents(function) if type(one) is dict)
    return next((one for one in held if one is not own), None)


def may_change(function: Any, depth: int = 0) -> bool:
    """Whether ``function`` may return something else when it is called with the same
    again: it draws, reads, or uses what is no module, function or class."""
    if not isinstance(function, types.FunctionType) or depth > MOST_DEEP:
        return True
    if function.__closure__:
        return True
    names = _names_of(function.__code__)
    if names & DRAWS:
        return True
    used = function.__globals__
    return any(_changes(used[name], depth) for name in names if name in used)


def _changes(value: Any, depth: int) -> bool:
    if isinstance(value, (types.ModuleType, types.BuiltinFunctionType, type)):
        return False
    wrapped = value.__wrapped__ if isinstance(value, CachedFunction) else value
    return may_change(wrapped, depth + 1)


@functools.cache
def _names_of(code: types.CodeType) -> frozenset[str]:
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(code.co_names).union(*(_names_of(one) for one in inner))


def of_context(variable: contextvars.ContextVar[Any]) -> LibraryState:
    """The value of ``variable`` in the context of the caller, where it has been set."""

    def values() -> Mapping[str, Any]:
        found = variable.get(_UNSET)
        return {} if found is _UNSET else {"the value": found}

    def put(_name: str, value: Any) -> None:
        variable.set(value)

    return LibraryState(("the value",), values, put)


def of_environment() -> LibraryState:
    """The environment of the process, but for what is ours."""
    names = tuple(name for name in os.environ if not name.startswith(OURS))
    return LibraryState(names, lambda: os.environ, os.environ.__setitem__)
