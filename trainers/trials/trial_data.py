"""Training data as they are to be read in a trial: what is changed of them from outside."""

import gc
from dataclasses import dataclass, replace
from typing import Any

from trainers.backends import tf_data
from trainers.data.data_source import DataSource
from trainers.fit.held_fit import HeldFit
from trainers.trials import input_size

NOT_STREAMED = "the data are no arrays of NumPy: they cannot be cut from main memory"
NOT_WRITTEN = "TensorFlow cannot write the pipeline down, to make it anew"
MOST_UNTIMED = 16
"""Steps that are made more, at most, for what a pipeline reads ahead."""
MOST_WRITTEN_BYTES = 256 << 20
"""Of arrays in a pipeline that a place for a cache is looked for in."""
NO_SIZE = "the model does not say that it takes another size"


class NotChangedError(Exception):
    """The data cannot be read so, as the sentence says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedData:
    """Fields of ``TrialFit``: what the data are, and what was changed of them."""

    read_ahead: int | None
    untimed: int
    lone_maps: int
    cache_place: str
    array_bytes: int
    sizes: str
    fixed_size: str
    cache_bytes: int | None = None
    streamed: bool = False
    half_size: bool = False


def change(held: HeldFit) -> TriedData:
    """Let ``held`` read its data as the directive says.

    Raises NotChangedError.
    """
    source, directive = held.source, held.attempt.directive
    size = input_size.of_model(held.model)
    found = _as_given(source, size)
    if directive.trial_streamed and not source.stream():
        raise NotChangedError(NOT_STREAMED)
    if directive.trial_read_ahead is not None:  # looks for a stage that copies have not
        ahead = directive.trial_read_ahead
        source.dataset = tf_data.input_changes().with_read_ahead(source.dataset, ahead)
    if directive.trial_parallel_maps:
        source.dataset = _in_parallel(source.dataset)
    if directive.trial_cached:
        source.dataset, found = _cached(held, found)
    if directive.trial_half_size:
        source.dataset = _halved(source.dataset, size)
    held.iterator.let_go(source.dataset)
    gc.collect()  # of what was there before, a copy of the data say
    return replace(
        found,
        streamed=directive.trial_streamed,
        half_size=directive.trial_half_size,
    )


def _as_given(source: DataSource, size: input_size.InputSize) -> TriedData:
    own = type(source) is DataSource and tf_data.is_pipeline(source.dataset)
    changes = tf_data.input_changes()
    ahead = changes.read_ahead(source.dataset) if own else None
    return TriedData(
        read_ahead=ahead,
        untimed=min(ahead or 0, MOST_UNTIMED) if (ahead or 0) > 1 else 0,
        lone_maps=changes.lone_maps(source.dataset) if own else 0,
        cache_place=_cache_place(source) if own else "",
        array_bytes=source.cut_bytes,
        sizes=size.kind,
        fixed_size=size.fixed,
    )


def _cache_place(source: DataSource) -> str:
    """To look for it the pipeline is written down, with its arrays: a second time as large."""
    if source.cut_bytes > MOST_WRITTEN_BYTES:
        return ""
    found: str = tf_data.pipeline_cache().place_of(source.dataset)
    return found


def _in_parallel(dataset: Any) -> Any:
    try:
        return tf_data.input_changes().with_parallel_maps(dataset)
    except ValueError as error:
        raise NotChangedError(NOT_WRITTEN) from error


def _cached(held: HeldFit, found: TriedData) -> tuple[Any, TriedData]:
    """Its file is removed with the others of a trial."""
    attempt, caches = held.attempt, tf_data.pipeline_cache()
    steps = (attempt.directive.trial_steps or 1) + found.untimed
    directory = attempt.paths.root / "cache"
    directory.mkdir(mode=0o700)
    try:
        cached, size = caches.with_cache(held.source.dataset, directory, steps=steps)
    except caches.NoCacheError as error:
        raise NotChangedError(str(error)) from error
    return cached, replace(found, cache_bytes=size)


def _halved(dataset: Any, size: input_size.InputSize) -> Any:
    if not size.sides:
        raise NotChangedError(NO_SIZE)
    changes = tf_data.input_changes()
    return changes.halved(dataset, sides=size.sides, rank=size.rank)
