"""The recorder of a loop: what its calls return, and what the script looks at between."""

from collections.abc import Callable
from typing import Any

from trainers.backends.selected import backend
from trainers.backends.tensorflow.data import pipelines
from trainers.loops import loop_state, packing, sentences
from trainers.loops.call_effects import CallEffects, NotFollowedError
from trainers.loops.call_table import CallOf
from trainers.loops.event_log import MOST_KINDS, EventKind
from trainers.loops.loop_state import RecordedLoop
from trainers.loops.packing import UnpackableError

PENDING = 32
"""Results that may still be in the making when they are recorded."""
LARGE = 1 << 20
"""Bytes of a result that is not kept waiting."""
MOST_RECORDED = 256 << 20
MOST_TIMES_STATE = 8
"""The record may take so many bytes, or so many times those of the variables."""
READABLE = packing.NUMERIC | {"bfloat16"}
SAVE = CallOf(-1, "save", "")


class LoopRecorder:
    """Adds to the record of a loop. All may raise NotFollowedError."""

    def __init__(self, loop: RecordedLoop, effects: CallEffects) -> None:
        self._loop, self._effects = loop, effects
        self._pending: list[tuple[EventKind, int, bytes, list[Any]]] = []
        self._sizes: dict[int, int] = {}
        """Bytes of a result, by the number of its kind."""

    def call(
        self,
        function: Any,
        run: Callable[[], Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[CallOf, Any]:
        """Make the call by ``run()``; its kind, and what it returned."""
        if backend.calls.under_tape():
            raise NotFollowedError(sentences.TAPE)
        before = backend.calls.traces(function)
        call, known = self._effects.known_by(function, args, kwargs)
        with backend.calls.quiet():
            result = run()
        traced = backend.calls.traces(function) != before
        self.made(call, known, function, result, traced=traced)
        return call, result

    def made(
        self, call: CallOf, known: bytes, function: Any, result: Any, *, traced: bool
    ) -> None:
        """A call that was made."""
        number, leaves = self._packed(call, result)
        self._effects.of_call(call, function, traced=traced)
        kind = EventKind.TRACED if traced else EventKind.CALL
        self._pending.append((kind, number, known, leaves))
        self._loop.log.count += 1  # it is, though it may still be in the making
        if len(self._pending) >= PENDING or self._is_large(number):
            self.flush()

    def _packed(self, call: CallOf, result: Any) -> tuple[int, list[Any]]:
        try:
            template, leaves = packing.pack(result)
        except UnpackableError as error:
            raise NotFollowedError(sentences.RESULT.format(call.name, error)) from None
        number = self._loop.calls.number(call, template)
        if number > MOST_KINDS:
            raise NotFollowedError(sentences.TOO_MANY)
        return number, leaves

    def _is_large(self, number: int) -> bool:
        size = self._sizes.get(number)
        if size is None:
            size = packing.size_of(self._loop.calls[number].template)
            self._sizes[number] = size
        return size > LARGE

    def looked_at(self, handle: int, variable: Any) -> None:
        """The script is about to use that variable: with the value that it has."""
        dtype, shape = backend.calls.dtype_and_shape(variable)
        if dtype not in READABLE or None in shape:
            raise NotFollowedError(sentences.VARIABLE.format(variable.name))
        with backend.calls.quiet():
            (value,) = backend.values.values_of([variable])
            content = backend.values.array_of_value(value).tobytes()
        number = self._loop.written.numbers[handle]
        self._add(EventKind.LOOKED_AT, number, content)

    def evaluation(
        self, call: CallOf, model: Any, data: Any, run: Callable[[], Any]
    ) -> Any:
        """What ``evaluate`` or ``predict`` returns; ``data``: what it iterates, how
        often is recorded, too."""
        with backend.calls.quiet(), pipelines.counted(data) as made:
            result = run()
        number, leaves = self._packed(call, (len(made), result))
        self._effects.of_method(call, model)
        self._add(EventKind.EVALUATED, number, packing.bytes_of(leaves))
        return result

    def written(self, path: str, run: Callable[[], Any]) -> Any:
        """What writing a large state to ``path`` returns."""
        with backend.calls.quiet():
            result = run()
        number, leaves = self._packed(SAVE, (path, result))
        self._add(EventKind.WRITTEN, number, packing.bytes_of(leaves))
        self._loop.files[result if isinstance(result, str) else path] = None
        return result

    def flush(self) -> None:
        """Write what is pending into the record."""
        log, pending, self._pending = self._loop.log, self._pending, []
        log.count -= len(pending)
        for kind, number, known, leaves in pending:
            log.add(kind, number, known + packing.bytes_of(leaves))
        if len(log.data) > MOST_RECORDED:
            self._check_size()

    def _add(self, kind: EventKind, number: int, content: bytes) -> None:
        self.flush()
        self._loop.log.add(kind, number, content)
        if len(self._loop.log.data) > MOST_RECORDED:
            self._check_size()

    def state_bytes(self) -> int:
        """What the variables take that the loop changes."""
        with backend.calls.quiet():
            return loop_state.variable_bytes(self._loop)

    def _check_size(self) -> None:
        most = max(MOST_RECORDED, MOST_TIMES_STATE * self.state_bytes())
        if len(self._loop.log.data) > most:
            raise NotFollowedError(sentences.TOO_LARGE)
