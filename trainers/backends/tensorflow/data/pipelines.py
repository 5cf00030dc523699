"""``tf.data`` pipelines: made repeatable where they can be, told where they cannot.

Two things are changed while a script makes its pipelines, both so that no sample of an
epoch is repeated or skipped after a restart:

- a shuffle without any seed takes one from the job's own seed, the line of the script
  that makes it, and how often that line did. (It still shuffles anew in each epoch.)
- ``deterministic=False`` is taken as True: a stage that yields its elements in the
  order in which they happen to be ready cannot be taken up in the middle.
"""

import collections
import contextlib
import functools
import hashlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType
from typing import Any

import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat as compat
from trainers.backends.tensorflow.functions.operation_types import (
    CHANGING,
    PYTHON,
    RANDOM,
)

Pipeline = tf.data.Dataset

ORDERED = ("map", "interleave", "batch", "padded_batch", "ragged_batch")
"""Methods of a dataset that take ``deterministic``."""

UNSEEDED = (
    "a shuffle inside of a function of the tf.data pipeline has no seed: samples of an"
    " epoch may be repeated or skipped after a restart (set a seed to be exact)"
)
IN_PARALLEL = (
    "functions of the tf.data pipeline draw in parallel from TensorFlow's stateful"
    " random operations: what they draw differs from run to run; samples are neither"
    " repeated nor skipped (use tf.random.stateless_*, or enable_op_determinism)"
)
WITHOUT_SEED = (
    "a function of the tf.data pipeline draws from TensorFlow's stateful random"
    " operations without a seed: what they draw differs from run to run; samples are"
    " neither repeated nor skipped (use tf.random.stateless_*)"
)
CHANGES = (
    "a function of the tf.data pipeline changes a variable (a Keras random layer or seed"
    " generator, say): it runs ahead of training, so its state cannot be saved; samples"
    " are neither repeated nor skipped"
)
CALLS_PYTHON = (
    "the tf.data pipeline calls Python, whose state is not known: it is exact if that"
    " gives the same again when it is replayed"
)
IN_ORDER = (
    "deterministic=False of a tf.data stage is taken as True: its elements come in"
    " order, so that none is repeated or skipped after a restart"
)


def is_iterator(value: Any) -> bool:
    """Whether ``value`` is one over a pipeline, on one device or parted between several."""
    return isinstance(value, (tf.data.Iterator, tf.distribute.DistributedIterator))


def is_pipeline(value: Any) -> bool:
    """Whether ``value`` is one."""
    return isinstance(value, Pipeline)


def tensors_of(dataset: Any) -> list[Any]:
    """Those in memory that the elements of ``dataset`` come from: of ``from_tensors`` and
    ``from_tensor_slices``."""
    return [one for stage in compat.stages(dataset) for one in compat.tensors_of(stage)]


def is_infinite(dataset: Any) -> bool:
    """Whether ``dataset`` is known to have no end."""
    return int(dataset.cardinality()) == tf.data.INFINITE_CARDINALITY


def why_not_exact(dataset: Any) -> str | None:
    """Why bits cannot be promised for ``dataset``, in a sentence; None if they can."""
    nested: set[str] = set()
    for stage in compat.stages(dataset):
        found = compat.operations(stage)
        nested |= found
        if "Shuffle" in type(stage).__name__ and compat.seeds(stage) == (0, 0):
            return UNSEEDED
        parallel = compat.calls_in_parallel(stage)
        if found & RANDOM and parallel and not compat.is_op_determinism_enabled():
            return IN_PARALLEL
        if compat.draws_without_seed(stage):
            return WITHOUT_SEED
    if nested & CHANGING:
        return CHANGES
    unseeded = compat.is_eager_and_unseeded()
    if unseeded and any(op.startswith("Shuffle") for op in nested):
        return UNSEEDED
    return CALLS_PYTHON if nested & PYTHON else None


def why_not_begun_anew(dataset: Any) -> str | None:
    """Why ``dataset``, which was iterated in this process, does not yield the same again
    from its beginning, in half a sentence; None: it does."""
    if why_not_exact(dataset) is not None:
        return "the tf.data pipeline is not exact"
    for stage in compat.stages(dataset):
        if compat.seeds(stage) is not None or compat.is_mixed_anew(stage):
            return "the tf.data pipeline is shuffled, and goes on from where it is"
        if _is_cache(stage):
            return "the tf.data pipeline has a cache"
    return None


