"""Recovery inside the process: a ``fit`` of which a step failed is made again.

The supervisor is asked, and decides as about every failure. Then Keras' ``fit`` is called
again on the same model, as a new process would call it: the same code gives the state
back. Whatever is in doubt (``recovery_doubts``) is left to a new process.
"""

import functools
import gc
import traceback

from supervisor.wire.page import Phase
from supervisor.wire.records.end_records import CrashReport
from supervisor.wire.snapshots.manifest import Manifest
from trainers.backends.selected import backend
from trainers.fit.failed_steps import loss_guard, recovery_doubts
from trainers.fit.failed_steps.loss_guard import LossLostError
from trainers.fit.failed_steps.recovery_doubts import Again, FailedFit
from trainers.fit.fit_run import FitRun
from trainers.process import allocation_subject, crash_report, recovery_request
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import RunProgress
from trainers.state import fit_state
from trainers.state.callback_state import Unsaved

NOT_HERE = "training does not go on in this process: {}"


@functools.cache
def of_session(session: RunProgress) -> "Recovery":
    """That of the process."""
    return Recovery(session)


class Recovery:
    """The recoveries of one process."""

    def __init__(self, session: RunProgress) -> None:
        self._session, self._attempt = session, session.attempt
        self._asked = 0
        self._failed_step: int | None = None
        self._again: Again | None = None
        self._unsaved: Unsaved | None = None

    @property
    def is_allowed(self) -> bool:
        """Whether the supervisor answers."""
        return self._attempt.directive.in_place

    def again(self) -> Again | None:
        """The call that is made again, once; None: it is another."""
        again, self._again = self._again, None
        return again

    def begins(self, run: FitRun, *, again: bool) -> None:
        """``run`` is about to train; ``again``: not for the first time."""
        if self.is_allowed and not (again and self._unsaved is not None):
            self._unsaved = Unsaved(run.callbacks)

    def recovers(self, run: FitRun, error: BaseException) -> bool:
        """Whether the call of ``run``, which ``error`` has left, is to be made again."""
        if not self.is_allowed:
            return False
        failed = run.failure
        if not _is_candidate(failed, error):
            return False
        try:
            return self._tries(failed, error)
        except Exception as wrong:  # noqa: BLE001  # ``error`` is what ended training
            self._attempt.notice(NOT_HERE.format(_named(wrong)))
            return False

    def _tries(self, failed: FailedFit, error: BaseException) -> bool:
        """It may find no memory either: what it raises must not hide ``error``."""
        before = self._attempt.enter(Phase.RESTORING)
        why_not = self._why_not(failed, error)
        if why_not is not None:
            self._attempt.notice(NOT_HERE.format(why_not))
            self._attempt.enter(before)
            return False
        return self._asks(failed, error)

    def _why_not(self, failed: FailedFit, error: BaseException) -> str | None:
        session, unsaved = self._session, self._unsaved
        if self._attempt.drain_requested:
            return "the attempt was asked to end"
        if self._failed_step is not None and session.step <= self._failed_step:
            return recovery_doubts.SAME_STEP
        taken = session.newest_of(session.fit_number)
        if taken is None or unsaved is None:
            stepped = failed.stepped
            return recovery_doubts.UNSAVED if stepped else recovery_doubts.NO_STEP
        if not isinstance(error, LossLostError):
            doubt = backend.recovery.why_memory_in_doubt(failed.call.model)
            if doubt is not None:
                return doubt
        return self._doubt(failed, taken)

    def _doubt(self, failed: FailedFit, taken: Manifest) -> str | None:
        assert self._unsaved is not None  # noqa: S101  # asked before
        return recovery_doubts.about(failed, taken, self._unsaved, self._attempt)

    def _can_take(self, failed: FailedFit, taken: Snapshot) -> bool:
        """It may be an older one than that which was looked at before."""
        why_not = self._doubt(failed, taken.manifest)
        if why_not is not None:
            self._attempt.notice(NOT_HERE.format(why_not))
        return why_not is None and _put_variables_back(failed, taken)

    def _asks(self, failed: FailedFit, error: BaseException) -> bool:
        session, attempt = self._session, self._attempt
        crash = self._crash(error)
        _let_go(error)
        if not isinstance(error, LossLostError):
            not_back = recovery_doubts.of_memory(failed)
            if not_back is not None:
                attempt.notice(NOT_HERE.format(not_back))
                return False
        self._asked += 1
        answer = recovery_request.ask(
            attempt, crash, number=self._asked, step=session.step
        )
        if answer is None or not answer.goes_on:
            if answer is not None:
                attempt.notice(NOT_HERE.format(answer.because))
            return False
        failed_step = session.step
        attempt.goes_on(answer.applied_to(attempt.directive), failed_step=failed_step)
        doubt = functools.partial(self._doubt, failed)
        taken = session.go_back()
        if taken is None or not self._can_take(failed, taken):
            return False
        recovery_request.goes_on(attempt, answer, step=failed_step)
        allocation_subject.watch.forget()
        self._failed_step = failed_step
        self._again = Again(hidden=failed.hidden, doubt=doubt)
        return True

    def _crash(self, error: BaseException) -> CrashReport:
        attempt = self._attempt
        if isinstance(error, LossLostError):
            return error.crash
        attempt.end.last_words(error)  # before its frames are let go
        attempt.end.say(_nothing)
        crash_report.mark_in_fit(error)
        return crash_report.report(error, steps_done=attempt.training.steps)


def _put_variables_back(failed: FailedFit, taken: Snapshot) -> bool:
    try:
        fit_state.put_variables_back(
            failed.call.model, taken.manifest.state, taken.tensors
        )
    except fit_state.StateMismatchError:
        return False
    return True


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]


def _nothing(_error: BaseException) -> None:
    """It was said before."""


def _is_candidate(failed: FailedFit, error: BaseException) -> bool:
    if isinstance(error, LossLostError):
        return True
    watch = allocation_subject.watch
    out_of_memory = isinstance(error, Exception) and allocation_subject.out_of_memory(
        error
    )
    return failed.in_step and out_of_memory and watch.last is None


def _let_go(error: BaseException) -> None:
    """Of what the frames of ``error`` hold; where it was raised can still be told."""
    for one in allocation_subject.chain(error):
        traceback.clear_frames(one.__traceback__)
    gc.collect()


def old_way(session: RunProgress, error: BaseException) -> None:
    """The process is to end by ``error``: at once, where the loss is lost."""
    if isinstance(error, LossLostError):
        loss_guard.leave(session.attempt, error.crash)
