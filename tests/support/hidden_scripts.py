"""Scripts that keep state where no model has it, and a model that calls them."""

import collections
import contextlib
import functools
import itertools
import random
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from trainers.state.hidden import hidden_state
from trainers.state.hidden.hidden_state import HiddenState
from trainers.state.variable_state import Places


class Calls(keras.callbacks.Callback):
    """Runs a function of the script at each batch."""

    def __init__(self, function: Callable[[], Any]) -> None:
        super().__init__()
        self.function = function


def network() -> Any:
    """A small model, built."""
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


class Script:
    """What a script makes: ``namespace`` is its globals, as after it has run."""

    def __init__(self, source: str) -> None:
        module = types.ModuleType("__main__")
        vars(module).update(
            np=np, tf=tf, keras=keras, itertools=itertools, random=random,
            collections=collections, functools=functools, threading=threading,
            network=network,
        )  # fmt: skip
        exec(compile(source, "script.py", "exec"), vars(module))  # noqa: S102  # ours
        self.namespace = vars(module)
        self.model = network()
        self.step: Callable[[], Any] = self.namespace["step"]
        self._module = module
        with self.running():
            self.hidden = HiddenState(self.model, [Calls(self.step)])

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """It is the script that runs: its classes are found by their names."""
        kept, sys.modules["__main__"] = sys.modules["__main__"], self._module
        try:
            yield
        finally:
            sys.modules["__main__"] = kept

    def capture(self) -> tuple[dict[str, Any], list[Any], list[str]]:
        """What is saved of it now, and told."""
        with self.running():
            return self.hidden.capture(Places([], self.hidden.named()))

    def restore(self, state: dict[str, Any], tensors: list[Any]) -> list[str]:
        """What ``capture`` of another gave; what is told."""
        stored = {one.name: np.array(one.read()) for one in tensors}
        with self.running():
            moved = state.get(hidden_state.KEY, {}).get("moved", ())
            places = Places([], self.hidden.named(), moved=moved)
            return self.hidden.restore(state, stored, places)


def resumed(
    source: str, *, steps: int = 3, more: int = 2
) -> tuple[Script, Script, list[str]]:
    """A script saved after ``steps``, and one made anew with that state; both then make
    ``more`` steps. The last: what was told. Nothing is saved before anything changes."""
    first, second = Script(source), Script(source)
    unchanged, saved, told = first.capture()
    assert not any(unchanged[name] for name in ("values", "variables", "tables"))
    assert (saved, told) == ([], [])
    for _ in range(steps):
        first.step()
    state, tensors, told = first.capture()
    told += second.restore({hidden_state.KEY: state}, tensors)
    for _ in range(more):
        first.step(), second.step()
    return first, second, told
