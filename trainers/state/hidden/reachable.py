"""What the script's own code can reach while it trains: where it may keep state.

From the model, its loss and metrics, and the callbacks, this follows the functions that
the script defines: the globals and closures that they name, what these refer to, the
modules of its own, and the attributes of its objects and classes. Objects of libraries
are not looked into, but for those of Keras: there the attributes that the script's code
names, and their variables.
"""

import collections
import contextvars
import functools
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from trainers.backends import keras_losses
from trainers.backends.selected import backend
from trainers.state import object_state
from trainers.state.hidden import library_state
from trainers.state.hidden.library_state import CachedFunction, names_in
from trainers.state.hidden.owner import Owner

LEAVES = (type(None), bool, int, float, complex, str, bytes, np.ndarray, np.generic)
"""Types that lead nowhere."""
MOST_ITEMS = 1000
"""Of a container, so many are followed."""
KERAS = (
    keras.Layer, keras.optimizers.Optimizer, keras.Metric, keras.Loss,
    keras.callbacks.Callback, keras.utils.PyDataset, keras.initializers.Initializer,
    keras.regularizers.Regularizer, keras.optimizers.schedules.LearningRateSchedule,
)  # fmt: skip
CALLED = ("activation", "recurrent_activation", "function")
"""Attributes of layers that may be functions of the script."""
AUTOGRAPH_SETS = frozenset({"ag_dnc_wrapper__", "autograph_info__"})
"""Attributes that TensorFlow gives to functions which it calls."""
KERAS_SETS = frozenset(
    {
        "built", "name", "stop_training", "history", "optimizer", "loss", "metrics",
        "train_function", "test_function", "predict_function", "params", "model",
        "validation_data", "iterations", "learning_rate", "inputs", "outputs",
    }
)  # fmt: skip
"""Attributes that Keras itself sets while it trains, and sets again."""
GIVEN = "()"
"""Ends the path of arguments that a function was bound to: nothing else can be put there."""


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """All that was found."""

    owners: dict[str, Owner]
    variables: dict[str, Any]
    """The framework's variables by path, once each."""
    tables: dict[str, Any]
    """Its lookup tables."""
    models: dict[str, Any]
    """Models other than the one that is trained."""


def reachable(
    model: Any,
    callbacks: Iterable[Any],
    more: Iterable[tuple[str, Any]] = (),
    *,
    apart: Any = None,
) -> Reached:
    """What a ``fit`` of ``model`` can reach; ``more``: other things it calls, by path.
    ``apart``: a dataset that is followed by itself.

    The attributes of ``callbacks`` are saved elsewhere: only what they lead to is here.
    """
    walk = _Walk(model, apart)
    walk.follow("model", model)
    for one in callbacks:
        walk.follow_callback(one)
    for path, one in more:
        walk.follow(path, one)
    return walk.result()


def reachable_from_data(dataset: Any) -> Reached:
    """What the functions of a ``PyDataset`` can reach beside the dataset itself."""
    walk = _Walk(dataset)
    walk.follow_callback(dataset)
    return walk.result()


