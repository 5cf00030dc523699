"""``tf.data`` where nobody has imported TensorFlow."""

import subprocess
import sys

import pytest

ASKED = """
import sys
from trainers.backends import tf_data

assert not tf_data.is_pipeline([1, 2])
tf_data.replay([1, 2], made=2, used=1)
assert tf_data.in_order([1, 2]) == [1, 2]
assert tf_data.eager_state() is None
assert tf_data.put_eager_state_back(None)
assert not tf_data.put_eager_state_back((3, (), None))
assert "tensorflow" not in sys.modules
"""
WITH_IT = """
import tensorflow as tf
from trainers.backends import tf_data

rows = tf.data.Dataset.range(7).batch(3)
assert tf_data.is_pipeline(rows) and not tf_data.is_pipeline([1, 2])
assert (tf_data.batch_of(rows), tf_data.samples_of(rows)) == (3, 7)
tf.random.set_seed(3)
tf.random.uniform([])
kept = tf_data.eager_state()
tf.random.uniform([])
assert tf_data.eager_state() != kept
assert tf_data.put_eager_state_back(kept)
assert tf_data.eager_state() == kept
"""


@pytest.mark.parametrize("script", [ASKED, WITH_IT])
def test_what_is_asked_is_answered(script: str) -> None:
    """Nothing imports TensorFlow for it; where it is there, it is asked."""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
