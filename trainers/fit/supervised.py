"""A supervised ``fit``: what the script's call of ``Model.fit`` becomes."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import keras

from supervisor.wire.event_file import NO_ROOM, RecordKind
from supervisor.wire.page import Phase
from supervisor.wire.reasons import RefusalReason
from trainers.backends import (
    epoch_iterator,
    finished_iterators,
    keras_compat,
    tf_data,
    torch_loaders,
)
from trainers.backends.selected import backend
from trainers.data import py_dataset_state, shared_data
from trainers.fit import earlier_traces
from trainers.fit.failed_steps import loss_guard
from trainers.fit.failed_steps.recovery import of_session as recovery_of
from trainers.fit.failed_steps.recovery import old_way as recovery_end
from trainers.fit.fit_position import FitCall
from trainers.fit.fit_run import FitRun
from trainers.fit.resume import fit_snapshot
from trainers.fit.telemetry import fit_report
from trainers.fit.validation import Validation
from trainers.process import crash_report, signals
from trainers.process.attempt_reporting import Attempt
from trainers.process.end_of_script import nothing_lost
from trainers.process.environment import framework_versions
from trainers.process.hooks import framework_setup
from trainers.snapshots import durable_store
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.run_progress import RunProgress
from trainers.state import callback_state
from trainers.state.hidden import hidden_state

NESTED = "a fit inside a fit is not saved on its own: it is trained again with its step"
BACKUP = (
    "BackupAndRestore goes on writing its backup; after a restart the state comes from"
    " our snapshot, which is never older"
)


class Follower(keras.callbacks.Callback):
    """The last of the callbacks: it only tells where the loop is."""

    def __init__(self, run: FitRun) -> None:
        super().__init__()
        self._trainwarden = run

    def on_train_begin(self, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
        self._trainwarden.train_begins()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
        self._trainwarden.epoch_begins(epoch)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._trainwarden.epoch_ended(epoch, logs)

    def on_test_begin(self, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
        self._trainwarden.validates()

    def on_test_end(self, logs: Any = None) -> None:  # noqa: ARG002  # Keras' signature
        self._trainwarden.evaluated()


@functools.cache
def session_of(attempt: Attempt) -> RunProgress:
    """The session of this process; made, and the seams proven, at the first ``fit``."""
    wrong = backend.fit.self_test()
    if wrong:
        framework_setup.refuse(
            attempt,
            RefusalReason.INTERNALS,
            framework_versions.strange_inside(wrong),
        )
    try:
        session = RunProgress(attempt)
    except (OSError, durable_store.DirectoryTakenError) as error:
        full = isinstance(error, OSError) and error.errno in NO_ROOM
        why = RefusalReason.NO_ROOM if full else RefusalReason.SNAPSHOTS_UNUSABLE
        framework_setup.refuse(attempt, why, f"the snapshots cannot be used: {error}")
    backend.fit.replace_epoch_iterator()
    attempt.training.opened()
    return session


@contextlib.contextmanager
def fit(
    attempt: Attempt,
    original: Any,
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Iterator[Callable[[], Any]]:
    """What to call in the place of ``original``: it trains ``model``, and returns its
    History. To be asked again where leaving the context is no error and no result: a
    step failed, and the call is to be made again.

    TensorFlow looks through the whole stack at each eager operation: it is called where
    nothing of what is done here is below it.
    """
    session = session_of(attempt)
    attempt.end.ask(nothing_lost)
    bound = inspect.signature(original).bind(model, *args, **kwargs)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    del arguments["self"]
    plain = _why_plain(attempt, model, arguments["x"])
    if plain is not None:
        if attempt.is_news("fit left to Keras", plain):
            attempt.notice(plain)
        with epoch_iterator.adopting(lambda _iterator: None):
            yield functools.partial(original, model, *args, **kwargs)
        return
    end = session.end_of(session.fit_number)
    if end is not None:
        history = restore_finished(session, end, model, arguments)
        yield lambda: history
        return
    with training(session, model, arguments) as callbacks:
        arguments["callbacks"] = callbacks
        yield functools.partial(original, model, **arguments)


def _why_plain(attempt: Attempt, model: Any, data: Any) -> str | None:
    """Why this ``fit`` is left to Keras alone; None if it is supervised."""
    if attempt.training.running is not None:
        return NESTED
    return backend.fit.why_not_followed(model, data)


@contextlib.contextmanager
def training(
    session: RunProgress, model: Any, arguments: dict[str, Any]
) -> Iterator[Any]:
    """A ``fit`` with steps left to do, by these callbacks."""
    attempt = session.attempt
    earlier_traces.make_again(model)
    callbacks, held = _callbacks(arguments["callbacks"])
    given = list(held)
    recovery = recovery_of(session)
    failed = recovery.again()
    run = FitRun(
        session,
        FitCall(
            model=model,
            callbacks=given,
            epochs=arguments["epochs"],
            data=arguments["x"],
            validation_data=arguments["validation_data"],
            validates=arguments["validation_data"] is not None
            or bool(arguments["validation_split"]),
            validation_freq=arguments["validation_freq"],
        ),
        again=failed,
    )
    recovery.begins(run, again=failed is not None)
    follower = Follower(run)
    follower.set_model(model)
    held.append(follower)
    if any(isinstance(one, keras.callbacks.BackupAndRestore) for one in given):
        attempt.notice(BACKUP)
    kept = callback_state.keep_csv_rows(given) if run.resumes else []
    attempt.training.began(run)
    again = False
    try:
        with epoch_iterator.adopting(run.adopt, around=run.making):
            yield callbacks
        run.finish()
        run.stopped()
        run.let_go()
    except BaseException as error:
        again = recovery.recovers(run, error)
        if not again:
            recovery_end(session, error)
            crash_report.mark_in_fit(error, during=run.doing)
            run.stopped()
            _failed(session)
            raise
    finally:
        attempt.training.ended()
        run.unwrap()
        held.remove(follower)
        for logger, append in kept:
            logger.append = append
        attempt.enter(Phase.BETWEEN)
        finished_iterators.wait()  # the last: it may be interrupted
    if not again:
        ended(session)


def _failed(session: RunProgress) -> None:
    """A call was left by an exception, which the script may catch: sizes of slices, say,
    are tried no more."""
    session.attempt.say(
        RecordKind.FIT_FAILED, fit=session.fit_number, step=session.step
    )
    session.fit_failed()


def ended(session: RunProgress) -> None:
    """A call is over: the next one has the next number."""
    session.attempt.say(RecordKind.FIT_ENDED, fit=session.fit_number, step=session.step)
    session.fit_ended()
    if session.attempt.drain_requested:
        signals.leave(session.attempt)


def _callbacks(callbacks: Any) -> tuple[Any, list[Any]]:
    """What to pass to ``fit``, and the list in it that holds the script's own."""
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks, callbacks.callbacks
    given = list(keras_compat.tree.flatten(callbacks)) if callbacks else []
    return given, given