class _Walk:
    def __init__(self, trained: Any, apart: Any = None) -> None:
        self._trained = trained
        self._owners: dict[str, Owner] = {}
        self._variables: dict[int, tuple[str, Any]] = {}
        self._tables: dict[str, Any] = {}
        self._models: dict[str, Any] = {}
        self._saved: set[int] = set()
        if isinstance(trained, keras.Model):
            self._saved = {
                id(backend.values.tensor_of(one))
                for _, one in backend.variables.listed(trained)
            }
        self._seen: dict[int, Any] = {id(apart): apart}
        self._classes: set[type] = set()
        self._below: set[int] = set()
        """``id`` of the layers of the model that is trained: it has their variables."""
        self._mentioned: set[str] = set()
        self._keras: dict[str, Any] = {}
        self._names: dict[str, set[str]] = collections.defaultdict(set)
        self._times: collections.Counter[str] = collections.Counter()
        self._waiting: collections.deque[tuple[str, Any]] = collections.deque()

    def follow(self, path: str, value: Any) -> None:
        """``value``, which ``path`` stands for, and all that it leads to."""
        self._waiting.append((path, value))
        self._run()

    def follow_callback(self, callback: Any) -> None:
        """What its methods and attributes lead to."""
        self._seen[id(callback)] = callback
        name = type(callback).__name__
        self.of_class(type(callback))
        for attribute, value in list(vars(callback).items()):
            self._covered(f"{name}.{attribute}", value)
        self._run()

    def _covered(self, path: str, value: Any) -> None:
        """A value that is saved with its owner, objects of the script's in it, too."""
        within = collections.deque([(path, value)])
        while within:
            path, value = within.popleft()
            if isinstance(value, LEAVES) or id(value) in self._seen:
                continue
            if object_state.is_own(value):
                self._seen[id(value)] = value
                self.of_class(type(value))
                held = list(object_state.attributes(value).items())
                within.extend((f"{path}.{name}", one) for name, one in held)
            elif (items := _items(value)) is not None:
                self._seen[id(value)] = value
                within.extend((f"{path}[{name}]", one) for name, one in items)
            elif not backend.hidden.is_variable(value):  # it is saved with the callback
                self._waiting.append((path, value))

    def result(self) -> Reached:
        """What was found so far."""
        for path, one in self._keras.items():
            names = self._names[path]
            self._own(path, tuple(n for n in vars(one) if n in names), one)
        return Reached(
            owners=self._owners,
            variables=dict(self._variables.values()),
            tables=self._tables,
            models=self._models,
        )

    def _run(self) -> None:
        """Until nothing new is found: a function may name attributes of Keras' objects
        that were seen before it."""
        while self._waiting or self._name_attributes():
            while self._waiting:
                self._visit(*self._waiting.popleft())

    def _name_attributes(self) -> bool:
        found = False
        mentioned = self._mentioned - KERAS_SETS
        for path, one in self._keras.items():
            held = vars(one)
            more = (held.keys() & mentioned) - self._names[path]
            for name in sorted(more):
                self._waiting.append((f"{path}.{name}", held[name]))
            self._names[path] |= more
            found = found or bool(more)
        return found

    def _visit(self, path: str, value: Any) -> None:
        if isinstance(value, LEAVES) or id(value) in self._seen:
            return
        self._seen[id(value)] = value
        for kind, visit in _VISITORS:
            if isinstance(value, kind):
                visit(self, path, value)
                return
        self._other(path, value)

    def _other(self, path: str, value: Any) -> None:
        python = backend.hidden.python_function(value)
        if python is not None:
            self._waiting.append((path, python))
        elif backend.hidden.is_variable(value):
            self._variable(path, value)
        elif backend.hidden.is_table(value):
            self._tables[path] = value
        elif (items := _items(value)) is not None:
            self._waiting.extend((f"{path}[{name}]", one) for name, one in items)
        elif object_state.is_of_own_class(value):
            self.of_class(type(value))
            apart = backend.hidden.names_of_parts(value)
            held = {
                name: one
                for name, one in object_state.attributes(value).items()
                if name not in apart
            }
            self._own(path, tuple(held), value)
            for name, one in sorted(held.items()):
                self._waiting.append((f"{path}.{name}", one))
        self._held(path, value)

    def _held(self, path: str, value: Any) -> None:
        for name, one in backend.hidden.held_in(value):
            self._waiting.append((f"{path}.{name}", one))

    def _own(self, path: str, names: tuple[str, ...], value: Any) -> None:
        self._owners[path] = Owner(
            path,
            names,
            functools.partial(object_state.attributes, value),
            functools.partial(object_state.set_attribute, value),
        )

    def _variable(self, path: str, variable: Any) -> None:
        inner = backend.hidden.state_of(variable)
        known = id(backend.values.tensor_of(inner))
        if known not in self._saved:
            self._variables.setdefault(known, (path, inner))

    def of_keras(self, path: str, value: Any) -> None:
        """What the script's code names of it, what it is made of, its variables."""
        self._keras[path] = value
        self.of_class(type(value))
        below = value is self._trained or id(value) in self._below
        for name, one in _parts(value, below=below):
            self._waiting.append((f"{path}.{name}", one))
        self._held(path, value)
        if value is self._trained:
            self._below |= {id(one) for one in keras_losses.layers_below(value)}
            return
        if isinstance(value, keras.Model):
            self._models[path] = value
        for index, one in enumerate(backend.hidden.variables_of(value, below=below)):
            self._variable(f"{path}/{index}", one)

    def of_class(self, kind: type) -> None:
        """The methods and class attributes of the script's own classes."""
        for one in kind.__mro__:
            if one in self._classes:
                return
            self._classes.add(one)
            if not object_state.is_of_the_script(one):
                continue
            kept = tuple(
                name
                for name, value in vars(one).items()
                if not name.startswith("__") and not _is_behaviour(value)
            )
            path = self._once(_named(one.__module__, one.__qualname__))
            self._owners[path] = Owner(
                path,
                kept,
                functools.partial(vars, one),
                functools.partial(setattr, one),
            )
            for name, value in list(vars(one).items()):
                for inner in _functions_of(value):
                    self._waiting.append((f"{path}.{name}", inner))

    def of_method(self, path: str, method: types.MethodType) -> None:
        """Its function, and what it is bound to."""
        self._waiting.append((path, method.__func__))
        self._given(path, (method.__self__,))

    def of_built_in(self, path: str, method: Any) -> None:
        """What it is bound to: a generator of random numbers, an iterator."""
        bound = getattr(method, "__self__", None)
        if not isinstance(bound, (types.ModuleType, type)):
            self._given(path, (bound,))

    def of_partial(self, path: str, call: "functools.partial[Any]") -> None:
        """The same of a ``functools.partial``."""
        self._waiting.append((path, call.func))
        self._given(path, (*call.args, *call.keywords.values()))

    def of_cached(self, path: str, function: Any) -> None:
        """The function that is cached, and its results, where it may give others again."""
        self._waiting.append((path, function.__wrapped__))
        if object_state.is_of_the_script(function):
            self._library(library_state.of_cache(f"{path}()/", function))

    def of_context(self, path: str, variable: "contextvars.ContextVar[Any]") -> None:
        """Its value in the context of training."""
        self._library(library_state.of_context(f"{path}/", variable))

    def of_local(self, path: str, local: threading.local) -> None:
        """The attributes that it has in the thread of training."""
        self._namespace(path, tuple(vars(local)), vars(local))

    def _library(self, owner: Owner) -> None:
        self._owners[owner.path] = owner
        for name, value in owner.values().items():
            self._waiting.append((at(owner.path, name), value))

    def of_function(self, path: str, function: types.FunctionType) -> None:
        """The names that it uses, what it is closed over, its attributes and defaults."""
        wrapped = getattr(function, "__wrapped__", None)
        if wrapped is not None:
            self._waiting.append((path, wrapped))
        if not object_state.is_of_the_script(function):
            return
        called = self._once(_named(function.__module__, function.__qualname__))
        names = names_in(function.__code__)
        self._mentioned |= names
        if "environ" in names:
            self._library(library_state.of_environment("os.environ"))
        self._cells(called, function)
        self._globals(function.__globals__, names)
        own = tuple(name for name in vars(function) if name not in AUTOGRAPH_SETS)
        self._namespace(called, own, vars(function))
        defaults = (function.__kwdefaults__ or {}).values()
        self._given(called, (*(function.__defaults__ or ()), *defaults))

    def _given(self, path: str, arguments: Iterable[Any]) -> None:
        """Arguments that a function was bound to; they can only change in place."""
        given = {str(index): one for index, one in enumerate(arguments)}
        self._namespace(f"{path}{GIVEN}", tuple(given), given)

    def _once(self, path: str) -> str:
        """``path``, numbered from the second on: a function may be made several times."""
        self._times[path] += 1
        return path if self._times[path] == 1 else f"{path}#{self._times[path]}"

    def _namespace(
        self, path: str, names: tuple[str, ...], held: dict[str, Any]
    ) -> None:
        """Names of a module, of a function's attributes or its defaults."""
        before = self._owners.get(path)
        if before is not None:
            names = tuple(dict.fromkeys((*before.names, *names)))
        self._owners[path] = Owner(path, names, lambda: held, held.__setitem__)
        for name in names:
            if name in held:
                self._waiting.append((at(path, name), held[name]))

    def _cells(self, called: str, function: types.FunctionType) -> None:
        held = zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        )
        cells = {
            name: cell
            for name, cell in held
            if name != "__class__" and self._seen.setdefault(id(cell), cell) is cell
        }
        if not cells:
            return
        path = f"{called}/"
        values = functools.partial(_contents, cells)

        def put(name: str, value: Any) -> None:
            cells[name].cell_contents = value

        self._owners.setdefault(path, Owner(path, tuple(cells), values, put))
        for name, value in values().items():
            self._waiting.append((at(path, name), value))

    def _globals(self, module: dict[str, Any], names: frozenset[str]) -> None:
        """Those of ``module`` that a function names, and of modules that it comes to by
        them; which may come back to each other (``package.part`` imports ``package``)."""
        within, seen = collections.deque([module]), {id(module)}
        while within:
            module = within.popleft()
            name = module.get("__name__", "")
            used = tuple(sorted(one for one in names if one in module))
            self._namespace("" if name == "__main__" else name, used, module)
            inner = [
                vars(one)
                for one in map(module.__getitem__, used)
                if isinstance(one, types.ModuleType) and object_state.is_own_module(one)
            ]
            within.extend(one for one in inner if id(one) not in seen)
            seen |= {id(one) for one in inner}


