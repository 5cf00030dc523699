"""A cache on disk in a pipeline: where it belongs, and that elements stay what they are."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.unit.trainers.backends.tensorflow.data.test_input_changes import (
    in_python,
    numbers,
)
from trainers.backends.tensorflow.data import pipeline_cache
from trainers.backends.tensorflow.data.pipeline_cache import NoCacheError

data = tf.data.Dataset
N = 24
STEPS = 3
END, DRAWS = "at the end of the pipeline", "before the function that draws, changes something or calls Python"  # fmt: skip


def doubled(i: Any) -> Any:
    """A function that gives the same each time."""
    return i * 2


def drawn(i: Any) -> Any:
    """Another number each time."""
    return i + tf.random.uniform([], 0, 9, tf.int64)


def counted(variable: Any) -> Any:
    """A function that reads a variable of the script's."""
    return lambda i: i + variable


@pytest.mark.parametrize(
    ("dataset", "place"),
    [
        (data.range(N).map(doubled).batch(4), END),
        (data.range(N).map(doubled).batch(4).prefetch(2), "before prefetch"),
        (data.range(N).map(doubled).shuffle(8).batch(4), "before shuffle"),
        (data.range(N).map(doubled).prefetch(2).shuffle(8), "before prefetch"),
        (data.range(N).map(doubled).repeat(2).batch(4), "before repeat"),
        (data.range(N).map(doubled).map(drawn).batch(4), DRAWS),
        (data.range(N).map(doubled).map(in_python), DRAWS),
        (data.range(N).map(doubled).map(counted(tf.Variable(1, dtype=tf.int64))), DRAWS),
        (data.zip(data.range(N).map(doubled), data.range(N)).batch(4), END),
        (data.range(4).interleave(lambda i: data.range(i).map(doubled)), END),
        (tf.data.TextLineDataset(["a"]).shuffle(2), "before shuffle"),
        (data.range(N).batch(4), ""),
        (data.range(N).shuffle(8).map(doubled), ""),
        (data.range(N).map(in_python).batch(4), ""),
        (data.zip(data.range(N).map(doubled), data.range(N).shuffle(8)), ""),
        (data.range(4).interleave(lambda i: data.range(i).map(drawn)), ""),
        (data.range(N).map(doubled).cache().shuffle(8), ""),
        (data.range(N).cache().map(doubled).shuffle(8), ""),
        (data.counter().map(doubled), ""),
        (data.from_generator(lambda: iter(range(4)), tf.int32).map(doubled), ""),
        (data.random(1).take(4).map(doubled), ""),
    ],
)  # fmt: skip
def test_above_all_that_is_the_same_in_each_pass(dataset: Any, place: str) -> None:
    """And below what is not, where nobody would gain the same again."""
    assert pipeline_cache.place_of(dataset) == place


@pytest.mark.parametrize(
    "dataset",
    [
        data.range(N).map(doubled).batch(4).prefetch(2),
        data.range(N).map(doubled).shuffle(8, seed=3).batch(4).repeat(),
        data.range(N).map(lambda i: {"x": i * 2, "y": (i, i)}).shuffle(N, seed=3).batch(5),
        data.range(N).map(doubled).shuffle(N, seed=3).batch(4).skip(2).batch(2),
        data.range(N).map(doubled).shuffle(4, seed=3).filter(lambda i: i > 30).batch(2),
        data.range(2).flat_map(lambda i: data.range(12).map(lambda k: k + i)).batch(4),
        data.from_tensor_slices((np.eye(N), np.arange(N))).map(lambda x, y: (x + 1, y)).batch(4),
    ],
)  # fmt: skip
def test_steps_get_the_same_elements_from_the_file(
    dataset: Any, tmp_path: Path
) -> None:
    """In the same order, whatever the elements are made of."""
    changed, _ = pipeline_cache.with_cache(dataset, tmp_path, steps=STEPS)
    assert changed.element_spec == dataset.element_spec
    found, plain = list(changed.take(STEPS)), list(dataset.take(STEPS))
    assert len(found) == len(plain)
    for one, other in zip(found, plain, strict=True):
        flat = zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True)
        assert all(np.array_equal(*each) for each in flat)


def test_functions_are_called_no_more(tmp_path: Path) -> None:
    """And before only for what the steps are made of."""
    calls: list[int] = []

    def slow(i: Any) -> Any:
        calls.append(int(i))
        return i

    def read(i: Any) -> Any:
        return tf.numpy_function(slow, [i], tf.int64, stateful=False)

    dataset = data.range(1000).map(read).shuffle(10, seed=1).batch(4)
    changed, size = pipeline_cache.with_cache(dataset, tmp_path, steps=STEPS)
    made = len(calls)
    assert 10 + 4 * STEPS <= made < 100
    assert len(numbers(changed.take(STEPS))) == STEPS
    assert len(calls) == made
    written = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size is not None
    assert size > written * 1000 / 100


def test_no_cache_without_a_place_or_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sentence says which it is, and no disk is filled for it."""
    with pytest.raises(NoCacheError, match="the same in each pass"):
        pipeline_cache.with_cache(data.range(N).batch(4), tmp_path, steps=STEPS)
    monkeypatch.setattr(pipeline_cache, "FREE_PART", 0.0)
    with pytest.raises(NoCacheError, match="room"):
        pipeline_cache.with_cache(data.range(N).map(doubled), tmp_path, steps=STEPS)
    assert not list(tmp_path.iterdir())


def test_of_how_many_elements_nobody_knows_all_are_kept(tmp_path: Path) -> None:
    """How large the file of all would be is not known before, then."""
    dataset = data.range(N).filter(lambda i: i % 2 == 0).map(doubled).shuffle(4, seed=1)
    changed, size = pipeline_cache.with_cache(dataset, tmp_path, steps=STEPS)
    assert size is None
    assert len(numbers(changed.take(STEPS))) == STEPS
