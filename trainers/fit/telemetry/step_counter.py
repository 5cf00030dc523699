"""The steps of a ``fit``, counted where they are made: around the train function."""

import time
from collections.abc import Callable
from typing import Any

from trainers.backends.epoch_iterator import FitIterator
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource
from trainers.fit.fit_position import FitPosition
from trainers.process.allocation_subject import watch
from trainers.snapshots.run_progress import RunProgress

DoneSteps = tuple[float, float, int]
"""When an execution began and when all callbacks after it were done (``perf_counter``), and
how many steps it was."""


class Steps:
    """Counts what the train function of a model does between two boundaries.

    A step that comes soon after one that was looked at is only counted (``counts_only``).
    What that takes is written out where it is needed: training has emptied the processor's
    caches, and each function that is called at a step takes a microsecond or more.
    """

    def __init__(self, model: Any, session: RunProgress, position: FitPosition) -> None:
        self.model, self._session, self._position = model, session, position
        self._training = session.attempt.training
        self._ends_at = session.attempt.planned_end.at_step
        self.around: Any = None
        """What stands around the train function of the model; None before."""
        self._updates: int | None = None
        self.began = 0.0
        """When the newest step was handed out (``perf_counter``)."""
        self.ran = 0
        """Steps since the last boundary; 0: none, or not through the train function."""
        self._iterator: FitIterator | None = None
        self._source: DataSource | None = None
        self._batch: int | None = None
        """Of the source, once it is known."""
        self.one_each = False
        """Whether the next execution is one step."""
        self.failed = False
        """Whether the train function raised, and did not return since."""
        self.instead: Any = None
        """Logs of an earlier step, where the next is not to be run; else None."""
        self.counts_only = False
        """Whether nothing can be due before the next step, and it is begun already."""
        self.look_due = 0.0
        """When a step is to be looked at again (``perf_counter``)."""
        self.done: list[DoneSteps] = []
        """Since the last look."""
        self.following = 0.0
        """Seconds that it took to follow the steps, since that was told last."""

    def draws_from(
        self, iterator: FitIterator | None, source: DataSource | None
    ) -> None:
        """From here on steps draw from these; None: there are no more."""
        self._iterator, self._source, self._batch = iterator, source, None
        self.counts_only = False

    def stand_around(self, executed: Callable[[Any], None]) -> None:
        """Call ``executed(logs)`` after the train function, also if a callback had it
        made again."""
        inner, logs_of = self.model.train_function, backend.fit.logs_of
        if getattr(inner, "trainwarden_steps", None) is self:
            return

        def train_function(*arguments: Any) -> Any:
            if self.instead is not None:
                return backend.fit.not_run(arguments, self.instead)
            self.failed = True
            result = inner(*arguments)
            self.failed = False
            if not self.counts_only:
                executed(logs_of(result))
                return result
            began = time.perf_counter()  # as ``trained`` for one step
            source, batch = self._source, self._batch or 0
            assert source is not None  # noqa: S101  # nobody makes a step before
            session, position, training = self._session, self._position, self._training
            source.drawn, known = source.drawn + 1, source.samples
            self.ran = 1
            session.step += 1
            session.samples += batch
            if known is not None and source.drawn * batch > known:
                session.samples -= source.drawn * batch - known
            position.step_in_epoch += 1
            position.logs = logs_of(result)
            training.steps = (training.steps or 0) + 1
            if watch.last is not None:
                watch.forget()
            if session.step >= self._ends_at:
                session.attempt.done(session.step)
            self.following += time.perf_counter() - began
            return result

        around: Any = train_function
        around.trainwarden_steps = self
        around.trainwarden_inner = inner
        self.model.train_function = self.around = around

    def leave(self) -> None:
        """Give the model its train function back."""
        inner = getattr(self.model.train_function, "trainwarden_inner", None)
        if inner is not None:
            self.model.train_function = inner
        self.around = None  # a cycle

    def begin(self) -> None:
        """The iterator is about to hand out a step, or several for one execution."""
        iterator, source = self._iterator, self._source
        assert iterator is not None  # noqa: S101  # nobody makes a step before
        assert source is not None  # noqa: S101  # as above
        self.ran = 0
        several = iterator.steps_per_execution > 1
        self.one_each = not several and source.handed_out is None
        if several and self._updates is None:
            self._updates = backend.fit.updates(self.model)
        self.began = time.perf_counter()

    def trained(self, logs: Any) -> None:
        """The train function returned ``logs``: a whole step, or several in one execution,
        whose batches the source has given."""
        iterator, source = self._iterator, self._source
        assert iterator is not None  # noqa: S101  # nobody makes a step before
        assert source is not None  # noqa: S101  # as above
        self.ran = ran = 1 if self.one_each else self._count(iterator, source)
        source.took(ran)
        if self._batch is None:
            self._batch = source.batch
        batch, known = self._batch or 0, source.samples
        short = 0 if known is None else source.drawn * batch - known
        session = self._session
        session.step += ran
        session.samples += ran * batch - max(0, short)
        self._position.step_in_epoch += ran
        self._position.logs = logs
        self._training.steps = (self._training.steps or 0) + ran
        if watch.last is not None:
            watch.forget()
        if session.step >= self._ends_at:
            session.attempt.done(session.step)

    def _count(self, iterator: FitIterator, source: DataSource) -> int:
        """Steps of the execution that just returned."""
        if source.handed_out is not None:
            return source.handed_out - source.drawn
        chunk = iterator.steps_per_execution
        if iterator.batches_stated is not None:
            return planned(iterator, source)
        before, self._updates = self._updates, backend.fit.updates(self.model)
        if before is None or self._updates is None:
            return chunk
        return min(max(self._updates - before, 1), chunk)


def planned(iterator: FitIterator, source: DataSource) -> int:
    """Steps of the next execution, fewer where the data are known to end before."""
    chunk, total = iterator.steps_per_execution, iterator.batches_of_pass
    return chunk if total is None else min(chunk, max(total - source.drawn, 1))