def at(path: str, name: str) -> str:
    """The path of ``name`` in the owner at ``path``, for people."""
    if path.endswith("/"):
        return f"{name} of {path[:-1]}"
    return f"{path}.{name}" if path else name


def _named(module: str, name: str) -> str:
    return name if module == "__main__" else f"{module}.{name}"


def _contents(cells: Mapping[str, types.CellType]) -> dict[str, Any]:
    found = {}
    for name, cell in cells.items():
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


def _items(value: Any) -> list[tuple[Any, Any]] | None:
    """What of a container may lead on; None: it is none."""
    if isinstance(value, dict):
        pairs: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        pairs = enumerate(value)
    else:
        return None
    first = [pair for pair, _ in zip(pairs, range(MOST_ITEMS), strict=False)]
    return [pair for pair in first if not isinstance(pair[1], LEAVES)]


def _parts(value: Any, *, below: bool) -> Iterator[tuple[str, Any]]:
    """What an object of Keras is made of; ``below``: it is part of one, whose layers
    are all there."""
    if isinstance(value, keras.Layer):
        held = vars(value)
        yield from ((name, held[name]) for name in CALLED if name in held)
        if not below or isinstance(value, keras.Model):
            for layer in keras_losses.layers_below(value):
                yield layer.name, layer
    if isinstance(value, keras.Model):
        yield "optimizer", getattr(value, "optimizer", None)
        for index, one in enumerate(keras_losses.given_to_compile(value)):
            yield f"compile {index}", one
    if isinstance(value, keras.optimizers.Optimizer):
        yield "learning_rate", keras_losses.given_rate(value)
        yield "inner_optimizer", getattr(value, "inner_optimizer", None)


