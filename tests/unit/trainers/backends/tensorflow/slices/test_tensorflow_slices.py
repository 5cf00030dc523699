"""The check before training: in whole float32, as which algorithms round may depend on the
size of a batch."""

import pytest
import tensorflow as tf

from trainers.backends.tensorflow.slices import tensorflow_slices


def one_gpu(_kind: str) -> list[tf.config.LogicalDevice]:
    """What TensorFlow lists where there is one."""
    return [tf.config.LogicalDevice("/device:GPU:0", "GPU")]


def test_products_are_not_rounded_during_the_check(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a GPU; and afterwards as the script had it."""
    monkeypatch.setattr(tf.config, "list_logical_devices", one_gpu)
    asked = tf.config.experimental.tensor_float_32_execution_enabled
    for wanted in (True, False):
        tf.config.experimental.enable_tensor_float_32_execution(wanted)
        with tensorflow_slices.kept(None):
            assert not asked()
        assert asked() is wanted
    tf.config.experimental.enable_tensor_float_32_execution(enabled=True)


def test_looking_at_slices_changes_no_setting_of_a_cpu() -> None:
    """What XLA compiles under one setting is not kept for another: nothing was, where a
    batch was worked through in slices."""
    rounds = tf.config.experimental.tensor_float_32_execution_enabled
    before = rounds()
    with tensorflow_slices.kept(None):
        assert rounds() == before
    assert rounds() == before
