"""k slices against one in mixed_float16: the same updates, and sums as near the truth.

The gradient of a whole batch is a sum over samples that is rounded to float16 once; in
slices each part of it is. Measured (dense, convolution, layer normalisation; several
seeds): after an epoch, k = 4 slices differ from one by 1e-6 to 3e-5 in kernels and 2e-5
to 5e-4 in biases with SGD; with Adam, which magnifies gradients near zero, a
convolution's kernel differed by 4e-4 once, its bias by 1e-3. To round the sum of the
slices once more did not help: 2.6e-4 and 3.1e-4 instead of 2.7e-4 and 1.5e-4 for the
two biases here. Summed in float32 and rounded once, they were those of a whole batch.
"""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from tests.trainers.sliced_models import LABELS, X, differences, trained

HALF_A_UNIT = 2.0**-11
"""The most by which a value rounded to float16 is off, relative to it."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Every test makes functions of its own: TensorFlow's hint about that is noise."""
    tf.get_logger().setLevel("ERROR")
    yield
    keras.config.set_dtype_policy("float32")
    keras.backend.clear_session()


class WideSums(layers.Dense):
    """Dense in float16, but for the sums of its gradients over samples: float32."""

    def add_weight(self, *arguments: Any, **options: Any) -> Any:
        """A variable that comes uncast, so that its gradient need not be float16."""
        return super().add_weight(*arguments, **options, autocast=False)

    def call(self, inputs: Any, training: Any = None) -> Any:
        """The same numbers forward, and backward to the inputs, as those of Dense."""
        del training

        def affine(x: Any, kernel: Any, bias: Any) -> Any:
            half = tf.cast(kernel, x.dtype)

            def gradients(slope: Any) -> Any:
                wide = tf.cast(slope, tf.float32)
                by_kernel = tf.matmul(tf.cast(x, tf.float32), wide, transpose_a=True)
                by_x = tf.matmul(slope, half, transpose_b=True)
                return by_x, by_kernel, tf.reduce_sum(wide, 0)

            return tf.nn.bias_add(tf.matmul(x, half), tf.cast(bias, x.dtype)), gradients

        summed = tf.custom_gradient(affine)
        return self.activation(summed(inputs, self.kernel.value, self.bias.value))


def in_float16(layer: type[layers.Dense]) -> Any:
    """A small network whose loss scaler begins too high, and soon grows."""
    keras.config.set_dtype_policy("mixed_float16")
    inputs = keras.Input((12,))
    outputs = layer(5, activation="softmax")(layer(16, activation="relu")(inputs))
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.05), initial_scale=2.0**21, dynamic_growth_steps=3
    )
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


def whole_and_sliced(layer: type[layers.Dense]) -> tuple[Any, Any]:
    """Two models after an epoch, of which the scaler took the same steps."""
    whole, sliced = (
        trained(lambda: in_float16(layer), X, LABELS, sliced=cut)[0]
        for cut in (False, True)
    )
    updates = int(whole.optimizer.iterations)
    assert 0 < updates < 9, "the scaler should have skipped some, but not all"
    assert int(sliced.optimizer.iterations) == updates
    assert (
        sliced.optimizer.dynamic_scale.numpy() == whole.optimizer.dynamic_scale.numpy()
    )
    return whole, sliced


def biases(model: Any) -> Any:
    """All biases of the model, as one vector of float64."""
    found = [weight.numpy() for weight in model.weights if weight.name == "bias"]
    return np.concatenate(found).astype("f8")


def norms(models: tuple[Any, Any]) -> float:
    """Relative difference of all weights together."""
    one, other = (
        np.concatenate([weight.numpy().ravel() for weight in model.weights])
        for model in models
    )
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def test_mixed_float16_makes_the_same_updates() -> None:
    """The loss scaler skips the same steps, and weights differ by rounding only.

    A bias began at zero, so that all of it is sums that were rounded; in slices it is
    no further from what exact sums give than it is in whole batches.
    """
    whole, sliced = whole_and_sliced(layers.Dense)
    assert norms((whole, sliced)) <= 1e-5
    for variable, difference in zip(
        whole.weights, differences(whole, sliced), strict=False
    ):
        assert difference <= (HALF_A_UNIT if variable.name == "bias" else 1e-4)
    exact, _, _ = trained(lambda: in_float16(WideSums), X, LABELS, sliced=False)
    assert int(exact.optimizer.iterations) == int(whole.optimizer.iterations)
    far = [np.linalg.norm(biases(exact) - biases(one)) for one in (whole, sliced)]
    assert 0 < far[1] <= far[0]


def test_mixed_float16_with_sums_in_float32_agrees_as_float32_does() -> None:
    """Where layers sum gradients in float32, slices and batches agree in float16 too.

    So nothing but the rounding of those sums differs: neither shares nor scaling.
    """
    assert max(differences(*whole_and_sliced(WideSums))) <= 1e-5
