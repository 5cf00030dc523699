# ruff: noqa: SLF001  # the private names of Keras: see the table in seams_fit
"""One supervised call of ``fit``: it follows the loop of Keras and keeps its state."""

import functools
import time
from collections.abc import Iterator
from typing import Any

from supervisor.wire.page import Phase
from trainers import (
    data,
    data_again,
    data_fingerprint,
    data_operations,
    detour,
    drain,
    fit_callbacks,
    fit_iterator,
    fit_match,
    fit_microbatch,
    fit_state,
    fit_unsaved,
    fit_validation,
    frameworks,
    loss_watch,
    seams_trace,
)
from trainers import seams_fit as seams
from trainers.fit_report import Report
from trainers.fit_session import Session
from trainers.snapshot import Snapshot

SLICED = (
    "the batch is worked through in slices: the same samples, steps and schedule, but"
    " sums are added in another order"
)
REDUCED = "each batch is made several smaller ones, with an update each"
HIDDEN_STATE = (
    "the train step draws from TensorFlow's own random operations (tf.random.uniform,"
    " say), whose state nobody can read: samples are neither repeated nor skipped, but"
    " what is drawn after a restart is not the same (use tf.random.stateless_* or"
    " keras.random)"
)
LOST_SEAM = (
    "this model does not train through its train function: it is watched, but its"
    " state is not saved"
)


