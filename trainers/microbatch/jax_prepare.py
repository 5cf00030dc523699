"""The preparation of a model on JAX: its train step is one in slices for one ``fit``.

The size of a slice is part of what is compiled. It is not tried out in steps: what a step
of a size needs is known once it is compiled (``step_memory``), so the largest that fits is
chosen before the first step, and stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import keras
import numpy as np

from supervisor.wire.event_file import RecordKind
from supervisor.wire.reasons import SizeSource
from supervisor.wire.slices import count
from trainers.backends import keras_compat, keras_losses, slicing
from trainers.backends.jax import jax_backend, jax_fit
from trainers.backends.jax.slices import slice_check, step_memory
from trainers.backends.jax.slices.sliced_step import JaxSlicedStep
from trainers.backends.slices import size_search
from trainers.backends.slices.size_search import Room
from trainers.microbatch.obstacles import (
    MicrobatchRefusedError,
    Obstacle,
    built_for_one_size,
    first_size,
    not_per_sample,
    refuse_deviations,
    refused_parts,
    steps_otherwise,
    too_large,
)
from trainers.microbatch.prepared import Prepared

__all__ = ["MicrobatchRefusedError", "prepare"]

BELOW_FAILED = 0.9
"""No slice is larger than this part of one that failed: what fails once by little fits at
times, and a plan must not depend on luck."""

_KEPT = "_trainwarden_sliced"
"""Attribute of a model: what its sliced train function was made for, and that function.
A script that calls ``fit`` for every epoch must not compile its model every time."""


def prepare(
    model: Any,
    *,
    slice_size: int | None,
    calibrate: bool,
    slice_ceiling: int | None,
    memory_limit_bytes: int | None,
    allow_inexact: bool,
    first_batch: Callable[[], Any],
    report: Callable[..., None],
    hopeless: bool = False,
    reduce: str | None = None,  # noqa: ARG001  # a step of the script's own is not sliced
    wide_products: bool = True,  # noqa: ARG001  # a gradient is rounded in each slice
) -> Prepared:
    """Slice the batches of the ``fit`` that is about to make its train function.

    As ``microbatch.prepare`` does on TensorFlow. ``calibrate``: choose the largest slice
    below ``slice_ceiling`` that fits ``memory_limit_bytes``, or what the device has.

    Raises:
        MicrobatchRefusedError: slices would deviate and ``allow_inexact`` is False, or
            the batch is ``hopeless``.
    """
    if slice_size is None and not calibrate:
        return Prepared()
    data = first_batch()
    _build(model, data)
    limit = memory_limit_bytes
    room = None
    if model.jit_compile and not model.run_eagerly:  # else nothing compiled tells
        device = jax_backend.device_in_use()
        room = step_memory.room_of(model, device, limit_bytes=limit)
    found = _examined(model, data, ceiling=slice_ceiling)
    if isinstance(found, Obstacle):
        if hopeless and slice_ceiling is not None:
            raise _too_large(model, data, found, failed=slice_ceiling, room=room)
        report(RecordKind.NOTICE, sentence=f"The batch is not sliced: {found.why}.")
        return Prepared()
    if not allow_inexact:
        refuse_deviations(found.deviations)
    made = _Sliced(model=model, data=data, found=found, report=report)
    size, source = first_size(made.batch, slice_size, slice_ceiling, climbs=False)
    said = "as planned"
    if calibrate and room is not None:
        size, source, said = made.largest(slice_ceiling, room)
    return made.install(size, source, said)


def _build(model: Any, data: Any) -> None:
    """As ``fit`` does with its first batch, but for batches of any size where the model
    allows that."""
    try:
        any_size = slicing.map_leaves(
            lambda leaf: keras.KerasTensor((None, *leaf.shape[1:]), str(leaf.dtype)),
            data,
        )
        keras_compat.build(model, any_size)
    except Exception:  # noqa: BLE001  # whatever the script's model raises
        keras_compat.build(model, data)


def _examined(
    model: Any, data: Any, *, ceiling: int | None
) -> slice_check.SliceFindings | Obstacle:
    why = _obstacle(model, data)
    if why is not None:
        return Obstacle(why)
    batch = keras.utils.unpack_x_y_sample_weight(data)
    known = ceiling or len(slicing.leaves(batch[0])[0])
    samples = max(2, min(slice_check.SAMPLES, known // 4))
    try:
        return slice_check.examine(model, batch, samples=samples)
    except Exception as error:  # noqa: BLE001  # whatever the script's model raises
        return Obstacle(refused_parts(error), whole_only=True)


def _obstacle(model: Any, data: Any) -> str | None:
    """Why this model's batch cannot be sliced, as half a sentence; None if it can."""
    if jax_fit.has_own_train_step(model):
        return f"{type(model).__name__} has a train_step of its own"
    if why := steps_otherwise(model):
        return why
    leaves = slicing.leaves(data)
    if not all(isinstance(leaf, (np.ndarray, jax.Array)) for leaf in leaves):
        return (
            "the batch holds sparse or ragged tensors, or something that is no tensor"
        )
    why = not_per_sample(leaves)
    if why is None and not model.trainable_variables:
        why = "the model has no trainable weights"
    return why or built_for_one_size(model)


