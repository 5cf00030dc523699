"""State that the standard library keeps for a script: caches of its functions, context
variables, the environment.
"""

import contextvars
import functools
import gc
import itertools
import linecache
import os
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from trainers.state import object_state
from trainers.state.hidden.owner import Owner

CachedFunction = functools._lru_cache_wrapper  # noqa: SLF001  # has no public name
LINK = "_lru_list_elem"
"""The type of an entry of a cache that has a bound (Modules/_functoolsmodule.c)."""
OURS = "TRAINWARDEN_"
"""How names of the environment begin that are ours, another in each attempt."""
UNSAVED = "the results of {} calls (saved they are only where maxsize is None)"
COUNTED = "how often it was called ({} times)"
ASKED = "cache_info"
"""Who tells that."""
PLAIN = (type(None), bool, int, float, complex, str, bytes, object)
"""... and what stands between arguments by place and by name."""
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
class UnsavedCache:
    """Results that cannot be put back; other ones once a call has been made anew, or one
    has changed."""

    misses: int
    results: tuple[Any, ...]
    text: str = UNSAVED

    @override
    def __str__(self) -> str:
        """What it holds, in words."""
        return self.text.format(self.misses)


def of_cache(path: str, function: Any) -> Owner:
    """What ``function``, made by ``functools.cache`` or ``lru_cache``, has kept of its
    calls, where that could be another when it is made again."""
    size = function.cache_parameters()["maxsize"]
    counts = (ASKED,) if _is_asked_for(function) else ()

    def values() -> Mapping[str, Any]:
        return {**results(), **{name: _calls_of(function) for name in counts}}

    def results() -> Mapping[str, Any]:
        entries = _entries(function, size)
        if _is_repeated(entries) and not may_change(function.__wrapped__):
            return {}
        kept = _cache(function) if size is None else None
        if kept is not None and all(map(_is_plain, kept)):
            return {"the cache": kept}
        # What is called with objects would not be found again by copies of them.
        results = tuple(result for _, result in entries or ())
        return {"the cache": UnsavedCache(function.cache_info().misses, results)}

    def put(_name: str, results: Any) -> None:  # of the cache: counts are not saved
        kept = _cache(function) if size is None else None
        if kept is not None:
            kept.clear()
            kept.update(results)

    return Owner(path, () if size == 0 else ("the cache", *counts), values, put)


def _is_asked_for(function: Any) -> bool:
    """Whether the script may read how often ``function`` was called."""
    modules = (sys.modules.get(one) for one in (function.__module__, "__main__"))
    files = {getattr(one, "__file__", None) for one in modules}
    lines = (linecache.getlines(one) for one in files if one is not None)
    return any(ASKED in line for line in itertools.chain.from_iterable(lines))


def _calls_of(function: Any) -> UnsavedCache:
    info = function.cache_info()
    return UnsavedCache(info.hits + info.misses, (), COUNTED)


def _is_repeated(entries: list[tuple[Any, Any]] | None) -> bool:
    """Whether calls and results are plain values, which nobody changes."""
    return entries is not None and all(map(_is_plain, entries))


def _is_plain(value: Any) -> bool:
    return type(value) in PLAIN or (type(value) is tuple and all(map(_is_plain, value)))


def _cache(function: Any) -> dict[Any, Any] | None:
    """Results by arguments, of a cache without a bound. CPython's wrapper leads to it, as
    the garbage collector sees it (``lru_cache_tp_traverse``)."""
    own = vars(function)
    held = (one for one in gc.get_referents(function) if type(one) is dict)
    return next((one for one in held if one is not own), None)


def _entries(function: Any, size: int | None) -> list[tuple[Any, Any]] | None:
    """Arguments and results, without a call; None: they cannot be seen."""
    if size is None:
        kept = _cache(function)
        return None if kept is None else list(kept.items())
    held = gc.get_referents(function)  # an entry: arguments, result, type of entries
    ends = [
        at for at, one in enumerate(held) if type(one) is type and one.__name__ == LINK
    ]
    count = function.cache_info().currsize
    found = [(held[at - 2], held[at - 1]) for at in ends[:count]]
    return found if len(found) == count else None


def may_change(function: Any, depth: int = 0) -> bool:
    """Whether ``function`` may return something else when it is called with the same
    again: it draws, reads, or uses what is no function, nor a module or class of a
    library."""
    if not isinstance(function, types.FunctionType) or depth > MOST_DEEP:
        return True
    if function.__closure__:
        return True
    names = names_in(function.__code__)
    if names & DRAWS:
        return True
    used = function.__globals__
    return any(_changes(used[name], depth) for name in names if name in used)


def _changes(value: Any, depth: int) -> bool:
    if isinstance(value, types.ModuleType):
        return object_state.is_own_module(value)
    if isinstance(value, type):
        return object_state.is_of_the_script(value)
    if isinstance(value, types.BuiltinFunctionType):
        return False
    wrapped = value.__wrapped__ if isinstance(value, CachedFunction) else value
    return may_change(wrapped, depth + 1)


@functools.lru_cache(maxsize=4096)
def names_in(code: types.CodeType) -> frozenset[str]:
    """Every global and attribute that ``code`` names, and the functions inside of it."""
    inner = (one for one in code.co_consts if isinstance(one, types.CodeType))
    return frozenset(code.co_names).union(*(names_in(one) for one in inner))


def of_context(path: str, variable: contextvars.ContextVar[Any]) -> Owner:
    """The value of ``variable`` in the context of the caller, where it has been set."""

    def values() -> Mapping[str, Any]:
        found = variable.get(_UNSET)
        return {} if found is _UNSET else {"the value": found}

    def put(_name: str, value: Any) -> None:
        variable.set(value)

    return Owner(path, ("the value",), values, put)


def of_environment(path: str) -> Owner:
    """The environment of the process, but for what is ours."""
    names = tuple(name for name in os.environ if not name.startswith(OURS))
    return Owner(path, names, lambda: os.environ, os.environ.__setitem__)