class FitRun:
    """The position, the state and the boundaries of one ``fit``."""

    def __init__(
        self, session: Session, model: Any, callbacks: list[Any], *, epochs: int
    ) -> None:
        self.session, self.model, self.callbacks = session, model, callbacks
        self.attempt = session.attempt
        self.epochs = epochs
        self.taken: Snapshot | None = session.middle_of(session.fit_number)
        self.source: Any = None
        self._fingerprint: data_fingerprint.Fingerprint = {}
        self.iterator: Any = None
        self.epoch = 0
        self.next_step = 0
        """Keras' number of the next step of this epoch."""
        self.step_in_epoch = 0
        self.logs: Any = {}
        """What the last step returned."""
        self.validation = fit_validation.Validation()
        self.validation_data: Any = None
        self.given: Any = None
        """The data as ``fit`` was given them."""
        self.microbatch: Any = None
        self.report = Report(session.attempt)
        self._local: Any = None
        if self.taken is not None:
            self._local = fit_state.local_of(
                self.taken.manifest.state, self.taken.tensors
            )
        self._no_step_yet = False
        self._ran = 0
        self._updates: int | None = None
        self._step_began = 0.0
        self._since = session.step, time.monotonic()
        """Step and time of the last snapshot in any tier."""
        self._since_durable = self._since
        self.between_epochs = False
        self._told: set[str] = set()
        self.loss_watch = loss_watch.LossWatch(session.attempt, model)
        self._looked_into = False

    # --- before the first step ---------------------------------------------------

    def adopt(self, iterator: Any) -> Any:
        """The first epoch iterator that ``fit`` makes is that of the training data."""
        if self.source is not None:
            return functools.partial(self._evaluation, iterator)
        self.source = data.source_of(
            iterator,
            seed=self.attempt.directive.seed,
            fit=self.session.fit_number,
        )
        self.iterator = iterator
        self._fingerprint = self.source.fingerprint()
        self._check_snapshot()
        self.report.fit_began(
            fit=self.session.fit_number,
            epochs=self.epochs,
            steps_per_epoch=iterator.num_batches,
            batch=self.source.batch,
        )
        self.source.tell_batch = self.report.batch_known
        self.tell(self.source.why_not_exact())
        self.tell(seams.why_device_not_exact())
        self.tell(data_again.why_not_exact(self.given))
        self.tell(data_again.validation_why_not_exact(self.validation_data))
        self.microbatch = fit_microbatch.prepare(self)
        if self._slicing()[0] > 1:
            self.report.reduced = self.microbatch.mode == "reduce"
            self.tell(REDUCED if self.report.reduced else SLICED)
        if not self._told:
            self.report.promise(None)
        self.report.measure(self._slicing, jit=bool(self.model.jit_compile))
        return lambda: fit_iterator.epoch(iterator, self)

    def _check_snapshot(self) -> None:
        """A snapshot of another try of this call is none to go on from."""
        if self.taken is None or fit_match.belongs(
            self.taken,
            self._local,
            attempt=self.attempt,
            batch=self.source.batch,
            fingerprint=self._fingerprint,
        ):
            return
        self.session.plan.newest, self.taken = self.taken, None
        self.attempt.notice(fit_match.OTHER_TRY)

    def _slicing(self) -> tuple[int, int | None]:
        """In how many slices, and of which size, a batch is worked through now."""
        prepared = self.microbatch
        if prepared is None or prepared.size is None:
            return 1, self.source.batch
        return prepared.slices, prepared.size

    def tell(self, sentence: str | None) -> None:
        """Say once why bits are not promised."""
        if sentence is not None and sentence not in self._told:
            self._told.add(sentence)
            self.report.promise(sentence)

    def train_begins(self) -> None:
        """All callbacks' ``on_train_begin`` are done (ours is the last)."""
        if self.taken is not None:
            seams.start_at_epoch(self.model, self._local["epoch"])
        self._wrap()

    def _wrap(self) -> None:
        """Stand around the train function, also if a callback had it made again."""
        inner = self.model.train_function
        if getattr(inner, "_trainwarden", None) is self:
            return

        def train_function(iterator):
            logs = inner(iterator)
            self._executed(logs)
            return logs

        train_function._trainwarden = self
        train_function._trainwarden_inner = inner
        self.model.train_function = train_function

    def unwrap(self) -> None:
        """Leave the model as Keras made it."""
        inner = getattr(self.model.train_function, "_trainwarden_inner", None)
        if inner is not None:
            self.model.train_function = inner
        seams.forget_last_logs(self.model)
        if self.microbatch is not None:
            self.microbatch.restore()

    # --- restoring ---------------------------------------------------------------

    def take_position(self) -> dict[str, Any] | None:
        """Where the data continue: once, for the epoch that is resumed."""
        if self.taken is None:
            return None
        self.source.put_back(self.taken.tensors)
        # First those of the validation: a shuffle that both come from counts them all,
        # and the iterator that is made next must be the last.
        self.validation.resume(self._local["validation"], self.validation_data)
        return self._local

    def restore(self) -> None:
        """Give back the state; the next thing that happens is the next step."""
        taken, began = self.taken, time.perf_counter()
        if taken is None:
            return
        self.taken = None
        before = self.attempt.enter(Phase.RESTORING)
        seams.start_at_epoch(self.model, None)
        local = self._local
        try:
            spec, manifest = self.source.element_spec, taken.manifest
            fit_state.build(self.model, spec, manifest.state, taken.tensors)
            # Again: the ``on_epoch_begin`` of the data has been called since.
            self.source.put_back(taken.tensors)
            callbacks = fit_callbacks.of_fit(self.callbacks, self.model)
            told = fit_state.restore(
                self.model, callbacks, manifest.state, taken.tensors
            )
        except fit_state.MismatchError as error:
            frameworks.refuse(
                self.attempt, f"the model is not that of the snapshot: {error}"
            )
            raise
        self.epoch, self.next_step = local["epoch"], local["next_step"]
        self.step_in_epoch, self.logs = local["step_in_epoch"], local["logs"]
        self.loss_watch.resume(local.get("last_finite"))
        seams.remember_last_logs(self.model, self.logs)
        self._no_step_yet = True
        for sentence in told:
            self.attempt.notice(sentence)
        self.session.restored(taken, seconds=time.perf_counter() - began)
        self._since = self.session.step, time.monotonic()
        self._since_durable = self.session.durable_step(), time.monotonic()
        self._publish_position()
        self.attempt.enter(before)

    # --- the boundaries ----------------------------------------------------------

    def epoch_begins(self, epoch: int) -> None:
        """The callbacks' ``on_epoch_begin`` are done."""
        self.epoch, self.next_step, self.step_in_epoch = epoch, 0, 0
        self._publish_position()

    def at_epoch_begin(self, *, resumed: bool) -> None:
        """Right before the first step of an epoch, or the first after a restore."""
        self.between_epochs = False
        if self.attempt.phase is Phase.BETWEEN:
            self.attempt.enter(self.attempt.phase_at(self.session.step))
        if not resumed:
            self._boundary()

    def epoch_is_over(self) -> None:
        """Its last step is done: callbacks may take as long as they like now."""
        self.between_epochs = True
        self.attempt.enter(Phase.BETWEEN)

    def evaluated(self) -> None:
        """An evaluation inside of ``fit`` is over."""
        after = self.attempt.phase_at(self.session.step)
        self.attempt.enter(Phase.BETWEEN if self.between_epochs else after)

    def passes_over(self, step: int, batches: Any) -> bool:
        """Whether the step is to be left out; its batches are drawn then."""
        skip = self.attempt.directive.skip
        if skip is None or not skip[0] <= self.session.step < skip[1]:
            return False
        chunk, left = self.iterator.steps_per_execution, self._left()
        count = chunk if left is None else min(chunk, left)
        drawn = detour.draw(batches, count)
        if drawn < count:
            return False  # the data end here: Keras finds that out by itself
        self.source.drawn += count
        self.session.step += count
        self.step_in_epoch += count
        self.next_step = step + chunk
        detour.passed_over(self.attempt, steps=count, until=skip[1])
        self._publish_position()
        return True

    def before_step(self, _step: int) -> None:
        """The iterator is about to hand out a step."""
        self._wrap()
        detour.lower_rate(self.session, self.model)
        self._ran = 0
        if self.iterator.steps_per_execution > 1 and self._updates is None:
            self._updates = seams.updates(self.model)
        self._step_began = time.perf_counter()

    def _executed(self, logs: Any) -> None:
        """The train function returned: a whole step, or several in one execution."""
        if self._no_step_yet:
            self._no_step_yet = False
            seams.forget_last_logs(self.model)
        self._ran = self._steps_run()
        self.source.drawn += self._ran
        self.session.step += self._ran
        self.step_in_epoch += self._ran
        self.session.samples += self._samples()
        self.attempt.steps_here = (self.attempt.steps_here or 0) + self._ran
        self.logs = logs

    def _steps_run(self) -> int:
        """Steps of the execution that just returned."""
        chunk, left = self.iterator.steps_per_execution, self._left()
        if chunk == 1 or left is not None:
            return chunk if left is None else min(chunk, left)
        before, self._updates = self._updates, seams.updates(self.model)
        if before is None or self._updates is None:
            return chunk
        return min(max(self._updates - before, 1), chunk)

    def _left(self) -> int | None:
        """Batches left in the data before this execution; None where unknown."""
        total = self.iterator._num_batches
        return None if total is None else max(total - self.source.drawn, 1)

    def _samples(self) -> int:
        batch, n = self.source.batch, self.source.samples
        if batch is None:
            return 0
        done = self.source.drawn * batch
        short = max(0, done - n) if n is not None else 0
        return self._ran * batch - short

    def after_step(self, next_step: int) -> None:
        """After the step and every callback: the state is whole."""
        self.next_step = next_step
        if not self._ran:
            self.tell(LOST_SEAM)
            return
        if not self._looked_into:
            self._looked_into = True
            if seams_trace.traced_operations(self.model) & data_operations.RANDOM:
                self.tell(HIDDEN_STATE)
            if self.microbatch is None:  # slices count in variables of their own
                self.tell(fit_unsaved.why_not_exact(self.model))
        self.report.step(
            seconds=time.perf_counter() - self._step_began,
            steps=self._ran,
            logs=self.logs,
            step=self.session.step,
            step_in_epoch=self.step_in_epoch,
            samples=self.session.samples,
        )
        self.loss_watch.look(self.logs, step=self.session.step, epoch=self.epoch)
        self._boundary()

    def _publish_position(self) -> None:
        self.attempt.set(
            epoch=self.epoch,
            step=self.session.step,
            step_in_epoch=self.step_in_epoch,
            samples=self.session.samples,
        )

    def _boundary(self) -> None:
        """Between two steps: save if it is due, end if that was asked for."""
        session, saver = self.session, self.session.saver
        if self.attempt.drain_requested:
            if self._passed(self._since_durable)[0]:
                self.save()
            self.leave()
        durable = self._passed(self._since_durable)
        due = session.due(memory=self._passed(self._since), durable=durable)
        # An interval in steps is kept to the step; others never wait for one in flight.
        exact = due.durable and session.cadence.durable.steps is not None
        if exact or (due.durable and not saver.busy and not saver.writing):
            self.save(patient=exact)
            return
        inside = session.cadence.memory
        exact = due.memory and inside is not None and inside.steps is not None
        if exact or (due.memory and not saver.busy):
            self.save(durable=False, patient=exact)

    def _passed(self, since: tuple[int, float]) -> tuple[int, float]:
        """Steps and seconds since then."""
        step, at = since
        return self.session.step - step, time.monotonic() - at

    def _evaluation(self, iterator: Any) -> Iterator[Any]:
        """The loop of an evaluation inside ``fit``, most often the validation.

        A drain need not wait for its end where the state before it is saved.
        """
        for step in self.validation.follow(iterator, self.model):
            saved = self._since_durable[0] == self.session.step
            if self.attempt.drain_requested and saved:
                self.leave()
            self.attempt.tick()
            yield step

    # --- saving ------------------------------------------------------------------

    def save(
        self, *, fit_done: bool = False, durable: bool = True, patient: bool = True
    ) -> None:
        """Copy the state and let it be saved: in memory, and on disk if ``durable``.

        Not ``patient``: if there is no memory for it yet, that is made aside, and the
        state is saved at a later boundary.
        """
        self.loss_watch.look(
            self.logs, step=self.session.step, epoch=self.epoch, due=True
        )
        began = time.perf_counter()
        before = self.attempt.enter(Phase.SNAPSHOT)
        local = {
            "epoch": self.epoch,
            "next_step": self.next_step,
            "step_in_epoch": self.step_in_epoch,
            "begun": self.source.begun,
            "drawn": self.source.drawn,
            "steps_seen": self.iterator._steps_seen,
            "num_batches": self.iterator._num_batches,
            "used": self.source.used,
            "validation": self.validation.position(),
            "logs": self.logs,
            "batch": self.source.batch,
            "data": self._fingerprint,
            "epochs": self.epochs,
            "steps": self.iterator.num_batches,
            "last_finite": self.loss_watch.last_finite,
        }
        callbacks = fit_callbacks.of_fit(self.callbacks, self.model)
        state, tensors, told = fit_state.capture(
            self.model, callbacks, local, of_data=self.source.random_state()
        )
        of_data, why_not = self.source.state(done=fit_done)
        tensors += of_data
        for sentence in [*told, *why_not]:
            self.tell(sentence)
        if not patient and not self.session.saver.prepared(tensors):
            self.attempt.enter(before)
            return
        self.session.save(
            state,
            tensors,
            began=began,
            durable=durable,
            fit=self.session.fit_number,
            fit_done=fit_done,
            epoch=self.epoch,
            step_in_epoch=self.step_in_epoch,
            batch=self.source.batch,
            slices=self._slicing()[0],
        )
        self._since = self.session.step, time.monotonic()
        if durable or self.session.memory is None:
            self._since_durable = self._since
        self.attempt.enter(before)

    def leave(self) -> None:
        """End the process once everything is on disk."""
        self.session.saver.wait()
        drain.leave(self.attempt, **self.attempt.last_saved)

    def finish(self) -> None:
        """``fit`` returned: keep its end state, so that it is never trained again."""
        self.restore()  # where no epoch was left to train
        self.save(fit_done=True)
        self.session.saver.wait()

    def stopped(self) -> None:
        """``fit`` is over, or was broken off: was that for its loss?"""
        self.loss_watch.notice_stop(self.callbacks, self.logs, step=self.session.step)
