"""A depthwise-separable convolution block, in place of a convolution.

When: convolutions of many filters hold most parameters, or most of a step's time: a 3 by 3
convolution costs eight to nine times as many multiplications (Howard et al. 2017). It is another model: train
it from the start, and compare what it learns.

Traps: it saves weights, gradients and optimizer state, but not activations, which are
most of what a step needs where images are large. Between its two convolutions it keeps one
more image than the convolution did, so the peak may rise.
The first layer, of three channels, gains next to nothing, as it has few weights.
"""

from numbers import Integral
from typing import Any

import keras

LAST = "channels_last"


def separable_block(
    x: Any,
    filters: int,
    *,
    kernel_size: int = 3,
    strides: int = 1,
    activation: str = "relu",
) -> Any:
    """``x`` (batch, height, width, channels) filtered channel by channel, then mixed to
    ``filters`` channels by 1 by 1, each normalised and activated: the block of MobileNet
    (Howard et al. 2017, "MobileNets", figure 3). Returns (batch, height / strides, width /
    strides, filters), rounded up; channels last, whatever the default of Keras is.

    In place of a convolution with ``padding="same"``; the normalisation makes a bias of no
    use. For dilation, ``padding="valid"`` or one without normalisation take
    ``keras.layers.SeparableConv2D``. Raises ValueError where ``x`` is no batch of images, or
    ``filters`` no number from 1.
    """
    _check(x, filters)
    x = keras.layers.DepthwiseConv2D(
        kernel_size, strides, padding="same", use_bias=False, data_format=LAST
    )(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Activation(activation)(x)
    x = keras.layers.Conv2D(filters, 1, use_bias=False, data_format=LAST)(x)
    x = keras.layers.BatchNormalization()(x)
    return keras.layers.Activation(activation)(x)


def _check(x: Any, filters: Any) -> None:
    shape = getattr(x, "shape", None)
    if shape is None or len(shape) != 4 or shape[-1] is None:
        found = type(x).__name__ if shape is None else f"of shape {tuple(shape)}"
        message = (
            f"x is {found}: give images, a tensor of (batch, height, width, channels)"
            " whose channels are known"
        )
        raise ValueError(message)
    if not isinstance(filters, Integral) or filters < 1:
        message = f"filters is {filters!r}: give a whole number, 1 or more"
        raise ValueError(message)


def separable_share(*, kernel_size: int, filters: int) -> float:
    """Its multiplications, and nearly its weights, as a part of the convolution's:
    1 / filters + 1 / kernel_size² (Howard et al. 2017, section 3.1)."""
    return 1 / filters + 1 / kernel_size**2
