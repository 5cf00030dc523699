"""What is there between two steps: a model's variables by what they are, and the data."""

import gc
from typing import Any

import keras

from supervisor.wire.records.estimate_records import ModelMemory
from trainers.backends import keras_compat
from trainers.backends.selected import backend
from trainers.estimate.seen_data import SeenData
from trainers.fit.telemetry import counted_variables


def of(model: Any, seen: SeenData, *, before: int | None) -> ModelMemory:
    """The memory of ``model``, whose variables are all made.

    ``before``: bytes in use before the data were iterated, as ``seen`` tells.
    """
    found = counted_variables.counted(model)
    gc.collect()
    held = backend.trials.in_use()
    in_all = found.parameter_bytes + found.optimizer_bytes + found.other_bytes
    devices = backend.fit.replicas_of(model)  # each copy of a variable is listed
    drawn = seen.nbytes
    if seen.most_in_use is not None and before is not None:
        drawn = max(seen.most_in_use - before, drawn)
    return ModelMemory(
        batch=seen.samples,
        batch_bytes=seen.nbytes,
        parameters=found.parameters // devices,
        trained=found.trained,
        parameter_bytes=found.parameter_bytes,
        trained_bytes=devices * found.trained_bytes,
        optimizer_bytes=found.optimizer_bytes,
        optimizer=counted_variables.optimizer_of(model),
        other_bytes=found.other_bytes,
        data_bytes=max((held or 0) - in_all, seen.array_bytes),
        drawn_bytes=drawn,
        jit=bool(model.jit_compile),
        jit_possible=keras_compat.may_be_compiled(model),
        backend=keras.backend.backend(),
        shapes=seen.shapes,
        devices=devices,
        parted=backend.fit.parts_batches(model),
    )