def a_batch(dataset: Any) -> Any | None:
    """The first batch; None where taking it would change the order of the data."""
    try:
        return next(iter(compat.copy(dataset)))
    except (tf.errors.OpError, ValueError, TypeError, KeyError, IndexError):
        shuffled = any(
            compat.seeds(stage) is not None for stage in compat.stages(dataset)
        )
        return None if shuffled else next(iter(dataset))


@dataclass(frozen=True, slots=True)
class _Times:
    """How often a stage is begun for an iterator of the whole pipeline.

    TensorFlow begins what lies below a shuffle only when the first element is asked
    for; what is made and never used does not get there.
    """

    unused: int
    """By an iterator that is made and not used."""
    used: int
    """By one that is drawn from to its end."""
    asked: int
    """How many of those are drawn from themselves."""

    def when_asked(self) -> "_Times":
        return _Times(0, self.asked, self.asked)

    def repeated(self, times: int, *, fused: bool) -> "_Times":
        # A repetition begins its input once more after the last time, and does not use
        # it. Fused with the shuffle below it does not; one time is no repetition.
        more = times - 1 if fused or times == 1 else times
        used = self.used + self.asked * more
        return _Times(self.unused, used, self.asked * times)


def endless_shuffles(dataset: Any) -> list[Any]:
    """The shuffles below a repetition without end: begun as often as is drawn."""
    found = [
        below
        for stage in compat.stages(dataset)
        if _is_repeat(stage) and compat.repetitions(stage) < 0
        for below in compat.stages(stage)
        if compat.is_mixed_anew(below)
    ]
    return list({id(one): one for one in found}.values())


def iterate(dataset: Any, strategy: Any | None, *, drawn: int = 0) -> Any:
    """An iterator over ``dataset`` after ``drawn`` steps, each parted under ``strategy``.

    Under one a step need not be a batch of ``dataset``: after a short batch in the middle
    of the data, parts are filled up from the next. So only drawing leads to a step.
    """
    parted = (
        dataset
        if strategy is None
        else strategy.experimental_distribute_dataset(dataset)
    )
    iterator = iter(parted)
    for _ in range(drawn):
        next(iterator)
    return iterator


def blank(element_spec: Any, strategy: Any | None) -> Any:
    """A dataset of one batch of zeros, a sample for each replica where any number may
    be."""
    samples = 1 if strategy is None else strategy.num_replicas_in_sync

    def zeros(one: Any) -> Any:
        sizes = [size or 1 for size in one.shape]
        if one.shape.rank and one.shape[0] is None:
            sizes[0] = samples
        return tf.zeros(sizes, one.dtype)

    return tf.data.Dataset.from_tensors(tf.nest.map_structure(zeros, element_spec))


def glance(dataset: Any) -> None:
    """Draw one batch, as Keras does on several devices before a ``fit`` begins; nothing
    where it is no pipeline."""
    if is_pipeline(dataset):
        next(iter(dataset.take(1)))


def replay(dataset: Any, *, made: int, used: int, drawn: int | None = None) -> None:
    """Put the shuffles of ``dataset`` where they are after it was iterated; nothing
    where it is no pipeline.

    ``made`` iterators were made, ``used`` of them drawn from: to their end, or
    ``drawn`` batches where there is none (None: not known, less than a pass is
    assumed). Costs nothing but making iterators: each shuffle draws its seeds when it is
    begun. Two things are read again: a cache of something shuffled, first and once, with
    what the first time brings, as it was then; and a shuffle that is repeated without
    end, as nobody knows how often it was begun.
    """
    if not is_pipeline(dataset):
        return
    endless = bool(endless_shuffles(dataset))
    whole = not is_infinite(dataset)
    if endless and (whole or drawn is not None):
        for _ in range(used):
            batches = itertools.islice(dataset, None if whole else drawn)
            collections.deque(batches, maxlen=0)
        for _ in range(made - used):
            iter(dataset)
        return
    if used > 0:
        for stage in compat.stages(dataset):
            if _is_cache(stage) and _is_shuffled(stage):
                stage.reduce(tf.constant(0, tf.int64), _count)
    for stage, begun in _shuffles(dataset, _Times(1, 1, 1), filled=used > 0):
        for _ in range(begun.unused * (made - used) + begun.used * used):
            iter(stage)


