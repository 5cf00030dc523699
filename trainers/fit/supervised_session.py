"""A supervised session: its loops are followed as calls of ``fit`` are."""

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any

from typing_extensions import override

from supervisor.wire.page import Phase
from supervisor.wire.records.oom_subject import OomSubject
from supervisor.wire.slices import balanced
from trainers.backends import slicing
from trainers.fit import custom_loop, supervised
from trainers.fit.custom_loop import LoopRun, LoopSnapshot, LoopState
from trainers.process import applied_directive, crash_report
from trainers.process.attempt_reporting import Attempt
from trainers.process.end_of_script import nothing_lost
from trainers.session import (
    IN_PLACE,
    OUTSIDE,
    TWICE,
    Run,
    build_optimizers,
    has_variables,
    is_variable,
)

NESTED = "a session inside of a fit or of another session's loop is not followed"


class SupervisedRun(Run):
    """Iterates, and tells the loop of each boundary."""

    def __init__(self, attempt: Attempt, state: Mapping[str, Any]) -> None:
        """``state``: as ``session`` was given it."""
        super().__init__()
        self._attempt = attempt
        self._session = supervised.session_of(attempt)
        holders = {n: v for n, v in state.items() if has_variables(v)}
        build_optimizers(holders)
        single = {n: _Single(v) for n, v in state.items() if is_variable(v)}
        self._state = LoopState({**holders, **single})
        self._state_kept = LoopSnapshot(
            {n: v for n, v in state.items() if isinstance(v, IN_PLACE)}
        )
        self._loop: LoopRun | None = None
        self._passed = False
        self._sliced = False
        self._here: dict[str, list[int]] = {}

    @property
    @override
    def kept(self) -> dict[str, Any]:
        """Values of the script's own that are part of the state."""
        return self._state_kept.kept

    @property
    @override
    def step(self) -> int:
        """Steps done in this session, those of earlier attempts included."""
        return self._state_kept.step

    @override
    def epochs(self, count: int) -> Iterator[int]:
        """The epochs that are left of ``count``; none where an earlier attempt
        finished them."""
        self._finish()
        if self._attempt.training.running is not None:
            self._attempt.notice(NESTED)
            yield from super().epochs(count)
            return
        if self._session.end_of(self._session.fit_number) is not None:
            custom_loop.restore_finished(self._session, self._state, self._state_kept)
            return
        yield from self._follow(count)
        self._finish()

    def _follow(self, count: int) -> Iterator[int]:
        loop = LoopRun(
            self._session,
            self._state,
            self._state_kept,
            epochs=count,
            here=self._here,
        )
        self._loop = loop
        self._attempt.end.ask(nothing_lost)
        self._attempt.training.began(loop)
        for self.epoch in range(loop.start(), count):
            self._passed = False
            loop.next_epoch(self.epoch)
            yield self.epoch
            loop.epoch_left()

    @override
    def batches(self, data: Any) -> Iterator[Any]:
        """The batches that are left of this epoch."""
        if self._loop is None:
            if self._attempt.training.running is None:
                raise RuntimeError(OUTSIDE)
            yield from data
            return
        if self._passed:
            raise RuntimeError(TWICE)
        self._passed = True
        yield from self._loop.batches(data)

    @override
    def log(self, **values: Any) -> None:
        """Tell of the step: read now and then."""
        if self._loop is not None:
            self._loop.log(values)

    @override
    def slices(self, *tensors: Any) -> Iterator[tuple[tuple[Any, ...], float]]:
        """The batch in slices of the size that the supervisor asks for."""
        self._sliced = True
        size = self._attempt.directive.slice_size
        total = len(slicing.leaves(tensors)[0])
        if size is None or size >= total:
            yield tensors, 1.0
            return
        applied_directive.tell(self._attempt, "slice_size", asked=size, found=size)
        size = balanced(batch=total, size=size)
        for start in range(0, total, size):
            stop = min(start + size, total)
            yield slicing.cut(tensors, start, stop), (stop - start) / total

    def _finish(self) -> None:
        """A loop came to its end, or the script left it: keep its end state."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        loop.finish()
        loop.let_go()
        self._leave_loop()
        supervised.ended(self._session)

    def _leave_loop(self) -> None:
        self._attempt.training.ended()
        self._attempt.enter(Phase.BETWEEN)

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Keep the end state, unless it is an exception that ends the session."""
        if error is None:
            self._finish()
            return
        if self._loop is not None:
            # The batch is the script's, and only through ``slices`` is it anybody's to slice.
            during = OomSubject.STEP if self._sliced else OomSubject.OWN_STEP
            crash_report.mark_in_fit(error, during=during)
            self._session.fit_failed()  # as in a ``fit``
            self._loop = None
            self._leave_loop()


class _Single:
    """A variable in the shape of a holder."""

    def __init__(self, variable: Any) -> None:
        self.variables = [variable]
