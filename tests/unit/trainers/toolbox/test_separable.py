"""The depthwise-separable block: its shape, and what it saves."""

from typing import Any

import keras
import pytest

from trainers.toolbox.separable import separable_block, separable_share


@pytest.mark.parametrize(("strides", "side"), [(1, 16), (2, 8)])
def test_shape(strides: int, side: int) -> None:
    """That of the convolution in whose place it stands."""
    inputs = keras.Input((16, 16, 24))
    found = separable_block(inputs, 48, strides=strides)
    plain = keras.layers.Conv2D(48, 3, strides, padding="same")(inputs)
    assert found.shape == plain.shape == (None, side, side, 48)


def test_share_of_weights() -> None:
    """Of the kernels exactly what the formula says."""
    inputs = keras.Input((16, 16, 64))
    plain = keras.Model(inputs, keras.layers.Conv2D(128, 3, use_bias=False)(inputs))
    block = keras.Model(inputs, separable_block(inputs, 128))

    def kernels(model: Any) -> int:
        found = [w for w in model.trainable_weights if len(w.shape) == 4]
        return sum(w.shape[0] * w.shape[1] * w.shape[2] * w.shape[3] for w in found)

    share = kernels(block) / kernels(plain)
    assert share == pytest.approx(separable_share(kernel_size=3, filters=128))
    assert share == pytest.approx(0.119, abs=0.001)


def test_channels_stay_last() -> None:
    """Where the default of Keras is channels first, the normalisation would be of rows."""
    before = keras.config.image_data_format()
    keras.config.set_image_data_format("channels_first")
    try:
        inputs = keras.Input((16, 8, 24))
        found = separable_block(inputs, 48)
    finally:
        keras.config.set_image_data_format(before)
    assert found.shape == (None, 16, 8, 48)


@pytest.mark.parametrize(
    ("x", "filters", "why"),
    [
        (keras.KerasTensor((None, 8, 8, 3)), 0, "filters is 0: give a whole number"),
        (keras.KerasTensor((None, 8, 8, 3)), None, "filters is None: give a whole"),
        (
            keras.KerasTensor((None, 8, 8, 3)),
            2.5,
            "filters is 2.5: give a whole number",
        ),
        (keras.KerasTensor((None, 8, 3)), 4, r"of shape \(None, 8, 3\): give images"),
        (keras.KerasTensor((None, 8, 8, None)), 4, "whose channels are known"),
        (None, 4, "x is NoneType: give images"),
        ("model.keras", 4, "x is str: give images"),
    ],
)
def test_no_images(x: Any, filters: Any, why: str) -> None:
    """A sentence with what to give."""
    with pytest.raises(ValueError, match=why):
        separable_block(x, filters)
