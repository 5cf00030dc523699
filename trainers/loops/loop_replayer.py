"""The replay of a loop: its calls answered from the record, without being computed."""

from collections.abc import Callable
from typing import Any

from trainers.backends.selected import backend
from trainers.backends.tensorflow.data import pipelines
from trainers.loops import packing, sentences
from trainers.loops.call_effects import CallEffects, NotFollowedError
from trainers.loops.call_table import CallOf
from trainers.loops.event_log import EventKind, OtherWayError
from trainers.loops.loop_state import RecordedLoop


class LoopReplayer:
    """Reads the record of a loop. All may raise OtherWayError."""

    def __init__(self, loop: RecordedLoop, effects: CallEffects) -> None:
        self._loop, self._effects = loop, effects

    @property
    def is_over(self) -> bool:
        """Whether the record was read to its end."""
        return self._loop.log.is_read

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call returned."""
        call, known = self._effects.known_by(function, args, kwargs)
        event = self._loop.log.next(EventKind.CALL, EventKind.TRACED)
        kind = self._like(event.number, call)
        if event.content[: len(known)] != known:
            raise OtherWayError(sentences.OTHER_DATA.format(call.name))
        traced = event.kind is EventKind.TRACED
        if traced:
            with backend.calls.quiet():
                backend.calls.trace(function, args, kwargs)
        try:
            self._effects.of_call(call, function, traced=traced)
        except NotFollowedError as error:
            raise OtherWayError(str(error)) from None
        return packing.unpack(kind.template, event.content[len(known) :])

    def _like(self, number: int, call: CallOf) -> CallOf:
        kind = self._loop.calls[number]
        if not kind.is_like(call):
            raise OtherWayError(sentences.OTHER_CALL.format(call.text, kind.text))
        return kind

    def looked_at(self, handle: int, variable: Any) -> None:
        """The script is about to use that variable: it is given the value of then."""
        event = self._loop.log.next(EventKind.LOOKED_AT)
        if event.number != self._loop.written.numbers[handle]:
            raise OtherWayError(sentences.OTHER_VARIABLE)
        with backend.calls.quiet():
            backend.values.assign_bytes(variable, event.content)

    def evaluation(
        self, call: CallOf, model: Any, run: Callable[[], Any], data: Any
    ) -> Any:
        """What ``evaluate`` or ``predict`` returned; ``data``: what it iterates."""
        event = self._loop.log.next(EventKind.EVALUATED)
        kind = self._like(event.number, call)
        found = packing.unpack(kind.template, event.content)
        # A version before recorded the result alone, which never is such a pair.
        counts = isinstance(found, tuple) and len(found) == 2 and type(found[0]) is int
        made, result = found if counts else (0, found)
        known = self._effects.is_known(call)
        with backend.calls.quiet():
            if known and made and pipelines.is_pipeline(data):
                pipelines.replay(data, made=made, used=1)
            elif not known or not is_arrays(data):
                run()  # for what is traced in it, or for what its data do
        self._effects.of_method(call, model)
        return result

    def written(self, path: str) -> Any:
        """What writing to ``path`` returned; the file lies there."""
        event = self._loop.log.next(EventKind.WRITTEN)
        template = self._loop.calls[event.number].template
        before, result = packing.unpack(template, event.content)
        if before != path:
            raise OtherWayError(sentences.OTHER_FILE)
        return result


def is_arrays(data: Any) -> bool:
    """Whether nothing but arrays is in there: no state that an iteration would move."""
    if isinstance(data, (list, tuple)):
        return all(map(is_arrays, data))
    if isinstance(data, dict):
        return all(map(is_arrays, data.values()))
    return hasattr(data, "dtype") and hasattr(data, "shape")