@contextlib.contextmanager
def counted(dataset: Any) -> Iterator[list[Any]]:
    """In here iterators over ``dataset``, or over what is made of it, are made: one
    entry each, of this thread. None where it is no pipeline."""
    made: list[Any] = []
    if not is_pipeline(dataset):
        yield made
        return
    kind, thread = compat.dataset_class(), threading.get_ident()
    original: Any = vars(kind)["__iter__"]

    def noted(self: Any) -> Any:
        if threading.get_ident() == thread and any(
            stage is dataset for stage in compat.stages(self)
        ):
            made.append(self)
        return original(self)

    vars(noted)["__cantrace__"] = False
    kind.__iter__ = noted  # type: ignore[attr-defined]
    try:
        yield made
    finally:
        kind.__iter__ = original  # type: ignore[attr-defined]


def shuffles_of(dataset: Any) -> frozenset[int]:
    """What tells those stages of ``dataset`` from others that yield something else each time
    they are begun: pipelines that are made of the same ones share where they are. Empty where
    it is no pipeline. As ``id``: it counts while the stages live."""
    if not is_pipeline(dataset):
        return frozenset()
    return frozenset(
        id(one)
        for one in compat.stages(dataset)
        if compat.is_mixed_anew(one) or compat.seeds(one) is not None
    )


def signature(dataset: Any) -> str:
    """What tells ``dataset`` from others of a script: its stages and their seeds."""
    stages = [(type(s).__name__, compat.seeds(s)) for s in compat.stages(dataset)]
    text = repr((stages, dataset.element_spec)).encode()
    return hashlib.blake2b(text, digest_size=16).hexdigest()


@tf.autograph.experimental.do_not_convert
def _count(count: Any, *_element: Any) -> Any:
    return count + 1


def _is_repeat(stage: Any) -> bool:
    return "repeat" in type(stage).__name__.lower()


def _is_cache(stage: Any) -> bool:
    return "cache" in type(stage).__name__.lower()


def _is_shuffled(stage: Any) -> bool:
    return any(compat.seeds(below) is not None for below in compat.stages(stage))


def _shuffles(
    stage: Any, begun: _Times, *, filled: bool
) -> Iterator[tuple[Any, _Times]]:
    kind = type(stage).__name__.lower()
    below = begun
    if _is_cache(stage) and filled:
        return
    if compat.is_mixed_anew(stage):
        yield stage, begun
        below = begun.when_asked()
    if _is_repeat(stage):
        times = max(1, compat.repetitions(stage))
        below = below.repeated(times, fused=compat.is_fused(stage))
    first, *others = compat.inputs(stage) or [None]
    if first is not None:
        yield from _shuffles(first, below, filled=filled)
    if "concatenate" in kind:
        below = below.when_asked()
    for other in others:
        yield from _shuffles(other, below, filled=filled)


def install(*, seed: int, notice: Callable[[str], None]) -> None:
    """From now on, pipelines that the script makes are repeatable."""
    _seed_shuffles(seed)
    once = functools.cache(notice)
    for name in ORDERED:
        _in_order(name, once)


def _seed_shuffles(job_seed: int) -> None:
    counts: collections.Counter[str] = collections.Counter()

    def get_seed(seed: Any) -> Any:
        if seed is None and compat.is_eager_and_unseeded():
            place = _place()
            counts[place] += 1
            seed = own_seed(job_seed, place=place, count=counts[place])
        return original(seed)

    original = compat.replace_get_seed(get_seed)


def own_seed(job_seed: int, *, place: str, count: int) -> int:
    """A seed (31 bits, not 0) for the ``count``-th dataset made at ``place``."""
    text = f"{job_seed} {place} {count}".encode()
    digest = hashlib.blake2b(text, digest_size=4).digest()
    return int.from_bytes(digest, "big") % (2**31 - 2) + 1


def _place() -> str:
    """Module and line of the code that makes a dataset, TensorFlow's own left out."""
    frame: FrameType | None = sys._getframe(2)  # as the standard library does
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] not in ("tensorflow", "trainers"):
            return f"{module}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _in_order(name: str, notice: Callable[[str], None]) -> None:
    owner = compat.dataset_class()
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def ordered(self: Any, *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("deterministic") is False:
            kwargs["deterministic"] = True
            notice(IN_ORDER)
        return original(self, *args, **kwargs)

    setattr(owner, name, ordered)


def in_order(dataset: Any) -> Any:
    """``dataset`` with its option ``deterministic`` taken back, if it was False."""
    if not is_pipeline(dataset) or dataset.options().deterministic is not False:
        return dataset
    options = tf.data.Options()
    options.deterministic = True
    return dataset.with_options(options)