def _too_large(
    model: Any, data: Any, obstacle: Obstacle, *, failed: int, room: Room | None
) -> MicrobatchRefusedError:
    """What a person has to know; of a step of the script's own also what would fit."""
    fits = None
    if room is not None and not obstacle.whole_only:
        fits = _fitting(model, data, failed=failed, room=room)
    return too_large(obstacle, failed=failed, fits=fits, reducible=False)


def _fitting(model: Any, data: Any, *, failed: int, room: Room) -> int | None:
    """About how many samples fit into a batch; None: it cannot be told."""

    def needs(size: int) -> int | None:
        return step_memory.needed(model, model.train_step, data, size)

    most = max(1, int(failed * BELOW_FAILED))
    try:
        found = size_search.largest(needs, batch=failed, most=most, room=room)
    except Exception:  # noqa: BLE001  # the script's code
        return None
    return None if found is None else found.size


@dataclass(kw_only=True)
class _Sliced:
    """The changes to one model."""

    model: Any
    data: Any
    found: slice_check.SliceFindings
    report: Callable[..., None]

    @property
    def batch(self) -> int:
        """Samples in a whole batch."""
        return len(slicing.leaves(self.data)[0])

    def largest(self, ceiling: int | None, room: Room) -> tuple[int, SizeSource, str]:
        """The size by what XLA says of the step that it compiled."""

        def needs(size: int) -> int | None:
            return step_memory.needed(
                self.model, self._step(size), self.data, self.batch
            )

        failed = min(ceiling or self.batch, self.batch)
        most = max(1, min(failed - 1, int(failed * BELOW_FAILED)))
        found = size_search.largest(needs, batch=self.batch, most=most, room=room)
        if found is None:
            return 1, SizeSource.HALVED, "by XLA's analysis not even one sample fits"
        sizes = len(found.needed)
        said = f"by XLA's analysis of the step, compiled for {sizes} size(s)"
        return found.size, SizeSource.MEASURED, said

    def _step(self, size: int) -> Callable[[Any, Any], Any]:
        step = JaxSlicedStep(self.model, size=size, rules=self.found.rules)
        return step.train_step

    def install(self, size: int, source: SizeSource, said: str) -> Prepared:
        """Change the model, and report it."""
        model, rules = self.model, self.found.rules
        made_for = (model.optimizer, keras_losses.loss_tracker(model), rules, size)
        kept = vars(model).get(_KEPT)
        same = kept is not None and _same(kept[0], made_for)
        before = model.train_function
        model.train_step = self._step(size)
        model.train_function = kept[1] if same else None

        def restore() -> None:
            vars(model)[_KEPT] = (made_for, model.train_function)
            del model.train_step
            model.train_function = before

        mode = "two_pass" if rules.two_pass else "exact"
        self.report(
            RecordKind.MICROBATCH,
            batch=self.batch,
            slices=count(batch=self.batch, size=size),
            size=size,
            mode=mode,
            deviations=list(self.found.deviations),
            source=source,
            planned=said,
        )
        return Prepared(
            batch=self.batch,
            mode=mode,
            deviations=self.found.deviations,
            restore=restore,
            _size=lambda: size,
        )


def _same(before: tuple[Any, ...], now: tuple[Any, ...]) -> bool:
    return all(one is two or one == two for one, two in zip(before, now, strict=True))
