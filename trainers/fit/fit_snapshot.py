"""A running ``fit`` as a whole: what it gives to a snapshot, and takes up from one.

That is its position, its data and its model: between two steps, where they agree.
"""

import time
from typing import Any

from supervisor.wire.page import Phase
from supervisor.wire.reasons import RefusalReason
from trainers.backends import keras_compat
from trainers.backends.tensorflow import fit_compat as seams
from trainers.process import framework_setup
from trainers.snapshots.durable_store import Snapshot
from trainers.snapshots.tensor_image import Tensor
from trainers.state import callback_state, fit_state


def capture(run: Any, *, fit_done: bool) -> tuple[dict[str, Any], list[Tensor]]:
    """The state of ``run``; what is not in it is told.

    ``fit_done``: it is that of the end, where no data are needed any more.
    """
    state, tensors, told = fit_state.capture(
        run.model,
        callback_state.of_fit(run.callbacks, run.model),
        _local(run),
        of_data=run.source.random_state(),
    )
    of_data, why_not = run.source.state(done=fit_done)
    for sentence in [*told, *why_not]:
        run.promise.tell(sentence)
    return state, tensors + of_data


def _local(run: Any) -> dict[str, Any]:
    """What ``fit`` itself knows."""
    return {
        "epoch": run.epoch,
        "next_step": run.next_step,
        "step_in_epoch": run.step_in_epoch,
        "begun": run.source.begun,
        "drawn": run.source.drawn,
        "steps_seen": keras_compat.steps_seen(run.iterator),
        "num_batches": keras_compat.batches_known(run.iterator),
        "used": run.source.used,
        "validation": run.validation.position(),
        "logs": run.logs,
        "batch": run.source.batch,
        "data": run.fingerprint,
        "epochs": run.epochs,
        "steps": run.iterator.num_batches,
        "last_finite": run.loss_watch.last_finite,
    }


def local_of(taken: Snapshot | None) -> Any:
    """What ``fit`` itself knew in ``taken``, as ``give_back`` takes it."""
    if taken is None:
        return None
    return fit_state.local_of(taken.manifest.state, taken.tensors)


def give_back(run: Any, taken: Snapshot, local: dict[str, Any]) -> None:
    """Let ``run`` be where ``taken`` was; ``local``: what ``fit`` itself knew.

    Raises:
        fit_state.MismatchError: the model is another. The supervisor was told.
    """
    began, before = time.perf_counter(), run.attempt.enter(Phase.RESTORING)
    seams.start_at_epoch(run.model, None)
    told = _give_back_state(run, taken)
    run.epoch, run.next_step = local["epoch"], local["next_step"]
    run.step_in_epoch, run.logs = local["step_in_epoch"], local["logs"]
    run.loss_watch.resume(local.get("last_finite"))
    seams.remember_last_logs(run.model, run.logs)
    for sentence in told:
        run.attempt.notice(sentence)
    run.session.restored(taken, seconds=time.perf_counter() - began)
    run.since.restored()
    run.publish_position()
    run.attempt.enter(before)


def _give_back_state(run: Any, taken: Snapshot) -> list[str]:
    state, tensors = taken.manifest.state, taken.tensors
    try:
        fit_state.build(run.model, run.source.element_spec, state, tensors)
        # Again: the ``on_epoch_begin`` of the data has been called since.
        run.source.put_back(tensors)
        callbacks = callback_state.of_fit(run.callbacks, run.model)
        return fit_state.restore(run.model, callbacks, state, tensors)
    except fit_state.StateMismatchError as error:
        framework_setup.refuse(
            run.attempt,
            RefusalReason.MODEL_CHANGED,
            f"the model is not that of the snapshot: {error}",
        )
        raise
