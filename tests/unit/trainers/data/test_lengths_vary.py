"""Whether some samples of the training data may be longer than others."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator

from trainers.data import source_factory

ROWS = tf.data.Dataset.from_tensor_slices(np.zeros((12, 4), np.float32))
TEXTS = tf.data.Dataset.from_generator(
    lambda: iter([np.zeros(3), np.zeros(5)]), output_signature=tf.TensorSpec([None])
)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(ROWS.batch(5), False, id="a last batch that is short"),
        pytest.param(TEXTS.padded_batch(2), True, id="padded to the longest"),
        pytest.param(TEXTS.ragged_batch(2), True, id="ragged"),
    ],
)
def test_samples_are_longer_than_others(data: Any, *, expected: bool) -> None:
    """By the shapes that the pipeline tells; how many samples a batch has is no matter."""
    keras_own = TFEpochIterator(
        x=data, distribute_strategy=tf.distribute.get_strategy()
    )
    iterator = SimpleNamespace(
        data_adapter=keras_own.data_adapter,
        pipeline=keras_own.data_adapter.get_tf_dataset(),
        strategy=None,
    )
    source = source_factory.source_of(iterator, seed=1, fit=0)
    assert source.lengths_vary is expected
