"""The epoch iterator of a supervised ``fit``: what happens between two steps.

``fit`` asks it for the next step after the last callback of the one before. So the code
after a ``yield`` stands at the only place where a snapshot is whole: after the step,
after every callback, before anything of the next step.
"""

from collections.abc import Callable, Iterator
from typing import Any

from supervisor.wire.oom_subject import OomSubject
from trainers.backends.tensorflow import fit_compat as seams
from trainers.process import allocation_subject

_Base: Any = seams.trainer_module().TFEpochIterator

_adopt: list[Callable[[Any], Any]] = []
"""Asked by each new iterator who it belongs to; the newest ``fit`` is the last."""


class SupervisedEpochIterator(_Base):
    """Keras' own, unless a supervised ``fit`` says that it is its training data."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        try:
            super().__init__(*args, **kwargs)
        except Exception as error:
            allocation_subject.watch.note(error, OomSubject.DATA)
            raise
        self.begun = 0
        self._loop: Callable[[Any], Iterator[Any]] | None = None
        if _adopt:
            self._loop = _adopt[-1](self)

    def _get_iterator(self) -> Any:
        # Keras asks for the data right before each ``iter``.
        self.begun += 1
        return super()._get_iterator()

    def _enumerate_iterator(self) -> Iterator[Any]:
        if self._loop is None:
            yield from super()._enumerate_iterator()
        else:
            yield from self._loop(self)


def keras_own(iterator: Any) -> Iterator[Any]:
    """The loop that ``iterator`` would have without us."""
    return _Base._enumerate_iterator(iterator)


def leave(iterator: Any) -> None:
    """Let go of the loop of ``iterator``, which may stand in the middle of an epoch.

    Keras leaves it there where training stops or the data end; it refers to all of them.
    """
    if isinstance(iterator, SupervisedEpochIterator):
        iterator._epoch_iterator = None


def install() -> None:
    """Let Keras make these from now on."""
    seams.replace_epoch_iterator(SupervisedEpochIterator)


class adopting:  # noqa: N801  # reads as a verb in a with statement
    """Within it, ``adopt(iterator)`` decides about each new epoch iterator.

    It returns the loop of the iterator, which is given the iterator (to close over it
    would be a cycle, and keep the data until the garbage is collected), or None for
    Keras' own.
    """

    def __init__(self, adopt: Callable[[Any], Any]) -> None:
        self._adopt = adopt

    def __enter__(self) -> None:
        _adopt.append(self._adopt)

    def __exit__(self, *_details: object) -> None:
        _adopt.remove(self._adopt)


def epoch(iterator: Any, fit: Any) -> Iterator[tuple[int, int, Any]]:
    """One epoch of training, as ``EpochIterator._enumerate_iterator`` has it.

    ``fit`` is told of each boundary. Differences: it may start in the middle, iterators
    come from ``fit.source``, and nothing else.
    """
    source = fit.source
    position = fit.take_position()
    resumed = position is not None
    source.prepare(
        begun=position["begun"] if resumed else source.begun + 1,
        drawn=position["drawn"] if resumed else 0,
    )
    iterator.data_adapter.on_epoch_begin()
    if resumed:
        iterator._num_batches = position["num_batches"]
        source.used, source.total = position["used"], position["num_batches"]
        iterator._current_iterator = source.resume(
            begun=position["begun"], drawn=position["drawn"]
        )
        iterator._steps_seen = position["steps_seen"]
        fit.restore()
    source.pass_began()
    total = iterator.steps_per_epoch or iterator._num_batches or -1
    if total < 0:
        yield from _until_exhausted(iterator, fit, start=fit.next_step)
    else:
        yield from _counted(iterator, fit, total=total, resumed=resumed)
        if iterator._num_batches and iterator._steps_seen >= iterator._num_batches:
            iterator._current_iterator = source.begin()
            iterator._steps_seen = 0
    iterator.data_adapter.on_epoch_end()
    fit.epoch_is_over()


def _counted(
    iterator: Any, fit: Any, *, total: int, resumed: bool
) -> Iterator[tuple[int, int, Any]]:
    """The steps of an epoch whose number is known."""
    chunk = iterator.steps_per_execution
    fresh = iterator._current_iterator is None or iterator.steps_per_epoch is None
    if fresh and not resumed:
        iterator._current_iterator = fit.source.begin()
        iterator._steps_seen = 0
    fit.at_epoch_begin(resumed=resumed)
    for step in range(fit.next_step, total, chunk):
        if iterator._num_batches and iterator._steps_seen >= iterator._num_batches:
            if iterator.steps_per_epoch:
                iterator._interrupted_warning()
            break
        iterator._steps_seen += chunk
        if fit.passes_over(step, iterator._current_iterator):
            continue
        fit.before_step(step)
        yield step, step + chunk - 1, iterator._current_iterator
        fit.after_step(step + chunk)


def _until_exhausted(
    iterator: Any, fit: Any, *, start: int
) -> Iterator[tuple[int, int, Any]]:
    """The steps of an epoch that ends when the data do."""
    chunk = iterator.steps_per_execution
    if iterator._current_iterator is None:
        iterator._current_iterator = fit.source.begin()
    current, iterator._current_iterator = iterator._current_iterator, None
    fit.at_epoch_begin(resumed=start > 0)
    step = start
    while True:
        iterator._steps_seen = step + chunk
        if not fit.passes_over(step, current):
            fit.before_step(step)
            yield step, step + chunk - 1, current
            fit.after_step(step + chunk)
        step += chunk
