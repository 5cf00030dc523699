"""The epoch iterator of a supervised ``fit``: what happens between two steps.

``fit`` asks it for the next step after the last callback of the one before. So the code
after a ``yield`` stands at the only place where a snapshot is whole: after the step,
after every callback, before anything of the next step.
"""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from supervisor.wire.records.oom_subject import OomSubject
from trainers.backends import finished_iterators
from trainers.process import allocation_subject


class IteratedData(Protocol):
    """Training data, as an epoch asks for them: where their iterators stand."""

    @property
    def begun(self) -> int:
        """Iterators made so far."""

    def iterated(self, *, used: int, total: int | None) -> None:
        """``used`` iterators were drawn from before; ``total`` batches has a pass, where
        an earlier attempt knew."""

    def glance(self) -> Any:
        """An iterator over one batch that belongs to no epoch."""

    def prepare(self, *, begun: int, drawn: int) -> None:
        """Know the position before Keras' ``on_epoch_begin`` may start workers."""

    def pass_began(self) -> None:
        """``on_epoch_begin`` is done, and nothing drawn yet."""

    def pass_is_over(self, iterator: Any) -> None:
        """All of a pass was drawn from ``iterator``: nobody asks it for more."""

    def begin(self) -> Any:
        """A new iterator over the data from their beginning."""

    def resume(self, *, begun: int, drawn: int) -> Any:
        """The iterator that was the ``begun``-th, after ``drawn`` batches."""


class FitIterator(Protocol):
    """An epoch iterator, as far as a ``fit`` looks at it."""

    @property
    def data_adapter(self) -> Any | None:
        """Keras' adapter of the data."""

    @property
    def steps_per_execution(self) -> int:
        """Steps of one call of the train function."""

    @property
    def num_batches(self) -> int | None:
        """Steps of an epoch; None where they are not known."""

    @property
    def batches_of_pass(self) -> int | None:
        """Batches of one pass through the data; None where nobody knows."""

    @property
    def batches_stated(self) -> int | None:
        """The same, as the data say it; None where they do not. Else Keras takes what a pass
        was, in whole executions of the train function."""

    @property
    def steps_seen(self) -> int:
        """Steps of this pass that were handed out."""


class FollowedSteps(Protocol):
    """The steps of a ``fit``."""

    @property
    def counts_only(self) -> bool:
        """Whether nothing can be due before the next step, and it is begun already."""


class FollowedEpochs(Protocol):
    """A ``fit`` that is told of each boundary of its epochs."""

    @property
    def source(self) -> IteratedData:
        """What it trains on."""

    @property
    def steps(self) -> FollowedSteps:
        """Its steps."""

    @property
    def next_step(self) -> int:
        """Keras' number of the next step of this epoch."""

    def take_position(self) -> dict[str, Any] | None:
        """Where the data continue: once, for the epoch that is resumed."""

    def restore(self) -> None:
        """Give back the state; the next thing that happens is the next step."""

    def stands_in(self) -> AbstractContextManager[bool]:
        """Around a step that is not run, which Keras' loop needs before it goes on within
        an epoch; whether it does."""

    def at_epoch_begin(self, *, resumed: bool) -> None:
        """Right before the first step of an epoch, or the first after a restore."""

    def passes_over(self, step: int, batches: Any) -> bool:
        """Whether the step is to be left out; its batches are drawn then."""

    def before_step(self) -> None:
        """The iterator is about to hand out a step."""

    def after_step(self, next_step: int, batches: Any) -> None:
        """After the step and every callback: the state is whole. ``batches``: what it
        drew from."""

    def epoch_is_over(self) -> None:
        """Its last step is done."""


Loop = Callable[[Any], Iterator[Any]]
"""The steps of one epoch of the iterator that it is given."""

_adopt: list[Callable[[Any], Loop | None]] = []
"""Asked by each new iterator who it belongs to; the newest ``fit`` is the last."""
Around = Callable[[Any], AbstractContextManager[None]]
"""What is around the making of an iterator over the data that it is given."""
_around: list[Around] = []
"""Of the same ``fit``s."""


class Supervised:
    """Before Keras' own iterator among the bases of a class: it stays Keras' own, unless
    a supervised ``fit`` says that it is its training data."""

    data_adapter: Any
    _epoch_iterator: Any
    _current_iterator: Any = None
    _steps_seen: int
    _num_batches: int | None
    begun = 0
    """How often its data were begun."""
    _loop: Loop | None = None
    """Keras' own, until it is known who it belongs to."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        around = _around[-1] if _around else contextlib.nullcontext
        try:
            with around(kwargs.get("x")):
                super().__init__(*args, **kwargs)
        except Exception as error:
            allocation_subject.watch.note(error, OomSubject.DATA)
            raise
        self.begun = 0  # whatever was asked of them on the way
        self._loop = _adopt[-1](self) if _adopt else None

    def steps(self) -> Iterator[Any]:
        """Those of the next epoch, as Keras' ``fit`` takes them."""
        yield from self._own_steps() if self._loop is None else self._loop(self)

    def _own_steps(self) -> Iterator[Any]:
        """Keras' own loop, of a validation say; a pass that it has drawn to the end, and begun
        anew for the next time, is over."""
        drawn = None
        for step in self.keras_own():
            drawn = self._current_iterator
            yield step
        # Within a supervised fit, whose end waits for all of them.
        if _adopt and drawn is not None and drawn is not self._current_iterator:
            finished_iterators.pass_is_over(drawn)

    def keras_own(self) -> Iterator[Any]:
        """The loop that it would have without us: ``versions`` knows its name."""
        raise NotImplementedError

    @property
    def steps_seen(self) -> int:
        """Steps of this pass that were handed out."""
        return self._steps_seen

    @property
    def batches_of_pass(self) -> int | None:
        """Batches of one pass through the data; None where nobody knows."""
        return self._num_batches

    @property
    def batches_stated(self) -> int | None:
        """The same, as the data say it; None where they do not."""
        stated: int | None = self.data_adapter.num_batches
        return stated


