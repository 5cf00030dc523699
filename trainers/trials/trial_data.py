"""Training data as they are to be read in a trial: what is changed of them from outside."""

import gc
from dataclasses import dataclass
from typing import Any

from trainers.backends import tf_data
from trainers.data.data_source import DataSource
from trainers.fit.held_fit import HeldFit
from trainers.trials import input_size

NOT_STREAMED = "the data are no arrays of NumPy: they cannot be cut from main memory"
NOT_WRITTEN = "TensorFlow cannot write the pipeline down, to make it anew"
NO_SIZE = "the model does not say that it takes another size"


class NotChangedError(Exception):
    """The data cannot be read so, as the sentence says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedData:
    """Fields of ``TrialFit``: what the data are, and what was changed of them."""

    read_ahead: int | None
    begun_anew: bool
    lone_maps: int
    array_bytes: int
    streamed: bool
    sizes: str
    fixed_size: str
    half_size: bool


def change(held: HeldFit) -> TriedData:
    """Let ``held`` read its data as the directive says.

    Raises NotChangedError.
    """
    source, directive = held.source, held.attempt.directive
    own = type(source) is DataSource and tf_data.is_pipeline(source.dataset)
    size = input_size.of_model(held.model)
    changes = tf_data.input_changes()
    before = source.dataset
    found = TriedData(
        read_ahead=changes.read_ahead(before) if own else None,
        begun_anew=source.may_be_begun_anew,
        lone_maps=changes.lone_maps(before) if own else 0,
        array_bytes=source.cut_bytes,
        streamed=directive.trial_streamed,
        sizes=size.kind,
        fixed_size=size.fixed,
        half_size=directive.trial_half_size,
    )
    if directive.trial_streamed and not source.stream():
        raise NotChangedError(NOT_STREAMED)
    if directive.trial_parallel_maps:
        source.dataset = _in_parallel(source.dataset)
    if directive.trial_read_ahead is not None:
        ahead = directive.trial_read_ahead
        source.dataset = changes.with_read_ahead(source.dataset, ahead)
    if directive.trial_half_size:
        source.dataset = _halved(source.dataset, size)
    if source.dataset is not before:
        held.iterator.let_go(source.dataset)
        gc.collect()  # of what was there before, a copy of the data say
    return found


def _in_parallel(dataset: Any) -> Any:
    try:
        return tf_data.input_changes().with_parallel_maps(dataset)
    except (RuntimeError, ValueError, TypeError) as error:
        raise NotChangedError(NOT_WRITTEN) from error


def _halved(dataset: Any, size: input_size.InputSize) -> Any:
    if not size.sides:
        raise NotChangedError(NO_SIZE)
    changes = tf_data.input_changes()
    return changes.halved(dataset, sides=size.sides, rank=size.rank)