def restore_finished(
    session: RunProgress, end: Snapshot, model: Any, arguments: dict[str, Any]
) -> Any:
    """A ``fit`` that an earlier attempt finished: its ``end`` state, and its History."""
    attempt = session.attempt
    local = fit_snapshot.local_of(end)
    before = attempt.enter(Phase.RESTORING)
    _, given = _callbacks(arguments["callbacks"])
    keras.callbacks.CallbackList(
        list(given),
        add_history=True,
        model=model,
        verbose=arguments["verbose"],
        epochs=arguments["epochs"],
        steps=local["steps"],
    )
    spec = _element_spec(arguments, model)
    used = local["used"] + (local["drawn"] > 0)
    data, drawn = arguments["x"], local["drawn"]
    for _ in range(local.get("glances", 0)):
        tf_data.glance(data)
    made = local.get("made", local["begun"])
    tf_data.replay(data, made=made, used=used, drawn=drawn)
    shared_data.draw(data, drawn=drawn, looked_at=keras_compat.LOOKED_AT)
    shared_data.why_not_exact(data)  # only remembered
    told = fit_snapshot.other_device(attempt, end)
    if isinstance(data, keras.utils.PyDataset):
        told += py_dataset_state.put_back(data, end.tensors)
    Validation().resume(local["validation"], arguments["validation_data"])
    callbacks = callback_state.of_fit(given, model)
    told += fit_snapshot.restore_or_refuse(
        attempt,
        end,
        model,
        callbacks,
        element_spec=spec,
        hidden=hidden_state.of_call(model, given, data, arguments["validation_data"]),
    )
    torch_loaders.put_back(
        (data, arguments["validation_data"]), local.get("loaders", [])
    )
    for sentence in told:
        fit_report.promise(attempt, sentence, fit=session.fit_number)
    earlier_traces.remember(model, spec)
    session.put_files_back(end)
    watch = loss_guard.LossGuard(attempt, model)
    watch.last_finite = local.get("last_finite")
    watch.notice_stop(given, local["logs"], step=end.manifest.step)
    attempt.training.called()
    attempt.set(fit=session.fit_number, epoch=local["epoch"])
    session.restored(end, seconds=0.0)
    session.next_fit()
    attempt.enter(before)
    return model.history


def _element_spec(arguments: dict[str, Any], model: Any) -> Any:
    """Shapes and dtypes of a batch of this call's data."""
    names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "class_weight")
    given = {name: arguments[name] for name in names}
    with epoch_iterator.adopting(lambda _iterator: None):
        return backend.fit.element_spec_of(model, {**given, "shuffle": False})


__all__ = ["fit", "restore_finished", "session_of", "training"]
