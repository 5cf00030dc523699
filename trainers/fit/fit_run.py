"""One supervised call of ``fit``: it follows the loop of Keras and keeps its state."""

import time
from collections.abc import Iterator
from typing import Any

from supervisor.wire.oom_subject import OomSubject
from supervisor.wire.page import Phase
from trainers.backends.tensorflow import epoch_iterator, model_digest
from trainers.backends.tensorflow import fit_compat as seams
from trainers.data import data_fingerprint, shared_data, source_factory
from trainers.fit import (
    fit_slices,
    fit_snapshot,
    loss_guard,
    loss_recovery,
    snapshot_match,
    validation,
)
from trainers.fit.determinism import LOST_SEAM, REDUCED, SLICED, Determinism
from trainers.fit.due import DueSnapshot, SinceSaved
from trainers.fit.fit_report import Report
from trainers.fit.step_counter import Steps, planned
from trainers.process import allocation_subject, applied_directive, signals
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import RunProgress


class FitRun:
    """The position, the state and the boundaries of one ``fit``."""

    def __init__(
        self, session: RunProgress, model: Any, callbacks: list[Any], *, epochs: int
    ) -> None:
        self.session, self.model, self.callbacks = session, model, callbacks
        self.attempt = session.attempt
        self.epochs = epochs
        self.taken: Snapshot | None = session.middle_of(session.fit_number)
        self.source: Any = None
        self.fingerprint: data_fingerprint.Fingerprint = {}
        self.iterator: Any = None
        self.epoch = 0
        self.next_step = 0
        """Keras' number of the next step of this epoch."""
        self.step_in_epoch = 0
        self.logs: Any = {}
        """What the last step returned."""
        self.validation = validation.Validation()
        self.validation_data: Any = None
        self.given: Any = None
        """The data as ``fit`` was given them."""
        self.microbatch: Any = None
        self.report = Report(session.attempt)
        self.promise = Determinism(self.report)
        self._local: Any = fit_snapshot.local_of(self.taken)
        self.steps = Steps(model)
        self.since = SinceSaved(session)
        self._no_step_yet = False
        self._between_epochs = False
        self.loss_watch = loss_guard.LossGuard(session.attempt, model)
        self._looked_into = False

    # --- before the first step ---------------------------------------------------

    def adopt(self, iterator: Any) -> Any:
        """The first epoch iterator that ``fit`` makes is that of the training data."""
        if self.source is not None:
            return self._evaluation
        seed, fit = self.attempt.directive.seed, self.session.fit_number
        self.source = source_factory.source_of(iterator, seed=seed, fit=fit)
        self.iterator = iterator
        self.fingerprint = self.source.fingerprint()
        self._check_snapshot()
        self.report.fit_began(
            fit=fit,
            epochs=self.epochs,
            steps_per_epoch=iterator.num_batches,
            batch=self.source.batch,
            model=model_digest.of(self.model, self.source.element_spec),
        )
        self.source.tell_batch = self.report.batch_known
        self.promise.tell(self.source.why_not_exact())
        self.promise.tell(seams.why_device_not_exact())
        self.promise.tell(shared_data.why_not_exact(self.given))
        self.promise.tell(shared_data.validation_why_not_exact(self.validation_data))
        self._tell_applied()
        self.microbatch = fit_slices.prepare(self)
        if self._slicing()[0] > 1:
            self.report.reduced = self.microbatch.mode == "reduce"
            self.promise.tell(REDUCED if self.report.reduced else SLICED)
        self.promise.give()
        self.report.measure(self._slicing, jit=bool(self.model.jit_compile))
        return self._training

    def _training(self, iterator: Any) -> Iterator[Any]:
        return epoch_iterator.epoch(iterator, self)

    def _tell_applied(self) -> None:
        """What of the directive is in force for this model."""
        asked = self.attempt.directive
        skip = None if asked.skip is None else list(asked.skip)
        applied_directive.tell(self.attempt, "skip", asked=skip, found=skip)
        if asked.precision is not None:
            found = seams.precision(self.model, wanted=asked.precision)
            applied_directive.tell(
                self.attempt, "precision", asked=asked.precision, found=found
            )

    def _check_snapshot(self) -> None:
        """A snapshot of another try of this call is none to go on from."""
        if self.taken is None or snapshot_match.belongs(
            self.taken,
            self._local,
            attempt=self.attempt,
            batch=self.source.batch,
            fingerprint=self.fingerprint,
        ):
            return
        self.session.plan.newest, self.taken = self.taken, None
        self.attempt.notice(snapshot_match.OTHER_TRY)

    def _slicing(self) -> tuple[int, int | None]:
        """In how many slices, and of which size, a batch is worked through now."""
        prepared = self.microbatch
        if prepared is None or prepared.size is None:
            return 1, self.source.batch
        return prepared.slices, prepared.size

    def train_begins(self) -> None:
        """All callbacks' ``on_train_begin`` are done (ours is the last)."""
        if self.taken is not None:
            seams.start_at_epoch(self.model, self._local["epoch"])
        self._follow()

    def _follow(self) -> None:
        """Hear of what the train function does."""
        self.steps.stand_around(self._executed)

    def unwrap(self) -> None:
        """Leave the model as Keras made it."""
        self.steps.leave()
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
        taken, self.taken = self.taken, None
        if taken is not None:
            fit_snapshot.give_back(self, taken, self._local)
            self._no_step_yet = True

    # --- the boundaries ----------------------------------------------------------

    def epoch_begins(self, epoch: int) -> None:
        """The callbacks' ``on_epoch_begin`` are done."""
        self.epoch, self.next_step, self.step_in_epoch = epoch, 0, 0
        self.publish_position()

    def at_epoch_begin(self, *, resumed: bool) -> None:
        """Right before the first step of an epoch, or the first after a restore."""
        self._between_epochs = False
        if self.attempt.phase is Phase.BETWEEN:
            self.attempt.enter(self.attempt.phase_at(self.session.step))
        if not resumed:
            self._boundary()

    def epoch_is_over(self) -> None:
        """Its last step is done: callbacks may take as long as they like now."""
        self._between_epochs = True
        self.attempt.enter(Phase.BETWEEN)

    def evaluated(self) -> None:
        """An evaluation inside of ``fit`` is over."""
        after = self.attempt.phase_at(self.session.step)
        self.attempt.enter(Phase.BETWEEN if self._between_epochs else after)

    def passes_over(self, step: int, batches: Any) -> bool:
        """Whether the step is to be left out; its batches are drawn then."""
        skip = self.attempt.directive.skip
        if skip is None or not skip[0] <= self.session.step < skip[1]:
            return False
        count = planned(self.iterator, self.source)
        drawn = loss_recovery.draw(batches, count)
        if drawn < count:
            return False  # the data end here: Keras finds that out by itself
        self.source.drawn += count
        self.session.step += count
        self.step_in_epoch += count
        self.next_step = step + self.iterator.steps_per_execution
        loss_recovery.passed_over(self.attempt, steps=count, until=skip[1])
        self.publish_position()
        return True

    def before_step(self, _step: int) -> None:
        """The iterator is about to hand out a step."""
        self._follow()
        loss_recovery.lower_rate(self.session, self.model)
        self.steps.begin(self.iterator)

    def _executed(self, logs: Any) -> None:
        """The train function returned: a whole step, or several in one execution."""
        if self._no_step_yet:
            self._no_step_yet = False
            seams.forget_last_logs(self.model)
        self.steps.end(self.iterator, self.source)
        ran = self.steps.ran
        self.session.step += ran
        self.step_in_epoch += ran
        self.session.samples += self.steps.samples(self.source)
        self.attempt.steps_here = (self.attempt.steps_here or 0) + ran
        allocation_subject.watch.forget()
        self.logs = logs

    def after_step(self, next_step: int) -> None:
        """After the step and every callback: the state is whole."""
        self.next_step = next_step
        if not self.steps.ran:
            self.promise.tell(LOST_SEAM)
            return
        if not self._looked_into:
            self._looked_into = True
            self._look_into()
        self.report.step(
            seconds=self.steps.seconds,
            steps=self.steps.ran,
            logs=self.logs,
            step=self.session.step,
            step_in_epoch=self.step_in_epoch,
            samples=self.session.samples,
        )
        self.loss_watch.look(self.logs, step=self.session.step, epoch=self.epoch)
        self._boundary()

    def _look_into(self) -> None:
        """The first step is made, and all its functions are traced."""
        self.promise.look_into(self.model, sliced=self.microbatch is not None)

    @property
    def doing(self) -> OomSubject:
        """What memory is asked for now, as far as the position tells."""
        if self.source is None:
            return OomSubject.DATA
        validating = self.attempt.phase is Phase.VALIDATING
        return OomSubject.EVALUATION if validating else OomSubject.STEP

    def publish_position(self) -> None:
        """Let the page say where training is."""
        self.attempt.set(
            epoch=self.epoch,
            step=self.session.step,
            step_in_epoch=self.step_in_epoch,
            samples=self.session.samples,
        )

    def _boundary(self) -> None:
        """Between two steps: save if it is due, end if that was asked for."""
        if self.attempt.drain_requested:
            if not self.since.on_disk:
                self.save()
            self.leave()
        wanted = self.since.wanted()
        if wanted is None and self._dares():
            wanted = DueSnapshot(durable=False, patient=True)
        if wanted is not None:
            self.save(durable=wanted.durable, patient=wanted.patient)

    def _dares(self) -> bool:
        """Whether the next step may fail for want of memory, and a snapshot is cheap."""
        sliced, memory = self.microbatch, self.session.memory
        return sliced is not None and memory is not None and sliced.daring

    def _evaluation(self, iterator: Any) -> Iterator[Any]:
        """The loop of an evaluation inside ``fit``, most often the validation.

        A drain need not wait for its end where the state before it is saved.
        """
        for step in self.validation.follow(iterator, self.model):
            if self.attempt.drain_requested and self.since.on_disk:
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
        state, tensors = fit_snapshot.capture(self, fit_done=fit_done)
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
        self.since.saved(durable=durable or self.session.memory is None)
        self.attempt.enter(before)

    def leave(self) -> None:
        """End the process once everything is on disk."""
        self.session.saver.wait()
        signals.leave(self.attempt, **self.attempt.last_saved)

    def finish(self) -> None:
        """``fit`` returned: keep its end state, so that it is never trained again."""
        self.restore()  # where no epoch was left to train
        self.save(fit_done=True)
        self.session.saver.wait()

    def stopped(self) -> None:
        """``fit`` is over, or was broken off: was that for its loss?"""
        self.loss_watch.notice_stop(self.callbacks, self.logs, step=self.session.step)

    def let_go(self) -> None:
        """``fit`` has returned: what the script drops now must be gone at once.

        These lead back to us, and a cycle waits for the garbage collector, which no
        array sets off. (After an exception they are left: its frames keep them all, and
        who reports it looks into them.)
        """
        self.report.over()
        epoch_iterator.leave(self.iterator)
        self.source = self.iterator = self.given = self.validation_data = None
        self.validation = validation.Validation()
