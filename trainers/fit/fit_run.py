"""One supervised call of ``fit``: it follows the loop of Keras and keeps its state.

Keras' epoch iterator (``epoch_iterator``) and the last callback (``supervised``) tell it of
each boundary. What is done there has rooms of its own: ``fit_resume`` (what it goes on
from), ``fit_boundary`` (snapshots, the end), ``fit_proof``, ``fit_slices``, ``loss_guard``.
"""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from supervisor.wire.page import Phase
from supervisor.wire.records.oom_subject import OomSubject
from supervisor.wire.records.phase_peaks import PeakPhase
from trainers.backends import epoch_iterator, keras_compat
from trainers.backends.epoch_iterator import FitIterator
from trainers.backends.selected import backend
from trainers.backends.versions.keras_version import of_keras
from trainers.data import data_fingerprint, shared_data, source_factory
from trainers.data.data_source import DataSource
from trainers.fit import compute_settings, validation
from trainers.fit.determinism import LOST_SEAM, Determinism
from trainers.fit.failed_steps import loss_guard, skipped_steps
from trainers.fit.failed_steps.recovery_doubts import AHEAD, Again, FailedFit
from trainers.fit.fit_boundary import Boundary
from trainers.fit.fit_position import FitCall, FitPosition
from trainers.fit.fit_slices import Slicing
from trainers.fit.resume import fit_snapshot
from trainers.fit.resume.fit_proof import FitProof, no_doubt
from trainers.fit.resume.fit_resume import FitResume
from trainers.fit.resume.fit_snapshot import FitParts
from trainers.fit.telemetry.first_fit_needs import FitSubject
from trainers.fit.telemetry.fit_report import Report
from trainers.fit.telemetry.phase_recorder import epochs_until_validation
from trainers.fit.telemetry.step_counter import Steps
from trainers.fit.telemetry.step_figure_counter import StepFigureCounter
from trainers.snapshots.run_progress import RunProgress
from trainers.state import fit_state
from trainers.state.hidden import baked_values, hidden_state

LOOK_SECONDS = 0.1
"""A step that comes sooner after a look is only counted: a look takes 0.1 ms, and nothing
that it finds is wanted more often."""
LOOK_SECONDS_SAVING = 0.005
"""... while a snapshot is saved: what the steps beside it lose is asked for."""


