"""Which training data nothing reads or prepares: what a wait for them means depends on it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from trainers.data import source_factory

ROWS = np.zeros((12, 4), np.float32)


def mapped(directory: Path) -> Any:
    """Rows of a file, which are read as they are asked for."""
    np.save(directory / "rows.npy", ROWS)
    return np.load(directory / "rows.npy", mmap_mode="r")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(lambda _: ROWS, True, id="array"),
        pytest.param(lambda _: ROWS[2:], True, id="part of one"),
        pytest.param(mapped, False, id="mapped file"),
        pytest.param(
            lambda place: np.asarray(mapped(place))[1:], False, id="view of it"
        ),
        pytest.param(
            lambda _: tf.data.Dataset.from_tensor_slices(ROWS).batch(4),
            False,
            id="pipeline",
        ),
    ],
)
def test_arrays_are_in_memory_and_files_are_not(
    tmp_path: Path, data: Any, *, expected: bool
) -> None:
    """By what Keras' own epoch iterator draws from."""
    keras_own = TFEpochIterator(
        x=data(tmp_path), distribute_strategy=tf.distribute.get_strategy()
    )
    iterator = SimpleNamespace(
        data_adapter=keras_own.data_adapter,
        pipeline=keras_own.data_adapter.get_tf_dataset(),
        strategy=None,
    )
    assert source_factory.source_of(iterator, seed=1, fit=0).in_memory is expected
