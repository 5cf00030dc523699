"""Plain values that a compiled function has taken for good.

What a traced function reads of a global, say, it never reads again. So it is traced again
after a restart with the values of that time; and where training has changed one since, it
is told that the result may differ.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from trainers.backends.selected import backend
from trainers.state import decode
from trainers.state.hidden import reachable
from trainers.state.hidden.marks import Name, flat, nested, plain_values
from trainers.state.hidden.reachable import Reached

TRAIN, TEST = "train", "test"
"""The functions of a model that are traced once."""
BAKED_IN = (
    "training changes {}, and the compiled step, or that of the validation, may go on with"
    " what it was when it was compiled: after a restart it is compiled with what it is then,"
    " so the result may differ (make it a variable of the model)"
)


def told_of(names: Iterable[Name]) -> list[str]:
    """Why bits are not promised any more where these values were taken."""
    return [BAKED_IN.format(reachable.at(*name)) for name in names]


Look = Callable[[], Reached]
"""For all that the ``fit`` can reach. Given to each call, not kept: who looks keeps this
object, and a model must be gone once its ``fit`` has returned."""


class BakedValues:
    """Those of the functions of one model."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._traced: dict[str, dict[Name, Any]] = {}
        """What each function may have taken when it was traced."""
        self.names: set[Name] = set()
        """Of those that changed; one that an earlier attempt told of, too."""

    def traced(self, function: str, look: Look) -> bool:
        """``function`` (``TRAIN``, ``TEST``) may just have been traced, for the first time;
        whether what it used is known by now."""
        if function in self._traced:
            return True
        if backend.traces.is_compiled(self._model):
            with contextlib.suppress(Exception):  # who captures the state tells
                self._traced[function] = plain_values(look())
        return function in self._traced

    def compare(self, found: Reached) -> None:
        """See which have changed. One that is new may hide that of a class."""
        if backend.traces.MADE_AGAIN:
            return
        now = plain_values(found)
        changed = {
            name
            for kept in self._traced.values()
            for name, value in now.items()
            if name not in kept or kept[name] != value
        }
        if not changed:
            return
        used = {
            (owner.path, name)
            for owner in reachable.reachable(self._model, ()).owners.values()
            for name in owner.names
        }
        self.names |= changed & used

    def capture(
        self, changed: Iterable[Name], encode: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """What each function was traced with, of the names that have ``changed``."""
        return {
            function: nested(
                {name: encode(kept[name]) for name in changed if name in kept}
            )
            for function, kept in self._traced.items()
        }

    def goes_back(self, kept: Mapping[str, Any]) -> None:
        """To ``kept``, of a snapshot, in the process that took it: functions that were
        traced later are taken for traced when they are called again, where they would have
        been traced the same."""
        known = kept.get("traced", {})
        self._traced = {
            name: one for name, one in self._traced.items() if name in known
        }
        self.names = {(path, name) for path, name in kept.get("baked", ())}

    def trace_again(
        self,
        kept: Mapping[str, Any],
        trace: Mapping[str, Callable[[], None]],
        look: Look,
    ) -> None:
        """Let ``trace``, by function, be done with the values of ``kept``, of a snapshot."""
        decoder = decode.StateDecoder({}, assign=_no_arrays)
        trains = kept.get("compiled", {}).get("trains")
        for function, encoded in kept.get("traced", {}).items():
            owners, values = look().owners, flat(encoded)
            for (path, name), one in values.items():
                if path in owners:
                    owners[path].put(name, decoder.decode(one))
            with contextlib.suppress(Exception):  # the first step raises it again
                if values or trains:
                    trace[function]()
            self.traced(function, look)


def _no_arrays(_existing: Any, _array: np.ndarray, _kind: str) -> Any:
    """Plain values have none."""
