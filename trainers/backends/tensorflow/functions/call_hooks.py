"""Calls of compiled functions from the script, and what it reads of their variables.

The outermost ones alone, made where TensorFlow executes eagerly: what a call calls is part
of it. Whoever follows them (``follow``) is asked in the place of each call, and told when
the script looks at a variable between two calls.

The private names that this leans on:

| name | why |
| --- | --- |
| ``polymorphic_function.Function`` | what ``tf.function`` makes; its ``__call__`` |
| ``tf.function._list_all_concrete_functions`` | what it was traced to |
| ``BaseResourceVariable`` | made by each ``tf.Variable``: a list of those there are |
| ``BaseResourceVariable._handle`` | read by whatever uses a variable, C++ included |
| ``_UnreadVariable`` | what an assignment returns: none of its own |
| ``handle._id`` | the number of a variable, which is given once |
| ``TFE_Py_TapeSetIsEmpty`` | whether a gradient is taken through a call |
"""

import functools
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context as eager_context
from tensorflow.python.eager.polymorphic_function import polymorphic_function
from tensorflow.python.ops import resource_variable_ops

NAMES: tuple[tuple[Any, str], ...] = (
    (polymorphic_function.Function, "__call__"),
    (polymorphic_function.Function, "_list_all_concrete_functions"),
    (resource_variable_ops, "BaseResourceVariable"),
    (resource_variable_ops, "_UnreadVariable"),
    (pywrap_tfe, "TFE_Py_TapeSetIsEmpty"),
)

Run = Callable[..., Any]


class CallFollower(Protocol):
    """Who is asked in the place of each call."""

    def call(
        self, function: Any, run: Run, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """What ``run(function, *args, **kwargs)`` would return."""

    def elsewhere(self, function: Any) -> None:
        """Another thread than the script's first calls ``function``."""


class LookFollower(Protocol):
    """Who is told of each look at a variable."""

    def looked_at(self, handle: int, *, elsewhere: bool) -> None:
        """The script is about to use the variable, or to change it by what it is."""

    def assigned(self, handle: int) -> None:
        """It is given another value altogether."""


class _CallHooks:
    """What is asked at each call: nobody, at first."""

    def __init__(self) -> None:
        self.follower: CallFollower | None = None
        self.busy = False
        """In the script's thread: within a call, or while we look ourselves."""
        self.looking: LookFollower | None = None
        """Who is told of variables, too."""
        self.script = threading.get_ident()


_hooks = _CallHooks()
_variables: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()


class _Quiet:
    """A generator would cost three times as much, at each call."""

    def __enter__(self) -> None:
        self._before, _hooks.busy = _hooks.busy, True

    def __exit__(self, *_error: object) -> None:
        _hooks.busy = self._before


def quiet() -> AbstractContextManager[None]:
    """What is done within is no doing of the script's."""
    return _Quiet()


def install() -> None:
    """Right after TensorFlow's import: variables are numbered from here on."""
    base: Any = resource_variable_ops.BaseResourceVariable
    unread = resource_variable_ops._UnreadVariable
    made = base.__init__

    @functools.wraps(made)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        if type(self) is unread:  # what an assignment returns, often
            return
        number = number_of(self._handle)
        if number is not None:
            _variables[number] = self

    base.__init__ = init
    _hook_calls()


def number_of(handle: Any) -> int | None:
    """That of a variable, by its handle; None: it is part of a graph."""
    found: int | None = handle._id if hasattr(handle, "numpy") else None
    return found


def _hook_calls() -> None:
    function: Any = polymorphic_function.Function
    run = function.__call__
    eager = eager_context.executing_eagerly

    @functools.wraps(run)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        follower = _hooks.follower
        if follower is None or not eager():
            return run(self, *args, **kwargs)
        if _is_elsewhere():  # whatever the script's thread is busy with
            follower.elsewhere(self)
            return run(self, *args, **kwargs)
        if _hooks.busy:
            return run(self, *args, **kwargs)
        return follower.call(self, run, args, kwargs)

    function.__call__ = call


def follow(follower: CallFollower | None) -> None:
    """Ask ``follower`` in the place of each call from here on; None: nobody."""
    _hooks.follower = follower
    _hooks.script = threading.main_thread().ident or 0


def look(follower: LookFollower) -> None:
    """Tell ``follower`` of each look at a variable; not undone: it costs 0.1 µs then."""
    _hooks.looking = follower
    base: Any = resource_variable_ops.BaseResourceVariable
    if isinstance(vars(base).get("_handle"), property):
        return

    def get(self: Any) -> Any:
        handle = self.__dict__["_handle"]
        told = _hooks.looking
        if told is not None:
            elsewhere = _is_elsewhere()
            number = number_of(handle) if elsewhere or not _hooks.busy else None
            if number is not None:
                told.looked_at(number, elsewhere=elsewhere)
        return handle

    def put(self: Any, handle: Any) -> None:
        self.__dict__["_handle"] = handle

    base._handle = property(get, put)
    assign = base.assign

    @functools.wraps(assign)
    def assigned(self: Any, value: Any, *args: Any, **kwargs: Any) -> Any:
        told = _hooks.looking
        if told is not None and not _hooks.busy and not _is_elsewhere():
            value = tf.convert_to_tensor(value, dtype=self.dtype)  # it may be of itself
            number = number_of(self.__dict__["_handle"])
            if number is not None:
                told.assigned(number)
        return assign(self, value, *args, **kwargs)

    base.assign = assigned


def look_away() -> None:
    """Nobody is told of variables any more."""
    _hooks.looking = None


def _is_elsewhere() -> bool:
    return threading.get_ident() != _hooks.script


def variable(handle: int) -> Any | None:
    """That of this number; None: it is gone."""
    return _variables.get(handle)


def is_quiet() -> bool:
    """Whether what happens now is no doing of the script's."""
    return _hooks.busy


def path_of(value: Any) -> Any:
    """The path in what a checkpoint's writer returned."""
    return value.numpy().decode() if hasattr(value, "numpy") else value


def is_eager() -> bool:
    """Whether what is called now is computed at once."""
    return bool(eager_context.executing_eagerly())


def under_tape() -> bool:
    """Whether a gradient may be taken through what is called now."""
    return not pywrap_tfe.TFE_Py_TapeSetIsEmpty()
