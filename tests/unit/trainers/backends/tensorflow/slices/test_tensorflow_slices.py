"""The check before training: in whole float32, as which algorithms round may depend on the
size of a batch."""

import tensorflow as tf

from trainers.backends.tensorflow.slices import tensorflow_slices


def test_products_are_not_rounded_during_the_check() -> None:
    """And afterwards as the script had it."""
    asked = tf.config.experimental.tensor_float_32_execution_enabled
    for wanted in (True, False):
        tf.config.experimental.enable_tensor_float_32_execution(wanted)
        with tensorflow_slices.kept(None):
            assert not asked()
        assert asked() is wanted
    tf.config.experimental.enable_tensor_float_32_execution(enabled=True)
