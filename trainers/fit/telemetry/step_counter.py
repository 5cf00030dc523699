"""The steps of a ``fit``, counted where they are made: around the train function."""

import time
from collections.abc import Callable
from typing import Any

from trainers.backends.epoch_iterator import FitIterator
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource

DoneSteps = tuple[float, float, int]
"""When an execution began and when all callbacks after it were done (``perf_counter``), and
how many steps it was."""


class Steps:
    """Counts what the train function of a model does between two boundaries."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._updates: int | None = None
        self.began = 0.0
        """When the newest step was handed out (``perf_counter``)."""
        self.ran = 0
        """Steps since the last boundary; 0: none, or not through the train function."""
        self.samples = 0
        """In those steps; 0 as well where the size of a batch is not known."""
        self._iterator: FitIterator | None = None
        self._source: DataSource | None = None
        self._batch: int | None = None
        """Of the source, once it is known."""
        self._one_each = False
        """Whether the next execution is one step."""
        self.failed = False
        """Whether the train function raised, and did not return since."""
        self.instead: Any = None
        """Logs of an earlier step, where the next is not to be run; else None."""

    def draws_from(
        self, iterator: FitIterator | None, source: DataSource | None
    ) -> None:
        """From here on steps draw from these; None: there are no more."""
        self._iterator, self._source, self._batch = iterator, source, None

    def stand_around(self, executed: Callable[[Any], None]) -> None:
        """Call ``executed(logs)`` after the train function, also if a callback had it
        made again."""
        inner = self._model.train_function
        if getattr(inner, "trainwarden_steps", None) is self:
            return

        def train_function(*arguments: Any) -> Any:
            if self.instead is not None:
                return backend.fit.not_run(arguments, self.instead)
            self.failed = True
            result = inner(*arguments)
            self.failed = False
            executed(backend.fit.logs_of(result))
            return result

        around: Any = train_function
        around.trainwarden_steps = self
        around.trainwarden_inner = inner
        self._model.train_function = around

    def leave(self) -> None:
        """Give the model its train function back."""
        inner = getattr(self._model.train_function, "trainwarden_inner", None)
        if inner is not None:
            self._model.train_function = inner

    def begin(self) -> None:
        """The iterator is about to hand out a step, or several for one execution."""
        iterator, source = self._iterator, self._source
        assert iterator is not None  # noqa: S101  # nobody makes a step before
        assert source is not None  # noqa: S101  # as above
        self.ran = 0
        several = iterator.steps_per_execution > 1
        self._one_each = not several and source.handed_out is None
        if several and self._updates is None:
            self._updates = backend.fit.updates(self._model)
        self.began = time.perf_counter()

    def end(self) -> None:
        """The train function returned: the source has given the batches of its steps."""
        iterator, source = self._iterator, self._source
        assert iterator is not None  # noqa: S101  # nobody makes a step before
        assert source is not None  # noqa: S101  # as above
        self.ran = ran = 1 if self._one_each else self._count(iterator, source)
        source.drawn += ran
        if self._batch is None:
            self._batch = source.batch
        batch, known = self._batch or 0, source.samples
        short = 0 if known is None else source.drawn * batch - known
        self.samples = ran * batch - max(0, short)

    def _count(self, iterator: FitIterator, source: DataSource) -> int:
        """Steps of the execution that just returned."""
        if source.handed_out is not None:
            return source.handed_out - source.drawn
        chunk = iterator.steps_per_execution
        if iterator.batches_of_pass is not None:
            return planned(iterator, source)
        before, self._updates = self._updates, backend.fit.updates(self._model)
        if before is None or self._updates is None:
            return chunk
        return min(max(self._updates - before, 1), chunk)


def planned(iterator: FitIterator, source: DataSource) -> int:
    """Steps of the next execution, fewer where the data are known to end before."""
    chunk, total = iterator.steps_per_execution, iterator.batches_of_pass
    return chunk if total is None else min(chunk, max(total - source.drawn, 1))
