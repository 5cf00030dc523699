"""Gradients in slices are those of the whole batch, in less memory."""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainers.toolbox.accumulation import gradients_in_slices

SAMPLES = 10
KINDS = ("eager", "graph", "xla", "open shape")


def _wrapped(step: Callable[..., Any], kind: str) -> Any:
    if kind == "eager":
        return step
    if kind == "open shape":
        spec = [tf.TensorSpec((None, 8)), tf.TensorSpec((None,), tf.int32)]
        return tf.function(step, input_signature=spec)
    return tf.function(step, jit_compile=kind == "xla")


class SmallLoss(NamedTuple):
    """The mean loss of a small model, and its variables."""

    of: Callable[..., Any]
    variables: list[Any]
    """The last is of no use."""


@pytest.fixture
def small() -> SmallLoss:
    """Of a small model that has a weight of no use, as well."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(16, "relu"), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def of(x: Any, y: Any) -> Any:
        return loss(y, model(x, training=True))

    return SmallLoss(of, [*model.trainable_variables, tf.Variable([1.0, 2.0])])


@pytest.mark.parametrize(
    ("kind", "slices"),
    [
        *((kind, 4) for kind in KINDS),
        ("eager", 1),
        ("eager", 12),
        *(
            pytest.param(kind, slices, marks=pytest.mark.slow)
            for kind in KINDS[1:]
            for slices in (1, 12)
        ),
    ],
)
def test_same_as_the_whole(small: SmallLoss, kind: str, slices: int) -> None:
    """With a last slice that is shorter, and with more slices than samples."""
    loss_of, variables = small
    x = tf.random.stateless_normal((SAMPLES, 8), [1, 2])
    y = tf.constant([0, 1, 2, 2, 2, 1, 0, 0, 1, 2])
    with tf.GradientTape() as tape:
        loss = loss_of(x, y)
    expected = tape.gradient(loss, [one.value for one in variables[:-1]])

    def step(x: Any, y: Any) -> Any:
        return gradients_in_slices(loss_of, variables, (x, y), slices=slices)

    found_loss, found = _wrapped(step, kind)(x, y)
    np.testing.assert_allclose(found_loss, loss, rtol=1e-5)
    for one, other in zip(found, expected, strict=False):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_array_equal(found[-1], [0.0, 0.0])
    assert len(found) == len(variables)


def test_mean_of_means_would_be_wrong() -> None:
    """Slices count by their samples: of three and one, not alike."""
    weight = tf.Variable(0.0)
    x = tf.constant([1.0, 1.0, 1.0, 9.0])

    def loss_of(x: Any) -> Any:
        return tf.reduce_mean(x * weight)

    _, (gradient,) = gradients_in_slices(loss_of, [weight], [x], slices=2)
    assert float(gradient) == 3.0
    _, (gradient,) = gradients_in_slices(loss_of, [weight], [x[:3]], slices=2)
    assert float(gradient) == 1.0


def test_embeddings_get_dense_gradients() -> None:
    """Rows that a slice does not ask for get nothing."""
    table = tf.Variable(tf.ones((5, 2)))
    _, (gradient,) = gradients_in_slices(
        lambda ids: tf.reduce_mean(tf.gather(table, ids)),
        [table],
        [tf.constant([0, 0, 3])],
        slices=2,
    )
    expected = np.zeros((5, 2))
    expected[0], expected[3] = 1 / 3, 1 / 6
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


@pytest.mark.parametrize("slices", [0, -1, None, 2.5, "2"])
def test_no_number_of_slices(small: SmallLoss, slices: Any) -> None:
    """A number from 1 is asked for."""
    with pytest.raises(ValueError, match="give a whole number, 1 or more"):
        gradients_in_slices(small.of, small.variables, [[[1.0]]], slices=slices)


X, Y = tf.ones((4, 8)), tf.zeros(4, tf.int32)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ({"x": X}, "batch is a dict: give a tuple"),
        (X, "batch is a EagerTensor: give a tuple"),
        ("model.keras", "batch is a str: give a tuple"),
        (tf.data.Dataset.from_tensors(X), "Dataset: give a tuple"),
        (None, "batch is a NoneType: give a tuple"),
        ((), "the batch has no tensor"),
        ((None,), "the batch has no tensor"),
        ((X, object()), "the batch has a object: give tensors or arrays"),
        ((X, tf.constant(1.0)), "a scalar, which has no samples"),
        ((X[:0], Y[:0]), "leave out an empty batch"),
        ((X, Y[:3]), "have 4, 3 samples: give all of them as many"),
        ((X[:3], Y), "have 3, 4 samples: give all of them as many"),
        ((tf.ragged.constant([[1], [2, 3]]),), "RaggedTensor, which is not cut"),
        ((tf.sparse.from_dense(X),), "SparseTensor, which is not cut"),
    ],
)
def test_no_batch(small: SmallLoss, batch: Any, why: str) -> None:
    """Each mistake in what is to be cut is said in a sentence."""
    with pytest.raises((TypeError, ValueError), match=why):
        gradients_in_slices(small.of, small.variables, batch, slices=2)


@pytest.mark.parametrize(
    ("variables", "why"),
    [
        ([], "build the model first"),
        (None, "variables is a NoneType: give a list"),
        (tf.Variable(tf.ones(2)), "Variable: give a list"),
    ],
)
def test_no_variables(small: SmallLoss, variables: Any, why: str) -> None:
    """A model that is not built would learn nothing, and say nothing."""
    with pytest.raises((TypeError, ValueError), match=why):
        gradients_in_slices(small.of, variables, (X, Y), slices=2)


def _of_each(x: Any, _y: Any) -> Any:
    return tf.reduce_sum(x, axis=1)


@pytest.mark.parametrize(
    ("loss_of", "why"),
    [
        ("mse", "loss_of is a str: give a function"),
        (lambda *_part: None, "loss_of returned None"),
        (lambda *_part: 3, r"returned int32 of shape \(\): let it return one number"),
        (_of_each, r"returned float32 of shape \(2,\): let it return one number"),
        (lambda *_part: tf.constant(3.0), "the loss depends on none of the variables"),
    ],
)
def test_no_loss(small: SmallLoss, loss_of: Any, why: str) -> None:
    """A loss of each sample is not added up to gradients of a sum, and one that does not
    depend on the model is no zeros."""
    with pytest.raises((TypeError, ValueError), match=why):
        gradients_in_slices(loss_of, small.variables, (X, Y), slices=2)


@pytest.mark.parametrize("kind", ["eager", "open shape"])
def test_slices_without_the_variable(kind: str) -> None:
    """A branch of the script may leave some slices without it, not all."""
    weight = tf.Variable(2.0)

    def loss_of(x: Any, _y: Any) -> Any:
        if kind == "eager" and float(tf.reduce_sum(x)) == 0.0:
            return tf.constant(0.0)
        return tf.reduce_mean(x * weight)

    def step(x: Any, y: Any) -> Any:
        return gradients_in_slices(loss_of, [weight], (x, y), slices=2)

    x = tf.concat([tf.zeros((2, 8)), tf.ones((2, 8))], 0)
    _, (gradient,) = _wrapped(step, kind)(x, Y)
    assert float(gradient) == 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_a_mean_over_something_else(kind: str) -> None:
    """Sample weights that the loss divides by, as told by ``weight_of``."""
    weight = tf.Variable(1.0)
    x = tf.random.stateless_uniform((SAMPLES, 8), [3, 4])
    y = tf.constant([1, 9, 0, 0, 0, 0, 3, 1, 1, 5])

    def loss_of(x: Any, y: Any) -> Any:
        counts = tf.cast(y, tf.float32)
        each = tf.reduce_sum(x * weight, axis=1) * counts
        return tf.math.divide_no_nan(tf.reduce_sum(each), tf.reduce_sum(counts))

    def step(x: Any, y: Any) -> Any:
        return gradients_in_slices(
            loss_of,
            [weight],
            (x, y),
            slices=4,
            weight_of=lambda _x, y: tf.reduce_sum(y),
        )

    _, (gradient,) = _wrapped(step, kind)(x, y)
    np.testing.assert_allclose(gradient, loss_of(x, y), rtol=1e-6)


def test_several_inputs_and_none() -> None:
    """Dicts, tuples and lists of tensors are cut within; None stays None."""
    weight = tf.Variable(1.0)
    values = tf.range(6, dtype=tf.float32)

    def loss_of(x: Any, y: Any, sample_weight: Any) -> Any:
        assert sample_weight is None
        (first, second), third = x["both"], y[0]
        assert first.shape == second.shape == third.shape
        return tf.reduce_mean((first + 2 * second + 4 * third) * weight)

    batch = ({"both": (values, values.numpy())}, [values], None)
    loss, (gradient,) = gradients_in_slices(loss_of, [weight], batch, slices=3)
    assert float(loss) == float(gradient) == 7 * 2.5


def test_half_precision_is_added_up_in_single() -> None:
    """1 + 255 · 1/256 would stay 1 in bfloat16."""
    weight = tf.Variable(tf.zeros([], tf.bfloat16))
    x = tf.ones(512)

    def loss_of(x: Any) -> Any:
        return tf.reduce_mean(x) * tf.cast(weight, tf.float32)

    _, (gradient,) = gradients_in_slices(loss_of, [weight], [x], slices=512)
    assert gradient.dtype == tf.bfloat16
    assert float(gradient) == 1.0


def test_double_precision_stays() -> None:
    """Neither loss nor gradient is rounded to float32."""
    weight = tf.Variable(tf.constant(1 / 3, tf.float64))
    x = tf.constant([0.1, 0.2, 0.4], tf.float64)

    def loss_of(x: Any) -> Any:
        return tf.reduce_mean(x * weight)

    loss, (gradient,) = gradients_in_slices(loss_of, [weight], [x], slices=2)
    np.testing.assert_allclose(gradient, 0.7 / 3, rtol=1e-14)
    np.testing.assert_allclose(loss, 0.7 / 9, rtol=1e-14)


def test_unlike_samples_in_a_graph() -> None:
    """What is known at run time alone is refused then, and not cut off."""
    weight = tf.Variable(1.0)

    def step(x: Any, y: Any) -> Any:
        return gradients_in_slices(
            lambda x, _y: tf.reduce_mean(x * weight), [weight], (x, y), slices=2
        )

    with pytest.raises(tf.errors.InvalidArgumentError, match="unlike samples"):
        _wrapped(step, "open shape")(X, tf.zeros(5, tf.int32))


def _gradients(loss_of: Callable[..., Any], model: Any, batch: tuple[Any, ...]) -> Any:
    with tf.GradientTape() as tape:
        loss = loss_of(*batch)
    return tape.gradient(loss, model.trainable_variables)


def _furthest(some: list[Any], others: list[Any]) -> float:
    pairs = zip(some, others, strict=True)
    return max(float(tf.reduce_max(tf.abs(one - other))) for one, other in pairs)


def test_tokens_that_a_mask_leaves() -> None:
    """Keras divides by these, so slices count by them, too, and not by samples."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Embedding(20, 8, mask_zero=True), keras.layers.Dense(3)]
    model = keras.Sequential([keras.Input((5,), dtype="int32"), *layers])
    cross_entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 3, (11, 5), "int32"), rng.integers(0, 3, (11, 5), "int32")

    def loss_of(x: Any, y: Any) -> Any:
        return cross_entropy(y, model(x, training=True))

    given = (loss_of, model.trainable_variables, (x, y))
    whole = _gradients(loss_of, model, (tf.constant(x), tf.constant(y)))
    whole = [tf.convert_to_tensor(one) for one in whole]
    _, by_samples = gradients_in_slices(*given, slices=4)
    _, by_tokens = gradients_in_slices(
        *given, slices=4, weight_of=lambda x, _y: tf.math.count_nonzero(x)
    )
    assert _furthest(whole, by_tokens) < 1e-6
    assert _furthest(whole, by_samples) > 1e-4


def test_weights_and_penalties_of_keras() -> None:
    """Sample weights, of which Keras takes the mean over samples, and penalties that
    belong to no sample: right without ``weight_of``."""
    keras.utils.set_random_seed(1)
    layer = keras.layers.Dense(3, kernel_regularizer="l2")
    model = keras.Sequential([keras.Input((8,)), layer])
    squares = keras.losses.MeanSquaredError()
    x = tf.random.stateless_normal((11, 8), [1, 2])
    weights = tf.random.stateless_uniform((11,), [3, 4])

    def loss_of(x: Any, weights: Any) -> Any:
        penalty = tf.add_n(model.losses)
        return squares(x[:, :3], model(x), sample_weight=weights) + penalty

    whole = _gradients(loss_of, model, (x, weights))
    _, found = gradients_in_slices(
        loss_of, model.trainable_variables, (x, weights), slices=4
    )
    assert _furthest(whole, found) < 1e-6
