"""A depthwise-separable convolution block, in place of a convolution.

When: convolutions of many filters hold most parameters, or most of a step's time: a 3 by 3
convolution costs eight to nine times as many multiplications (Howard et al. 2017). It is another model: train
it from the start, and compare what it learns.

Traps: it saves weights, gradients and optimizer state, but not activations, which are
most of what a step needs where images are large. Between its two convolutions it keeps one
more image than the convolution did, so the peak may rise.
The first layer, of three channels, gains nothing.
"""

from typing import Any

import keras


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
    strides, filters)."""
    x = keras.layers.DepthwiseConv2D(
        kernel_size, strides, padding="same", use_bias=False
    )(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Activation(activation)(x)
    x = keras.layers.Conv2D(filters, 1, use_bias=False)(x)
    x = keras.layers.BatchNormalization()(x)
    return keras.layers.Activation(activation)(x)


def separable_share(*, kernel_size: int, filters: int) -> float:
    """Its multiplications, and nearly its weights, as a part of the convolution's:
    1 / filters + 1 / kernel_size² (Howard et al. 2017, section 3.1)."""
    return 1 / filters + 1 / kernel_size**2