class FitRun:
    """The position, the state and the boundaries of one ``fit``."""

    def __init__(
        self, session: RunProgress, call: FitCall, *, again: Again | None = None
    ) -> None:
        """``again``: the call failed before in this process."""
        self._session, self._call = session, call
        self._attempt = session.attempt
        self._show = session.attempt.stepped
        self._attempt.files.followed()
        self._resume = FitResume(session)
        self._source: DataSource | None = None
        self._iterator: FitIterator | None = None
        self._fingerprint: data_fingerprint.Fingerprint = {}
        self._position = FitPosition()
        self._validation = validation.Validation()
        self._report = Report(session.attempt)
        self._evidence = StepFigureCounter(session.attempt, fit=session.fit_number)
        self._determinism = Determinism(self._report)
        self._proof = FitProof(session, self._determinism)
        self.steps = Steps(call.model, session, self._position)
        self._slices = Slicing()
        self._boundary = Boundary(session, self._proof, self._determinism, self._slices)
        self._loss_guard = loss_guard.LossGuard(session.attempt, call.model)
        self._again = again
        self._hidden = (
            hidden_state.of_call(
                call.model, call.callbacks, call.data, call.validation_data
            )
            if again is None
            else again.hidden
        )
        self._in_use: int | None = None
        self._untraced = True
        """Whether the train function may still be traced for the first time."""
        self._no_step_yet = False
        self._between_epochs = False
        self._looked_into = False
        self._has_begun = False

    @property
    def model(self) -> Any:
        """What it trains."""
        return self._call.model

    @property
    def callbacks(self) -> list[Any]:
        """The script's own."""
        return self._call.callbacks

    @property
    def source(self) -> DataSource:
        """The training data; known once Keras has made its epoch iterator."""
        assert self._source is not None  # noqa: S101  # nobody asks before
        return self._source

    @property
    def iterator(self) -> FitIterator:
        """Keras' epoch iterator of the training data, as ``source``."""
        assert self._iterator is not None  # noqa: S101  # as above
        return self._iterator

    @property
    def data_adapter(self) -> Any | None:
        """Keras' adapter of the training data; None before it is made."""
        return None if self._iterator is None else self._iterator.data_adapter

    @property
    def pipeline(self) -> Any | None:
        """The backend's pipeline of its batches; None before it is made, or without."""
        return getattr(self._iterator, "pipeline", None)

    @property
    def batch(self) -> int | None:
        """Samples of a batch; None: not known."""
        return None if self._source is None else self._source.batch

    @property
    def next_step(self) -> int:
        """Keras' number of the next step of this epoch."""
        return self._position.next_step

    @property
    def failure(self) -> FailedFit:
        """What there is to know of it where it came to no end."""
        return FailedFit(
            call=self._call,
            source=self._source,
            hidden=self._hidden,
            in_step=self.steps.failed,
            stepped=self._looked_into,
            in_use=self._in_use,
            drawn=self._drawn_bytes(),
            proves=self._proof.under_way,
        )

    def _drawn_bytes(self) -> int:
        if self._source is None:
            return 0
        spec, batch = self._source.element_spec, self._source.batch
        return AHEAD * backend.recovery.batch_bytes(spec, batch)

    @property
    def resumes(self) -> bool:
        """Whether a snapshot is still to be given back."""
        return self._resume.taken is not None

    def _parts(self) -> FitParts:
        return FitParts(
            call=self._call,
            position=self._position,
            source=self.source,
            iterator=self.iterator,
            fingerprint=self._fingerprint,
            validation=self._validation,
            loss_guard=self._loss_guard,
            hidden=self._hidden,
        )

    # --- before the first step ---------------------------------------------------

    def making(self, data: Any) -> contextlib.AbstractContextManager[None]:
        """Around the making of an iterator over ``data``."""
        validates = data is self._call.validation_data
        if validates and self._validation.is_looked_at_again(data):
            return fit_state.untouched(self.model, self._hidden)
        return contextlib.nullcontext()

    def adopt(self, iterator: Any) -> Any:
        """The first epoch iterator that ``fit`` makes is that of the training data."""
        if self._source is not None:
            return self._evaluation
        seed, fit = self._attempt.directive.seed, self._session.fit_number
        source = source_factory.source_of(iterator, seed=seed, fit=fit)
        self._draws_from(iterator, source)
        self._fingerprint = self.source.fingerprint()
        compute_settings.apply(self._attempt, self.model, self.source)
        changed = self._resume.check(self.source.batch, self._fingerprint)
        self._data_known(
            changed,
            self._resume.other_seeds(),
            self._resume.other_compute(),
            *self._resume.other_device(),
            backend.fit.why_device_not_exact(),
            self._why_step_not_exact(),
            backend.fit.why_replicas_not_exact(self.model, self._call.validation_data),
            shared_data.why_not_exact(self._call.data),
            shared_data.validation_why_not_exact(self._call.validation_data),
            *self._resume.told_before(),
            model=backend.digest(self.model, self.source.element_spec),
        )
        skipped_steps.tell(self._attempt)
        compute_settings.tell_precision(self._attempt, self.model)
        self._slice()
        self._begin_proof()
        self._determinism.give()
        self._report.measure(
            self._slicing,
            jit=bool(self.model.jit_compile),
            reduced=self._slices.is_reduced,
        )
        return self._training

    def _draws_from(self, iterator: FitIterator, source: DataSource) -> None:
        self._iterator, self._source = iterator, source
        self.steps.draws_from(iterator, source)

    def _data_known(self, *why_not_exact: str | None, model: str | None) -> None:
        """Say what it trains on, and why bits are not promised."""
        self._report.fit_began(
            fit=self._session.fit_number,
            epochs=self._call.epochs,
            steps_per_epoch=self.iterator.num_batches,
            batch=self.source.batch,
            model=model,
        )
        self.source.tell_batch = self._report.batch_known
        own = self._session.own_way
        for sentence in (own, self.source.why_not_exact(), *why_not_exact):
            self._determinism.tell(sentence)
        self._determinism.hear_of_draws()

    def _why_step_not_exact(self) -> str | None:
        alike = self.source.alike and not self._call.validates
        return backend.fit.why_step_not_exact(self.model, alike=alike)

    def _training(self, iterator: Any) -> Iterator[Any]:
        if not self._has_begun:  # Keras builds the model from a batch
            if not backend.fit.GLANCES_COUNT:
                return iterator.keras_own()
            self._position.glances += 1
            return epoch_iterator.glance(iterator, self.source)
        return of_keras.epoch(iterator, self)

    def _begin_proof(self) -> None:
        """Go on from an older snapshot, to meet the newest on the way: where asked."""
        taken = self._resume.taken
        if taken is None:
            return
        again = self._again
        if again is not None:
            self._proof.doubt, self._again = again.doubt, again.without_data()
        older = self._proof.begin(
            taken, slices=self._slices.count, data=self._fingerprint
        )
        self._proof.doubt = no_doubt
        if older is not None:
            self._resume.begin_with(older)

    def _slice(self) -> None:
        """Work in slices, where that is asked for."""
        self._slices.prepare(
            self.model,
            self.source,
            self._attempt,
            iterator=self.iterator,
            hopeless=self._session.step == 0 and not self.resumes,
        )
        self._determinism.tell(self._slices.why_not_exact)

    def _slicing(self) -> tuple[int, int | None]:
        """In how many slices, and of which size, a batch is worked through now."""
        return self._slices.now(self.source.batch)

    def train_begins(self) -> None:
        """All callbacks' ``on_train_begin`` are done (ours is the last)."""
        self._has_begun = True
        self._resume.start(self.model)
        self._report.steps_ahead(
            FitSubject(
                fit=self._session.fit_number, model=self.model, source=self.source
            )
        )
        self._follow()

    def _follow(self) -> None:
        """Hear of what the train function does."""
        self.steps.stand_around(self._executed)

    def unwrap(self) -> None:
        """Leave the model as Keras made it."""
        self.steps.leave()
        keras_compat.forget_last_logs(self.model)
        self._slices.restore()

    # --- restoring ---------------------------------------------------------------

    def take_position(self) -> dict[str, Any] | None:
        """Where the data continue: once, for the epoch that is resumed."""
        return self._resume.take_position(self.source, self._validation, self._call)

    def restore(self) -> None:
        """Give back the state; the next thing that happens is the next step."""
        taken = self._resume.give_back()
        if taken is None:
            return
        began, before = time.perf_counter(), self._attempt.enter(Phase.RESTORING)
        parts = self._parts()
        if self._again is not None:
            self._hidden.goes_back(taken.manifest.state)
        told = fit_snapshot.restore(parts, taken, self._resume.local, self._attempt)
        if told and self._again is not None:
            self._proof.could_not(told[0], taken)  # a new process can
            self._boundary.leave()
        for sentence in told:
            self._determinism.tell(sentence)
        if not self._proof.under_way:
            self._session.put_files_back(taken)
        seconds = time.perf_counter() - began
        self._session.restored(taken, seconds=seconds, proves=self._proof.newer)
        self._boundary.restored()
        self.publish_position()
        self._attempt.enter(before)
        self._no_step_yet = True

    # --- the boundaries ----------------------------------------------------------

    def epoch_begins(self, epoch: int) -> None:
        """The callbacks' ``on_epoch_begin`` are done."""
        self._position.begin_epoch(epoch)
        self.publish_position()

    def at_epoch_begin(self, *, resumed: bool) -> None:
        """Right before the first step of an epoch, or the first after a restore."""
        self._between_epochs = False
        self.steps.look_due, self.steps.counts_only = 0.0, False
        if self._attempt.phase is Phase.BETWEEN:
            self._attempt.enter(self._attempt.phase_at(self._session.step))
        if not resumed:
            self._between_steps()
        self._report.phases.epoch_begins()

    @contextlib.contextmanager
    def stands_in(self) -> Iterator[bool]:
        """Around a step that is not run: Keras' loop is then as it was after the last
        one, and no callback of the script's hears of it."""
        needed = backend.fit.STANDS_IN and self.next_step > 0
        if not needed:
            yield False
            return
        with self._resume.stand_in(self.steps, self._position.logs, self._call):
            yield True

    def epoch_is_over(self) -> None:
        """Its last step is done: callbacks may take as long as they like now."""
        self._between_epochs = True
        self._count()
        self._report.steps_over(self._session.step)
        if self.source.lengths_vary:  # of others all need the same
            self._report.phases.ends(PeakPhase.STEPS)
        self._report.phases.begins(PeakPhase.CALLBACKS)
        self._attempt.enter(Phase.BETWEEN)

    def evaluated(self) -> None:
        """An evaluation inside of ``fit`` is over."""
        if self._between_epochs:
            self._report.phases.ends(PeakPhase.VALIDATION)
            self._report.phases.begins(PeakPhase.CALLBACKS)
        self._hidden.traced(baked_values.TEST)
        after = self._attempt.phase_at(self._session.step)
        self._attempt.enter(Phase.BETWEEN if self._between_epochs else after)

    def passes_over(self, step: int, batches: Any) -> bool:
        """Whether the step is to be left out; its batches are drawn then."""
        if not skipped_steps.is_next(self._session):
            return False
        if not skipped_steps.pass_over(self._session, self._parts(), step, batches):
            return False
        self.publish_position()
        return True

    def before_step(self) -> None:
        """The iterator is about to hand out a step."""
        self._follow()
        self._loss_guard.lower_rate()
        if self._attempt.directive.in_place:
            self._in_use = backend.recovery.memory_in_use()
        self.steps.begin()

    def _executed(self, logs: Any) -> None:
        """The train function returned: a whole step, or several in one execution."""
        began = time.perf_counter()
        if self._no_step_yet:
            self._no_step_yet = False
            keras_compat.forget_last_logs(self.model)
            self._proof.stepped()
        if self._untraced:
            self._untraced = not self._hidden.traced(baked_values.TRAIN)
        self.steps.trained(logs)
        self.steps.following += time.perf_counter() - began

    def after_step(self, next_step: int, batches: Any) -> None:
        """After the step and every callback: the state is whole. ``batches``: what it
        drew from."""
        began = time.perf_counter()
        steps, position, session = self.steps, self._position, self._session
        position.next_step = next_step
        if not steps.ran:
            steps.counts_only = False
            self._determinism.hear_of_draws()
            self._determinism.tell(LOST_SEAM)
            return
        steps.done.append((steps.began, began, steps.ran))
        self._show(session.step, position.step_in_epoch, session.samples)
        if began >= steps.look_due or self._attempt.drain_requested:
            steps.counts_only = False
            steps.look_due = self._next_look(traced=self._look(batches))
            steps.following += time.perf_counter() - began
            return
        # The next is begun here: ``before_step`` is called after a look alone.
        steps.counts_only = (
            steps.one_each
            and steps.around is not None
            and steps.model.train_function is steps.around
        )
        steps.ran, steps.began = 0, time.perf_counter()
        steps.following += steps.began - began

    def _look(self, batches: Any) -> bool:
        """Do at this boundary what is due; whether a function was traced since the last."""
        self._count()
        self._determinism.hear_of_draws()
        if not self._looked_into:
            self._looked_into = True
            self._look_into()
        step, logs = self._session.step, self._position.logs
        self._report.look(logs=logs, step=step)
        self._report.phases.stepped(step, self._validation_ahead)
        traced = self._evidence.look(steps=self.steps.ran, batches=batches)
        self._loss_guard.look(logs, step=step, epoch=self._position.epoch, due=False)
        self._session.followed(self.steps.following)
        self.steps.following = 0.0
        self._between_steps()
        return traced

    def _count(self) -> None:
        """The steps since that was done last."""
        done, self.steps.done = self.steps.done, []
        self._report.count(done, step=self._session.step)
        self._evidence.count(done)

    def _next_look(self, *, traced: bool) -> float:
        """When the next step is looked at; 0: each is, as what is due is so to the step."""
        to_the_step = (
            traced
            or self._proof.under_way
            or self._session.schedule.by_steps
            or self._slices.prepared
            or self._loss_guard.planned
            or skipped_steps.any_ahead(self._session)
            or not self._report.settled
        )
        if to_the_step:
            return 0.0
        saving = self._session.saver.busy
        pause = LOOK_SECONDS_SAVING if saving else LOOK_SECONDS
        return time.perf_counter() + pause

    def _validation_ahead(self) -> int | None:
        """Epochs until that at whose end it validates next; None: it does no more."""
        call = self._call
        if not call.validates:
            return None
        return epochs_until_validation(
            call.validation_freq, epoch=self._position.epoch, epochs=call.epochs
        )

    def _look_into(self) -> None:
        """The first step is made, and all its functions are traced."""
        self._determinism.tell(self._why_step_not_exact())
        self._determinism.look_into(
            self.model, sliced=self._slices.prepared, known=self._hidden.variables()
        )
        self._evidence.look_into(
            self.model,
            self.source.element_spec,
            batch=self.source.batch,
            in_memory=self.source.in_memory,
        )

    @property
    def doing(self) -> OomSubject:
        """What memory is asked for now, as far as the position tells."""
        if self._source is None:
            return OomSubject.DATA
        validating = self._attempt.phase is Phase.VALIDATING
        return OomSubject.EVALUATION if validating else OomSubject.STEP

    def publish_position(self) -> None:
        """Let the page say where training is."""
        self._attempt.set(
            epoch=self._position.epoch,
            step=self._session.step,
            step_in_epoch=self._position.step_in_epoch,
            samples=self._session.samples,
        )

    def _evaluation(self, iterator: Any) -> Iterator[Any]:
        """The loop of an evaluation inside ``fit``, most often the validation.

        A drain need not wait for its end where the state before it is saved.
        """
        for step in self._validation.follow(iterator, self.model):
            if self._attempt.drain_requested and self._boundary.on_disk:
                self._boundary.leave()
            self._attempt.tick()
            yield step

    def _between_steps(self) -> None:
        self._boundary.between_steps(self._parts)

    def finish(self) -> None:
        """``fit`` returned: keep its end state, so that it is never trained again."""
        self.restore()  # where no epoch was left to train
        self._boundary.finish(self._parts)

    def epoch_ended(self, epoch: int, logs: Any) -> None:
        """The epoch and every callback of its end are done."""
        self._report.phases.ends(PeakPhase.CALLBACKS)
        self._report.epoch_ended(epoch=epoch, step=self._session.step, logs=logs)

    def validates(self) -> None:
        """An evaluation inside of ``fit`` begins."""
        if self._between_epochs:
            self._report.phases.begins(PeakPhase.VALIDATION)
        self._attempt.enter(Phase.VALIDATING)

    def stopped(self) -> None:
        """``fit`` is over, or was broken off: was that for its loss?"""
        self._count()
        self._loss_guard.notice_stop(
            self.callbacks, self._position.logs, step=self._session.step
        )

    def let_go(self) -> None:
        """``fit`` has returned: what the script drops now must be gone at once.

        These lead back to us, and a cycle waits for the garbage collector, which no
        array sets off. (After an exception they are left: its frames keep them all, and
        who reports it looks into them.)
        """
        self._report.over()
        self._evidence.tell()
        del self._hidden
        epoch_iterator.leave(self.iterator)
        self._source = self._iterator = None
        self.steps.draws_from(None, None)
        self._call = replace(self._call, data=None, validation_data=None)
        self._validation = validation.Validation()
