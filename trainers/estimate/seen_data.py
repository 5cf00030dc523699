"""The data of a ``fit``, iterated for a moment: what lies in memory meanwhile, and the
largest batch of those that were seen.

Batches may be of unlike shapes (texts in buckets): the one with the longest samples asks
for most where attention is, else the one with most bytes; of those with equally long
samples the largest counts.
"""

import time
from dataclasses import dataclass
from itertools import islice
from typing import Any

from trainers.backends import slicing
from trainers.backends.selected import backend
from trainers.data.data_source import DataSource

BATCHES = 4
"""Looked at, where all are alike."""
BATCHES_UNLIKE = 200
"""... and where they are not."""
SECONDS = 8.0
"""For all of them."""
STILL_SECONDS = 0.2
"""Reading ahead is over once nothing has changed for so long."""
STILL_AT_MOST_SECONDS = 2.0
LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenData:
    """What was seen."""

    largest: Any
    """The largest batch, as ``StepTrials.kept`` has it."""
    another: Any | None
    """The last batch of another shape of samples; None: there was none."""
    samples: int
    """In that batch."""
    nbytes: int
    per_sample: bool
    """Whether a part of it would be a batch, too."""
    most_in_use: int | None
    """Bytes in use, at most, while a batch was held; None: nobody counts."""
    shapes: int
    """Of samples, seen."""
    array_bytes: int
    """Of data that the framework may have copied, or not."""
    rest: int
    """Samples in the last batch of a pass, where that is short; 0: it is not, or nobody
    knows."""


def seen(iterator: Any, source: DataSource) -> SeenData:
    """Iterate the data of ``iterator`` for a moment.

    Raises StopIteration where there are none, and what the script's data raise.
    """
    source.prepare(begun=source.begun + 1, drawn=0)
    iterator.data_adapter.on_epoch_begin()
    source.pass_began()
    batches = source.begin()
    unlike = _are_unlike(source.element_spec)
    until = time.monotonic() + SECONDS
    largest, another, most, shapes = None, None, 0, set[Any]()
    looked_at = islice(batches, BATCHES_UNLIKE if unlike else BATCHES)
    for batch in map(backend.trials.whole, looked_at):
        if len(shapes) == 0 or not unlike:
            most = max(most, _settled_in_use())
        found = _measured(batch)
        shapes.add(found[1])
        if largest is None or found[0] > largest[0]:
            largest, another = (*found, backend.trials.kept(batch)), largest
        elif found[1] != largest[1]:
            another = (*found, backend.trials.kept(batch))
        if time.monotonic() > until:
            break
    if largest is None:
        raise StopIteration
    samples, per_sample = _samples(largest[2])
    other = another is not None and another[1] != largest[1]
    return SeenData(
        largest=largest[2],
        another=another[2] if another is not None and other else None,
        samples=samples,
        nbytes=largest[0][1],
        per_sample=per_sample,
        most_in_use=most or None,
        shapes=len(shapes),
        array_bytes=source.array_bytes,
        rest=0 if unlike else (source.samples or 0) % samples,
    )


def _are_unlike(element_spec: Any) -> bool:
    """Whether samples may be of unlike shapes."""
    specs = slicing.leaves(element_spec)
    return any(
        size is None
        for one in specs
        if getattr(one, "shape", None) is not None and one.shape.rank
        for size in one.shape[1:]
    )


def _measured(batch: Any) -> tuple[tuple[float, int], Any]:
    """What makes a batch the largest (bytes a sample, bytes), and the shape of samples."""
    leaves = [leaf for leaf in slicing.leaves(batch) if _length(leaf)]
    nbytes = sum(_nbytes(leaf) for leaf in leaves)
    each = max((_nbytes(leaf) / _length(leaf) for leaf in leaves), default=0.0)
    return (each, nbytes), tuple(tuple(leaf.shape[1:]) for leaf in leaves)


def _length(leaf: Any) -> int:
    shape = getattr(leaf, "shape", None)
    return int(shape[0] or 0) if shape is not None and len(shape) else 0


def _nbytes(leaf: Any) -> int:
    found = getattr(leaf, "nbytes", None)
    if found is not None:
        return int(found)
    values = getattr(leaf, "flat_values", getattr(leaf, "values", None))
    if values is not None:  # ragged or sparse
        return _nbytes(values)
    return _numbers(leaf) * int(getattr(leaf.dtype, "size", 1) or 1)


def _numbers(leaf: Any) -> int:
    found = 1
    for size in leaf.shape:
        found *= int(size or 1)
    return found


def _samples(batch: Any) -> tuple[int, bool]:
    """Its number of samples, and whether all in it is per sample."""
    lengths = {_length(leaf) for leaf in slicing.leaves(batch)}
    sparse = any(hasattr(leaf, "indices") for leaf in slicing.leaves(batch))
    first = _length(slicing.leaves(batch)[0])
    return max(first, 1), len(lengths) == 1 and 0 not in lengths and not sparse


def _settled_in_use() -> int:
    """Bytes in use, once nothing more is read ahead; 0: nobody counts."""
    most = last = backend.trials.in_use()
    if most is None or last is None:
        return 0
    began = still = time.monotonic()
    while time.monotonic() < min(still + STILL_SECONDS, began + STILL_AT_MOST_SECONDS):
        time.sleep(LOOK_SECONDS)
        now = backend.trials.in_use() or 0
        if now != last:
            still = time.monotonic()
        most, last = max(most, now), now
    return most
