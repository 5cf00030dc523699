"""Random numbers of a slice: those that the whole batch would have drawn for its samples.

Keras draws by generators that keep no state of their own: number ``i`` of a draw follows
from a key and a counter, and the counter moves on by one for each group of numbers
(Philox, 4 numbers of 32 bits or 2 of 64: Salmon et al., "Parallel Random Numbers: As Easy
as 1, 2, 3", 2011; TensorFlow's ``random_distributions.h``). So a slice begins where the
numbers of its first sample stand, from the seed that the whole batch would have used.
That holds for uniform numbers everywhere and for normal ones without XLA, which pairs them
otherwise; the rest (truncated, categorical) are not counted. ``follow`` tries it.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import gen_stateless_random_ops_v2 as drawing
from tensorflow.python.ops import random_ops_util

from trainers.backends import keras_losses, slicing
from trainers.backends.slices import slice_loss

DRAWS = ("stateless_random_uniform_v2", "stateless_random_normal_v2")
"""What is counted."""

_here = threading.local()


class _NotedDraws:
    """The draws that are made, and for which samples (``start`` and how many); None: for
    a whole batch."""

    def __init__(self, samples: tuple[Any, Any] | None) -> None:
        self.samples = samples
        self.draws: list[tuple[str, Any, tuple[int | None, ...]]] = []
        """Which, their type, and their shape as far as it is known."""


@contextlib.contextmanager
def _noted(samples: tuple[Any, Any] | None) -> Iterator[_NotedDraws]:
    _install()
    before = getattr(_here, "noted", None)
    _here.noted = _NotedDraws(samples)
    try:
        yield _here.noted
    finally:
        _here.noted = before


@contextlib.contextmanager
def of_samples(start: Any, size: Any) -> Iterator[None]:
    """Draws in here are for ``size`` samples of a batch from the sample ``start`` on."""
    with _noted((start, size)):
        yield


@functools.cache
def _install() -> None:
    """For good: outside of ``of_samples``, and in other threads, nothing is another."""
    for name in DRAWS:
        setattr(drawing, name, _counted(name, getattr(drawing, name)))


def _counted(which: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def drawn(  # noqa: PLR0917  # as theirs
        shape: Any,
        key: Any,
        counter: Any,
        alg: Any,
        dtype: Any = tf.float32,
        name: Any = None,
    ) -> Any:
        draw = functools.partial(original, key=key, alg=alg, dtype=dtype, name=name)
        noted: _NotedDraws | None = getattr(_here, "noted", None)
        if noted is None:
            return draw(shape, counter=counter)
        known = tf.get_static_value(tf.convert_to_tensor(shape))
        noted.draws.append((which, dtype, () if known is None else tuple(known)))
        if noted.samples is None:
            return draw(shape, counter=counter)
        start, size = noted.samples
        shape = tf.cast(shape, tf.int32)
        begin = start * (tf.reduce_prod(shape) // size)
        return _part(draw, shape, counter, begin=begin, dtype=tf.as_dtype(dtype))

    return drawn


def _part(
    draw: Callable[..., Any], shape: Any, counter: Any, *, begin: Any, dtype: Any
) -> Any:
    """The numbers from ``begin`` on, as many as ``shape`` holds."""
    group = 2 if dtype.size == 8 else 4
    numbers = tf.reduce_prod(shape)
    steps = tf.cast(begin // group, tf.uint64)
    low = counter[0] + steps
    moved = tf.stack([low, counter[1] + tf.cast(low < steps, tf.uint64)])
    flat = draw(tf.reshape(numbers + group - 1, [1]), counter=moved)
    return tf.reshape(tf.slice(flat, [begin % group], [numbers]), shape)


def seeds(model: Any) -> list[Any]:
    """The states of the generators that the layers of ``model`` draw seeds from."""
    return [
        state
        for layer in keras_losses.all_layers(model)
        for state in keras_losses.seed_states(layer)
    ]


def rewind(states: Sequence[Any], before: Sequence[Any]) -> None:
    """Let the next draws be of the seeds that were to come at ``before``."""
    for state, value in zip(states, before, strict=True):
        state.assign(value)


def follow(
    model: Any, few: Any, spans: Sequence[tuple[int, int]]
) -> list[tuple[Any, Any]] | None:
    """Predictions and added losses of slices of ``few``, drawn as for the whole batch;
    None: some draw is not one that can be cut, as far as these samples show.

    To be called where the model's state is what it was before the whole batch.
    """
    states = seeds(model)
    before = [state.numpy() for state in states]
    with _noted(None) as whole:
        slice_loss.predict(model, few)
    samples = spans[-1][1]
    found = []
    for start, stop in spans:
        rewind(states, before)
        size = stop - start
        with _noted((tf.constant(start), tf.constant(size))) as part:
            predictions = slice_loss.predict(model, slicing.cut(few, start, stop))
        found.append((predictions, keras_losses.added_losses(model)))
        if not _alike(whole, part, samples=samples, size=size):
            return None
    compiled = bool(model.jit_compile) and not model.run_eagerly
    if compiled and not all(
        _same_compiled(name, dtype) for name, dtype, _ in whole.draws
    ):
        return None
    return found


def _alike(whole: _NotedDraws, part: _NotedDraws, *, samples: int, size: int) -> bool:
    """Whether each draw of the whole is one of as many numbers for each sample."""
    if len(whole.draws) != len(part.draws) or not whole.draws:
        return False
    return all(
        (one[0], one[1]) == (two[0], two[1]) and _scales(one[2], two[2], samples, size)
        for one, two in zip(whole.draws, part.draws, strict=True)
    )


def _scales(
    whole: tuple[int | None, ...], part: tuple[int | None, ...], samples: int, size: int
) -> bool:
    if not whole or not part or whole[1:] != part[1:]:
        return False
    each, odd = divmod(whole[0] or 0, samples)
    return odd == 0 and each > 0 and part[0] == each * size


@functools.cache
def _same_compiled(name: str, dtype: Any) -> bool:
    """Whether XLA, too, draws in such groups on this device."""
    original = getattr(drawing, name)

    def drawn(seed: Any, begin: Any) -> tuple[Any, Any]:
        key, counter, alg = random_ops_util.get_key_counter_alg(seed, "auto_select")
        draw = functools.partial(original, key=key, alg=alg, dtype=dtype)
        shape = tf.constant([4, 7])
        part = _part(draw, shape, counter, begin=begin * 7, dtype=tf.as_dtype(dtype))
        return draw([13, 7], counter=counter), part

    compiled = tf.function(drawn, jit_compile=True, autograph=False)
    for begin in (0, 3, 9):
        whole, part = compiled(tf.constant([3, 9]), tf.constant(begin))
        whole, part = (tf.cast(one, tf.float64).numpy() for one in (whole, part))
        if not np.array_equal(whole[begin : begin + 4], part):
            return False
    return True
