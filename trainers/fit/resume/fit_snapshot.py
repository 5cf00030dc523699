"""The state of a running ``fit``: captured for a snapshot, restored from one.

That is its position, its data and its model: between two steps, where they agree.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from supervisor.wire.reasons import RefusalReason
from trainers.backends import computing_device, keras_compat, torch_loaders
from trainers.backends.epoch_iterator import FitIterator
from trainers.backends.selected import backend
from trainers.data.data_fingerprint import Fingerprint
from trainers.data.data_source import DataSource
from trainers.fit.failed_steps.loss_guard import LossGuard
from trainers.fit.fit_position import FitCall, FitPosition
from trainers.fit.validation import Validation
from trainers.process.attempt_reporting import Attempt
from trainers.process.hooks import framework_setup
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.tensor_image import Tensor
from trainers.state import callback_state, fit_state, model_build
from trainers.state.hidden import baked_values
from trainers.state.hidden.hidden_state import HiddenState

WHY_NOT = "fit_why_not"
"""Where a snapshot's JSON says why bits were not promised any more when it was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitParts:
    """What the state of a ``fit`` lies in."""

    call: FitCall
    position: FitPosition
    source: DataSource
    iterator: FitIterator
    fingerprint: Fingerprint
    validation: Validation
    loss_guard: LossGuard
    hidden: HiddenState


def capture(
    parts: FitParts, *, fit_done: bool
) -> tuple[dict[str, Any], list[Tensor], list[str]]:
    """The state as JSON, its tensors, and a sentence for each thing that is not in it.

    ``fit_done``: it is that of the end, where no data are needed any more.
    """
    call, source = parts.call, parts.source
    state, tensors, told = fit_state.capture(
        call.model,
        callback_state.of_fit(call.callbacks, call.model),
        _local(parts),
        of_data=source.random_state(),
        apart=source.changed_by_asking(),
        hidden=parts.hidden,
    )
    of_data, why_not = source.state(done=fit_done)
    return state, tensors + of_data, told + why_not


def _local(parts: FitParts) -> dict[str, Any]:
    """What ``fit`` itself knows."""
    source, iterator = parts.source, parts.iterator
    return {
        **parts.position.state(),
        "begun": source.begun,
        "made": source.made,
        "drawn": source.drawn,
        "steps_seen": iterator.steps_seen,
        "num_batches": iterator.batches_of_pass,
        "used": source.used,
        "order": source.order(),
        "loaders": torch_loaders.states(_loaders(parts.call)),
        "held": backend.variables.held_by_loop(parts.call.model),
        "validation": parts.validation.position(),
        "batch": source.stated_batch,
        "data": parts.fingerprint,
        "epochs": parts.call.epochs,
        "steps": iterator.num_batches,
        "last_finite": parts.loss_guard.last_finite,
    }


def _loaders(call: FitCall) -> tuple[Any, ...]:
    """What may be a loader of PyTorch's that draws as it is asked."""
    return (call.data, call.validation_data) if backend.fit.LOADS else ()


def local_of(taken: Snapshot | None) -> Any:
    """What ``fit`` itself knew in ``taken``, as ``restore`` takes it."""
    if taken is None:
        return None
    return fit_state.local_of(taken.manifest.state, taken.tensors)


def restore(
    parts: FitParts, taken: Snapshot, local: dict[str, Any], attempt: Attempt
) -> list[str]:
    """Let ``fit`` be where ``taken`` was; ``local``: what it itself knew. Returns a
    sentence for what is not as it was.

    Ends the process, as ``restore_or_refuse``, if the model is another.
    """
    model = parts.call.model
    keras_compat.start_at_epoch(model, None)
    # Again: the ``on_epoch_begin`` of the data has been called since.
    parts.source.put_back(taken.tensors)
    told = restore_or_refuse(
        attempt,
        taken,
        model,
        callback_state.of_fit(parts.call.callbacks, model),
        element_spec=parts.source.element_spec,
        hidden=parts.hidden,
    )
    torch_loaders.put_back(_loaders(parts.call), local.get("loaders", []))
    parts.position.resume(local)
    parts.loss_guard.last_finite = local.get("last_finite")
    keras_compat.remember_last_logs(model, parts.position.logs)
    return told


def other_device(attempt: Attempt, taken: Snapshot) -> list[str]:
    """Why bits are not promised where ``taken`` was computed on another device.

    Ends the process where that was a GPU, and the framework would train on without.
    """
    then, now = taken.manifest.state.get("device"), backend.fit.computing_device()
    gone = computing_device.gone(then, now)
    wanted = not framework_setup.on_cpu(attempt.directive)
    if gone is not None and wanted and not computing_device.is_without_gpu(os.environ):
        framework_setup.refuse(attempt, RefusalReason.DEVICE_GONE, gone)
    told = computing_device.another(then, now)
    return [] if told is None else [told]


def restore_or_refuse(
    attempt: Attempt,
    taken: Snapshot,
    model: Any,
    callbacks: list[Any],
    *,
    element_spec: Any,
    reason: RefusalReason = RefusalReason.MODEL_CHANGED,
    hidden: HiddenState | None = None,
) -> list[str]:
    """Give ``model`` and ``callbacks`` the state of ``taken``; a sentence for each part
    of it that is not as it was.

    Ends the process, and says ``reason``, if the snapshot is one of another.
    """
    state, tensors = taken.manifest.state, taken.tensors
    told = [] if hidden is None else hidden.compile_again(state)
    build = functools.partial(fit_state.build, model, element_spec, state, tensors)
    try:
        if hidden is not None and model_build.takes_steps(model):
            told += hidden.keep_while(build, state)
        else:
            build()
        if hidden is not None:
            hidden.trace_again(state, _tracing(model, element_spec))
        told += fit_state.restore(model, callbacks, state, tensors, hidden=hidden)
    except fit_state.StateMismatchError as error:
        what = "model" if reason is RefusalReason.MODEL_CHANGED else "state"
        sentence = f"the {what} is not that of the snapshot: {error}"
        framework_setup.refuse(attempt, reason, sentence)
    for sentence in told:
        attempt.notice(sentence)
    return told


def _tracing(model: Any, element_spec: Any) -> dict[str, Callable[[], None]]:
    """How the functions of ``model`` are traced."""
    traces = backend.traces
    return {
        baked_values.TRAIN: lambda: traces.trace_train(model, element_spec),
        baked_values.TEST: lambda: traces.trace_test(model, element_spec),
    }
