"""One loop of a script's own, followed as a ``fit`` is: position, state, boundaries."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from supervisor.wire.reasons import RefusalReason
from trainers.backends.selected import backend
from trainers.backends.tensorflow.data import batch_sizes, pipelines
from trainers.data import (
    data_fingerprint,
    data_source,
    shared_data,
)
from trainers.fit.fit_position import FitCall
from trainers.fit.fit_run import FitRun
from trainers.fit.resume import fit_snapshot, snapshot_match
from trainers.fit.telemetry import fit_report
from trainers.process import applied_directive
from trainers.snapshots.run_progress import RunProgress

PYTHON_DATA = (
    "the training data come from Python, whose state cannot be saved: they are drawn"
    " again from the beginning of the epoch, which is exact only if they come the same"
)
HIDDEN = (
    "the tf.function {} draws from TensorFlow's own random operations, whose state nobody"
    " can read: samples are neither repeated nor skipped, but what is drawn after a"
    " restart is not the same (use tf.random.stateless_* or keras.random)"
)

UNLIKE = (
    "pipelines of this loop share a shuffle and are not made alike: how often it was begun"
    " by each is not kept (a pipeline that is made once, before the loop, shares none)"
)


class LoopState:
    """What a script registered, in the shape of a model: its variables count."""

    optimizer = None
    metrics = ()
    train_function = None
    jit_compile = run_eagerly = False
    stop_training = False

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.parts = dict(parts)  # optimizers and metrics are found in here

    @property
    def variables(self) -> list[Any]:
        """Those of everything that has any."""
        return [v for part in self.parts.values() for v in part.variables]


class LoopSnapshot:
    """What a script registered beside variables: given back in place."""

    trainwarden_called = "the session"

    def __init__(self, parts: Mapping[str, Any]) -> None:
        self.kept: dict[str, Any] = {}
        self.step = 0
        self.parts = dict(parts)
        self.iterated: dict[str, list[int]] = {}
        """By the loops that ended: a pipeline's signature → iterators made, used."""

    def stepped(self) -> None:
        """One more step is done."""
        self.step += 1


class PythonSource(data_source.DataSource):
    """Anything that can be iterated again."""

    kind = "iterable"

    @property
    @override
    def element_spec(self) -> None:
        """Not known before the first batch."""
        return

    @override
    def fingerprint(self) -> data_fingerprint.Fingerprint:
        """Only the kind: looking would draw."""
        return {"kind": self.kind}

    @override
    def why_not_exact(self) -> str:
        """Why bits cannot be promised."""
        return PYTHON_DATA

    @override
    def _iterate(self, dataset: Any, *, drawn: int = 0) -> Any:
        """A batch of Python's own has no size that could be known."""
        return iter(dataset)

    @override
    def resume(self, *, begun: int, drawn: int) -> Any:
        """Draws what comes before, once."""
        self.begun, self.drawn = begun, drawn
        return itertools.islice(iter(self.dataset), drawn, None)


@dataclass(frozen=True, slots=True)
class LoopIterator:
    """In the place of Keras' epoch iterator: a loop of the script's own has none."""

    pipeline: Any = None
    """What is iterated."""
    data_adapter: None = None
    strategy: None = None
    steps_per_execution: int = 1
    num_batches: None = None
    batches_of_pass: None = None
    batches_stated: None = None
    steps_seen: int = 0


def source_of(dataset: Any) -> data_source.DataSource:
    """The source for what a loop iterates."""
    held = LoopIterator(dataset)
    if pipelines.is_pipeline(dataset):
        return data_source.DataSource(held)
    return PythonSource(held)