def leave(iterator: Any) -> None:
    """Let go of the loop of ``iterator``, which may stand in the middle of an epoch.

    Keras leaves it there where training stops or the data end; it refers to all of them.
    """
    if isinstance(iterator, Supervised):
        iterator._epoch_iterator = None


@contextlib.contextmanager
def adopting(
    adopt: Callable[[Any], Loop | None], around: Around = contextlib.nullcontext
) -> Iterator[None]:
    """Within it, ``adopt(iterator)`` decides about each new epoch iterator, and
    ``around(data)`` is around the making of each.

    It returns the loop of the iterator, which is given the iterator (to close over it
    would be a cycle, and keep the data until the garbage is collected), or None for
    Keras' own.
    """
    _adopt.append(adopt)
    _around.append(around)
    try:
        yield
    finally:
        _adopt.pop()
        _around.pop()


def glance(iterator: Any, source: IteratedData) -> Iterator[Any]:
    """What Keras looks at before ``fit`` begins, to build a model on several devices."""
    yield iterator.handed(0, source.glance())


def begin_epoch(
    iterator: Any, fit: FollowedEpochs, *, tells_data: bool = True
) -> dict[str, Any] | None:
    """What comes before the first step of an epoch, that may be one in the middle.

    Returns where the data continue; None: at their beginning, or where they were.
    ``tells_data``: Keras calls ``on_epoch_begin`` of their adapter there.
    """
    source = fit.source
    position = fit.take_position()
    source.prepare(
        begun=source.begun + 1 if position is None else position["begun"],
        drawn=0 if position is None else position["drawn"],
    )
    if tells_data:
        iterator.data_adapter.on_epoch_begin()
    if position is not None:
        iterator._num_batches = position["num_batches"]
        source.iterated(used=position["used"], total=position["num_batches"])
        iterator._current_iterator = source.resume(
            begun=position["begun"], drawn=position["drawn"]
        )
        iterator._steps_seen = position["steps_seen"]
        fit.restore()
    source.pass_began()
    return position


def epoch(iterator: Any, fit: FollowedEpochs) -> Iterator[Any]:
    """One epoch of training, as ``EpochIterator._enumerate_iterator`` has it.

    ``fit`` is told of each boundary. Differences: it may start in the middle, iterators
    come from ``fit.source``, and nothing else.
    """
    source = fit.source
    position = begin_epoch(iterator, fit)
    total = iterator.steps_per_epoch or iterator._num_batches or -1
    if total < 0:
        yield from _until_exhausted(iterator, fit, start=fit.next_step)
    else:
        yield from _counted(iterator, fit, total=total, resumed=position is not None)
        if iterator._num_batches and iterator._steps_seen >= iterator._num_batches:
            source.pass_is_over(iterator._current_iterator)
            iterator._current_iterator = source.begin()
            iterator._steps_seen = 0
    iterator.data_adapter.on_epoch_end()
    fit.epoch_is_over()


def _counted(
    iterator: Any, fit: FollowedEpochs, *, total: int, resumed: bool
) -> Iterator[Any]:
    """The steps of an epoch whose number is known."""
    chunk, steps = iterator.steps_per_execution, fit.steps
    fresh = iterator._current_iterator is None or iterator.steps_per_epoch is None
    if fresh and not resumed:
        iterator._current_iterator = fit.source.begin()
        iterator._steps_seen = 0
    fit.at_epoch_begin(resumed=resumed)
    if resumed:
        yield from _stand_in(iterator, fit, iterator._current_iterator)
    for step in range(fit.next_step, total, chunk):
        if iterator._num_batches and iterator._steps_seen >= iterator._num_batches:
            if iterator.steps_per_epoch:
                iterator._interrupted_warning()
            break
        iterator._steps_seen += chunk
        if not steps.counts_only:
            if fit.passes_over(step, iterator._current_iterator):
                continue
            fit.before_step()
        yield iterator.handed(step, iterator._current_iterator)
        fit.after_step(step + chunk, iterator._current_iterator)


def _stand_in(iterator: Any, fit: FollowedEpochs, batches: Any) -> Iterator[Any]:
    with fit.stands_in() as needed:
        if needed:
            yield iterator.handed(fit.next_step, batches)


def _until_exhausted(
    iterator: Any, fit: FollowedEpochs, *, start: int
) -> Iterator[Any]:
    """The steps of an epoch that ends when the data do."""
    chunk, steps = iterator.steps_per_execution, fit.steps
    if iterator._current_iterator is None:
        iterator._current_iterator = fit.source.begin()
    current, iterator._current_iterator = iterator._current_iterator, None
    fit.at_epoch_begin(resumed=start > 0)
    yield from _stand_in(iterator, fit, current)
    step = start
    while True:
        iterator._steps_seen = step + chunk
        if steps.counts_only or not fit.passes_over(step, current):
            if not steps.counts_only:
                fit.before_step()
            yield iterator.handed(step, current)
            fit.after_step(step + chunk, current)
        step += chunk