def _is_behaviour(value: Any) -> bool:
    kinds = (staticmethod, classmethod, property, functools.cached_property)
    return (
        isinstance(value, kinds)
        or callable(value)
        or isinstance(value, (types.MemberDescriptorType, types.GetSetDescriptorType))
    )


def _functions_of(value: Any) -> Iterator[Any]:
    """What an attribute of a class may run."""
    if isinstance(value, property):
        yield from (one for one in (value.fget, value.fset) if one is not None)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif isinstance(value, functools.cached_property):
        yield value.func
    elif not isinstance(value, type):
        yield value


_VISITORS: tuple[tuple[Any, Callable[[_Walk, str, Any], None]], ...] = (
    (types.FunctionType, _Walk.of_function),
    (types.MethodType, _Walk.of_method),
    (functools.partial, _Walk.of_partial),
    (CachedFunction, _Walk.of_cached),
    (contextvars.ContextVar, _Walk.of_context),
    (threading.local, _Walk.of_local),
    ((types.BuiltinMethodType, types.MethodWrapperType), _Walk.of_built_in),
    (types.ModuleType, lambda _walk, _path, _one: None),
    (type, lambda walk, _path, one: walk.of_class(one)),
    (KERAS, _Walk.of_keras),
)
"""By type; ``_other`` has the rest."""
