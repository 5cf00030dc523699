"""Samples in a batch and in a pass, known before the step that may run out of memory."""

import weakref
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainers.backends.tensorflow.data import batch_sizes

data = tf.data.Dataset
NUMBERS = data.range(20)


def generated() -> Any:
    """Batches from Python."""
    return data.from_generator(
        lambda: (np.zeros((7, 2), "float32") for _ in range(3)),
        output_signature=tf.TensorSpec([None, 2]),
    )


@pytest.mark.parametrize(
    ("dataset", "batch"),
    [
        (NUMBERS.batch(8), 8),
        (NUMBERS.batch(8, drop_remainder=True), 8),
        (NUMBERS.shuffle(9).batch(8).prefetch(2), 8),
        (data.zip((NUMBERS.batch(8), NUMBERS.batch(8))).repeat(), 8),
        (NUMBERS.padded_batch(8).cache(), 8),
        (NUMBERS.ragged_batch(8), 8),
        (NUMBERS.batch(8).unbatch().batch(3), 3),
        (NUMBERS.batch(8).map(lambda x: x[:3]), None),
        (generated(), None),
        (NUMBERS, None),
    ],
)
def test_the_stages_say_how_large_a_batch_is(dataset: Any, batch: int | None) -> None:
    """Not where a function may have changed it, or Python makes it."""
    assert batch_sizes.batch_of(dataset) == batch


@pytest.mark.parametrize(
    ("dataset", "samples"),
    [
        (NUMBERS.shuffle(5).batch(8).prefetch(2), 20),
        (NUMBERS.batch(8).map(lambda x: x + 1), 20),
        (NUMBERS.batch(8).repeat(2), None),
        (NUMBERS.batch(8).take(1), None),
        (NUMBERS.filter(lambda x: x > 3).batch(8), None),
        (generated(), None),
    ],
)
def test_the_samples_of_a_pass(dataset: Any, samples: int | None) -> None:
    """Known where the pass is all that the batches are made of, once."""
    assert batch_sizes.samples_of(dataset) == samples


class Listener:
    """Hears of sizes."""

    def __init__(self) -> None:
        self.heard: list[int] = []

    def hear(self, size: int) -> None:
        """One of them."""
        self.heard.append(size)


def pairs() -> Any:
    """Batches of two tensors, changed by a function."""
    both = data.zip((NUMBERS, NUMBERS))
    return both.shuffle(20, seed=3).batch(8).map(lambda x, y: (x + y, y))


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (pairs, [8, 8, 4]),
        (generated, [7, 7, 7]),
        (lambda: pairs().map(lambda x, _: {"a": x}), [8, 8, 4]),
        (lambda: pairs().map(lambda x, _: (x,)), [8, 8, 4]),
        (lambda: NUMBERS, []),
    ],
)
def test_a_batch_tells_its_size_as_it_is_drawn(make: Any, sizes: list[int]) -> None:
    """The batches, their structure and their order stay what they were."""
    listener = Listener()
    telling = batch_sizes.telling(make(), listener.hear)
    assert telling.element_spec == make().element_spec
    assert listener.heard == []
    for one, two in zip(telling, make(), strict=True):
        assert batch_sizes.size_of(one) == batch_sizes.size_of(two)
        tf.nest.map_structure(np.testing.assert_array_equal, one, two)
    assert listener.heard == sizes


def test_who_is_told_is_not_kept_alive() -> None:
    """TensorFlow keeps the function that tells for the life of the process; where nobody
    listens any more the batches still come."""
    listener = Listener()
    telling, gone = batch_sizes.telling(pairs(), listener.hear), weakref.ref(listener)
    del listener
    assert gone() is None
    assert len(list(telling)) == 3
