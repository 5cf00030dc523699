"""What the calls of a loop leave behind, beside what they return."""

from typing import Any

from trainers.backends.selected import backend
from trainers.fit.determinism import Determinism
from trainers.loops import packing, sentences
from trainers.loops.call_table import CallOf
from trainers.loops.loop_state import RecordedLoop

WHOLE_EVERY = 64
"""Of so many calls one has its arguments looked at as a whole."""
FUNCTIONS = {"evaluate": "test_function", "predict": "predict_function"}
"""Which of a model's functions its methods call."""


class NotFollowedError(Exception):
    """The loop cannot be followed (any more); the text says why."""


class CallEffects:
    """Looks into functions when they were traced, and knows calls by their arguments."""

    def __init__(self, loop: RecordedLoop, promise: Determinism) -> None:
        self._loop, self._promise = loop, promise
        self._models: set[int] = set()
        """Numbers of the methods of models that were looked into."""

    def known_by(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[CallOf, bytes]:
        """What a call is known by: its kind, and a checksum of its arguments."""
        key = packing.key_of(args), packing.key_of(kwargs)
        name = getattr(function, "__name__", type(function).__name__)
        whole = self._loop.log.count % WHOLE_EVERY == 0
        total = packing.sum_of((args, kwargs), whole=whole)
        call = self._loop.calls.call_of(function, name, key)
        return call, total.to_bytes(4, "little")

    def of_call(self, call: CallOf, function: Any, *, traced: bool) -> None:
        """``function`` was called. Raises NotFollowedError."""
        written = self._loop.written
        if traced or not written.is_known(call.function):
            with backend.calls.quiet():
                written.by(call.function, backend.calls.changed(function))
                random, python, others = backend.calls.own_state(function)
            if others:
                why = sentences.OWN_STATE.format(call.name, ", ".join(sorted(others)))
                raise NotFollowedError(why)
            if random:
                self._promise.tell(sentences.RANDOM.format(call.name))
            if python:
                self._promise.tell(sentences.PYTHON.format(call.name))
        written.called(call.function)

    def method_of(self, model: Any, name: str, arguments: dict[str, Any]) -> CallOf:
        """``model.evaluate`` or ``model.predict`` as a call."""
        key = sorted((key, packing.key_of(one)) for key, one in arguments.items())
        return self._loop.calls.call_of(model, name, tuple(key))

    def is_known(self, call: CallOf) -> bool:
        """Whether that method was called before."""
        return call.function in self._models

    def of_method(self, call: CallOf, model: Any) -> None:
        """It was called."""
        if call.function not in self._models:
            self._models.add(call.function)
            with backend.calls.quiet():
                changed = backend.calls.changed_by_model(model, FUNCTIONS[call.name])
            self._loop.written.by(call.function, changed)
        self._loop.written.called(call.function)
