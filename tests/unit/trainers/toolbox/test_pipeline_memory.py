"""What the stages of a pipeline hold."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainers.toolbox.pipeline_memory import StageMemory, pipeline_memory

ROOT = Path(__file__).parents[4]
MIB = 2**20
IMAGE = 64 * 64 * 3 * 4
STRING = 24
"""Bytes of a short one in TensorFlow."""


def _by_stage(dataset: tf.data.Dataset) -> dict[str, StageMemory]:
    return {one.stage: one for one in pipeline_memory(dataset)}


def test_images_in_memory() -> None:
    """Each stage by its elements; what there is bounds a shuffle."""
    x = np.zeros((100, 64, 64, 3), "float32")
    data = tf.data.Dataset.from_tensor_slices(x)
    data = data.cache().shuffle(1000).batch(32).prefetch(tf.data.AUTOTUNE).repeat()
    found = _by_stage(data)
    assert list(found) == ["TensorSlice", "Cache", "Shuffle", "Batch", "Prefetch"]
    assert found["TensorSlice"].nbytes == 100 * IMAGE
    assert found["TensorSlice"].with_data
    assert found["Cache"].nbytes == 100 * IMAGE
    assert found["Cache"].with_data
    assert found["Shuffle"].elements == 100
    assert not found["Shuffle"].with_data
    assert found["Batch"].nbytes == 32 * IMAGE
    assert found["Prefetch"].nbytes is None
    assert found["Prefetch"].element_bytes == 32 * IMAGE


def test_names_cost_nothing() -> None:
    """A shuffle of names, of images only while a batch is made."""
    names = [f"image-{number:05}.npy" for number in range(1000)]
    data = tf.data.Dataset.from_tensor_slices(names).shuffle(1000)
    data = data.map(lambda _name: tf.zeros((64, 64, 3)), num_parallel_calls=4)
    found = _by_stage(data.batch(8).prefetch(2))
    assert found["Shuffle"].nbytes == 1000 * STRING
    assert found["ParallelMap"].nbytes == 4 * IMAGE
    assert found["Prefetch"].nbytes == 2 * 8 * IMAGE


def test_order_of_shuffle_and_batch() -> None:
    """After the batch, a shuffle holds batches."""
    data = tf.data.Dataset.range(10_000).map(lambda _: tf.zeros((64, 64, 3)))
    before = _by_stage(data.shuffle(100).batch(32))["Shuffle"]
    after = _by_stage(data.batch(32).shuffle(100))["Shuffle"]
    assert before.nbytes == 100 * IMAGE
    assert after.nbytes == 100 * 32 * IMAGE


def test_open_shapes_and_a_file(tmp_path: Path) -> None:
    """Elements are read where shapes are open; a cache in a file holds nothing; of a
    generator nobody knows how many there are."""

    def texts() -> Iterator[np.ndarray]:
        for number in range(10):
            yield np.zeros(100 + number, "float32")

    spec = tf.TensorSpec([None], tf.float32)
    data = tf.data.Dataset.from_generator(texts, output_signature=spec)
    found = _by_stage(data.cache(str(tmp_path / "cache")).shuffle(4).padded_batch(2))
    assert list(found) == ["Shuffle", "PaddedBatch"]
    assert 400 <= found["Shuffle"].element_bytes <= 412
    assert _by_stage(data.cache())["Cache"].nbytes is None


def test_parallel_calls_that_tensorflow_decides() -> None:
    """AUTOTUNE: how many is not known."""
    data = tf.data.Dataset.range(9).map(lambda x: x, num_parallel_calls=-1)
    (found,) = pipeline_memory(data)
    assert (found.stage, found.elements, found.element_bytes) == (
        "ParallelMap",
        None,
        8,
    )


def test_batches_at_once() -> None:
    """As many as are made in parallel."""
    data = tf.data.Dataset.from_tensors(tf.zeros(4)).repeat(100)
    found = _by_stage(data.batch(10, num_parallel_calls=4))
    assert found["ParallelBatch"].nbytes == 4 * 10 * 4 * 4


def test_windows_and_interleaved() -> None:
    """How much they keep is not known, and not nothing."""
    data = tf.data.Dataset.range(20)
    grouped = data.group_by_window(
        lambda n: n % 2, lambda _, w: w.batch(5), window_size=5
    )
    mixed = data.interleave(tf.data.Dataset.from_tensors, 4, num_parallel_calls=4)
    for one, stage in ((grouped, "GroupByWindow"), (mixed, "ParallelInterleave")):
        assert _by_stage(one)[stage].nbytes is None
    assert _by_stage(data.window(5))["Window"].nbytes is None


def test_ragged_and_sparse_sources() -> None:
    """Their tensors cannot be read, and their elements can."""
    for source in (tf.ragged.constant([[1], [2, 3]] * 8), tf.sparse.eye(16)):
        (found,) = pipeline_memory(tf.data.Dataset.from_tensor_slices(source))
        assert found.with_data
        assert found.elements == 16
        assert found.element_bytes > 0


def test_long_strings() -> None:
    """Beside their characters each has a head of its own."""
    data = tf.data.Dataset.from_tensor_slices(["x" * 22, "x" * 100])
    (found,) = pipeline_memory(data)
    assert found.nbytes == STRING + (STRING + 101)


@pytest.mark.parametrize("given", [np.zeros(3), None, "data.csv", [1], iter([1])])
def test_no_dataset(given: Any) -> None:
    """An empty answer would read as: nothing is held."""
    with pytest.raises(TypeError, match=r"give a tf\.data\.Dataset"):
        pipeline_memory(given)


FILLED = """
import psutil, tensorflow as tf
from trainers.toolbox.pipeline_memory import pipeline_memory
data = tf.data.Dataset.range(300).map(lambda n: tf.fill((2**17,), n)).shuffle(200)
(shuffle,) = pipeline_memory(data)
before = psutil.Process().memory_info().rss
iterator = iter(data)
next(iterator)
print(shuffle.nbytes, psutil.Process().memory_info().rss - before)
"""


def test_a_real_shuffle_holds_what_was_said() -> None:
    """Main memory with an empty and with a full buffer, of a process of its own: in this one
    it could be memory that an earlier test gave back."""
    done = subprocess.run(
        [sys.executable, "-c", FILLED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    said, grown = map(int, done.stdout.split())
    assert said == 200 * MIB
    assert 0.8 < grown / said < 1.3