class LoopRun(FitRun):
    """Follows ``Run.epochs`` and ``Run.batches``."""

    def __init__(
        self,
        session: RunProgress,
        state: LoopState,
        kept: LoopSnapshot,
        *,
        epochs: int,
        here: dict[str, list[int]],
    ) -> None:
        """``here``: as ``LoopSnapshot.iterated``, what was done in this process."""
        call = FitCall(model=state, callbacks=[kept], epochs=epochs)
        super().__init__(session, call)
        self._here = here
        self._kept = kept
        self._draws_from(LoopIterator(), source_of(()))  # nothing is iterated yet
        self._resumed: dict[str, Any] | None = self._resume.local
        self._computed_before = [
            self._resume.other_compute(own_loop=True),
            *self._resume.other_device(),
        ]
        self._sources: dict[int, tuple[Any, data_source.DataSource]] = {}
        """Data and their source, by the data's ``id``: the newest that has its shuffles."""
        self._newest: dict[frozenset[int], tuple[Any, data_source.DataSource]] = {}
        """The same, by their shuffles."""
        self._unlike = False
        """Whether two share shuffles and are not made alike."""

    def start(self) -> int:
        """Give the state back, if there is one; the epoch to begin with."""
        self.restore()
        return self._position.epoch

    @override
    def _follow(self) -> None:
        """There is no train function to hear of."""

    @override
    def _look_into(self) -> None:
        """There is no telling which functions are the step's: all are looked into."""
        drawing = backend.traces.functions_that_draw()
        self._determinism.tell(HIDDEN.format(", ".join(drawing)) if drawing else None)
        super()._look_into()

    def batches(self, dataset: Any) -> Iterator[Any]:
        """The batches of this epoch that are left."""
        source = self._source_for(dataset)
        position, self._resumed = self._resumed, None
        if position is not None and position["epoch"] == self._position.epoch:
            source.iterated(used=position["used"], total=None)
            iterator = source.resume(begun=position["begun"], drawn=position["drawn"])
        else:
            self._position.begin_epoch(self._position.epoch)
            iterator = source.begin()
        self._between_steps()
        for batch in iterator:
            source.saw(batch_sizes.size_of(batch))
            self.before_step()
            yield batch
            self._kept.stepped()
            self._executed(self._position.logs)
            self.after_step(self.next_step + 1, iterator)
        self.publish_position()

    def _source_for(self, dataset: Any) -> data_source.DataSource:
        known = self._sources.get(id(dataset))
        if known is not None:
            self._draws_from(self.iterator, known[1])
            return known[1]
        source = source_of(dataset)
        self._draws_from(self.iterator, source)
        if not self._goes_on(dataset, source):
            self._catch_up(dataset)
        self._sources[id(dataset)] = dataset, source
        self._began()
        return source

    def _goes_on(self, dataset: Any, source: data_source.DataSource) -> bool:
        """Whether it is made of shuffles that this loop has begun before: it may be made
        anew for each epoch, of a shuffle that is made once."""
        shuffles = pipelines.shuffles_of(dataset)
        if not shuffles:
            return False
        before = self._newest.get(shuffles)
        if before is not None:
            source.goes_on_from(before[1])
            del self._sources[id(before[0])]
            alike = pipelines.signature(before[0]) == pipelines.signature(dataset)
            self._unlike = self._unlike or not alike
        else:
            others = [one for one in self._newest if one & shuffles]
            self._unlike = self._unlike or bool(others)
        self._newest[shuffles] = dataset, source
        return before is not None

    def _catch_up(self, dataset: Any) -> None:
        """Let a pipeline be where earlier loops left it, in another process."""
        if not pipelines.is_pipeline(dataset):
            return
        name = pipelines.signature(dataset)
        made, used = self._kept.iterated.get(name, [0, 0])
        made_here, used_here = self._here.get(name, [0, 0])
        if made > made_here:
            pipelines.replay(dataset, made=made - made_here, used=used - used_here)
        self._here[name] = [made, used]

    @override
    def finish(self) -> None:
        """The loop is over: count what it iterated, and keep its end state."""
        for data, source in self._sources.values():
            if source.kind == data_source.DataSource.kind:
                name = pipelines.signature(data)
                made, used = self._kept.iterated.get(name, [0, 0])
                total = [made + source.begun, used + source.used + (source.drawn > 0)]
                self._kept.iterated[name], self._here[name] = total, list(total)
        super().finish()

    def _began(self) -> None:
        self._fingerprint = self.source.fingerprint()
        changed = None
        if self._resumed is not None:
            changed = snapshot_match.check_data(
                self._attempt, self._resume.local, self._fingerprint
            )
        applied_directive.tell_own_loop(self._attempt)
        self._data_known(
            changed,
            *self._computed_before,
            shared_data.loop_why_not_exact(self.source.dataset),
            UNLIKE if self._unlike else None,
            backend.fit.why_device_not_exact(),
            model=None,
        )
        self._determinism.give()
        self._report.measure(self._slicing, jit=False)

    def log(self, values: Mapping[str, Any]) -> None:
        """The script tells of its step."""
        self._position.log(values)

    def epoch_left(self) -> None:
        """The script asks for the next epoch, or for none."""
        self.epoch_ended(self._position.epoch, self._position.logs)

    def next_epoch(self, epoch: int) -> None:
        """``epoch`` begins: if it is not the one that was resumed, from its start."""
        if self._resumed is None or self._resumed["epoch"] != epoch:
            self.epoch_begins(epoch)


def restore_finished(
    session: RunProgress, state: LoopState, kept: LoopSnapshot
) -> None:
    """A loop that an earlier attempt finished: its end state."""
    end = session.end_of(session.fit_number)
    if end is None:
        return
    told = fit_snapshot.other_device(session.attempt, end)
    told += fit_snapshot.restore_or_refuse(
        session.attempt,
        end,
        state,
        [kept],
        element_spec=None,
        reason=RefusalReason.STATE_CHANGED,
    )
    for sentence in told:
        fit_report.promise(session.attempt, sentence, fit=session.fit_number)
    session.put_files_back(end)
    session.attempt.training.called()
    session.restored(end, seconds=0.0)
    session.next_fit()
