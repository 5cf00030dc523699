"""What a gradient in half precision was before it was rounded."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainers.backends.tensorflow.slices import float32_accumulation

draw = np.random.default_rng(0)


def _half(*shape: int) -> tf.Tensor:
    return tf.constant(draw.normal(size=shape), tf.float16)


IMAGES, SLOPES = _half(4, 6, 6, 3), _half(4, 6, 6, 2)
LAID = {"strides": [1, 1, 1, 1], "padding": "SAME"}

ROUNDED: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "BiasAddGrad": (lambda a: tf.raw_ops.BiasAddGrad(out_backprop=a), [SLOPES]),
    "Sum": (lambda a: tf.reduce_sum(a, [0, 1], keepdims=True), [SLOPES]),
    "MatMul": (
        lambda a, b: tf.matmul(a, b, transpose_a=True),
        [_half(7, 3), _half(7, 4)],
    ),
    "BatchMatMulV2": (
        lambda a, b: tf.matmul(a, b, adjoint_b=True),
        [_half(5, 7, 3), _half(5, 4, 3)],
    ),
    "Einsum": (
        lambda a, b: tf.einsum("abc,abd->cd", a, b),
        [_half(5, 7, 3), _half(5, 7, 4)],
    ),
    "Conv2DBackpropFilter": (
        lambda a, b: tf.raw_ops.Conv2DBackpropFilter(
            input=a, filter_sizes=[3, 3, 3, 2], out_backprop=b, **LAID
        ),
        [IMAGES, SLOPES],
    ),
    "DepthwiseConv2dNativeBackpropFilter": (
        lambda a, b: tf.raw_ops.DepthwiseConv2dNativeBackpropFilter(
            input=a, filter_sizes=[3, 3, 3, 1], out_backprop=b, **LAID
        ),
        [IMAGES, _half(4, 6, 6, 3)],
    ),
    "Conv3DBackpropFilterV2": (
        lambda a, b: tf.raw_ops.Conv3DBackpropFilterV2(
            input=a,
            filter_sizes=[1, 3, 3, 3, 2],
            out_backprop=b,
            strides=[1, 1, 1, 1, 1],
            padding="SAME",
        ),
        [IMAGES[tf.newaxis], SLOPES[tf.newaxis]],
    ),
}


def test_every_operation_that_is_known_is_tried_here() -> None:
    """None is believed to be understood untried."""
    assert set(ROUNDED) == float32_accumulation.SUMS | float32_accumulation.PRODUCTS
    assert set(MOVED) == float32_accumulation.MOVES


def _traced(
    function: Callable[..., Any], inputs: list[Any], *, products: bool = True
) -> tuple[list[Any], list[tf.DType | None]]:
    """The terms of what ``function`` rounds, run; and what each is rounded to."""
    halves: list[tf.DType | None] = []

    def run(*given: Any) -> list[Any]:
        terms = float32_accumulation.terms(function(*given), products=products)
        halves.extend(term.half for term in terms)
        return [term.tensor for term in terms]

    found = tf.function(run, autograph=False)(*inputs)
    return [one.numpy() for one in found], halves


@pytest.mark.parametrize("name", ROUNDED)
def test_a_sum_is_given_as_it_was_before_it_was_rounded(name: str) -> None:
    """It is what the operation makes of the same values in float32."""
    function, inputs = ROUNDED[name]
    (found,), halves = _traced(lambda *a: tf.cast(function(*a), tf.float32), inputs)
    exact = function(*(tf.cast(one, tf.float32) for one in inputs)).numpy()
    assert halves == [tf.float16]
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)
    assert (found != found.astype(np.float16)).any(), "it was rounded"


MOVED: dict[str, Callable[[Any], Any]] = {
    "Reshape": lambda a: tf.reshape(a, [1, 2]),
    "Squeeze": lambda a: tf.squeeze(tf.reshape(a, [1, 2]), [0]),
    "ExpandDims": lambda a: tf.expand_dims(a, 0),
    "Transpose": lambda a: tf.transpose(tf.reshape(a, [1, 2])),
    "Identity": tf.identity,
}


@pytest.mark.parametrize("name", MOVED)
def test_values_are_followed_where_they_are_moved(name: str) -> None:
    """A convolution's bias has its sum reshaped before it is cast."""

    def function(slopes: Any) -> Any:
        total = tf.raw_ops.BiasAddGrad(out_backprop=slopes)
        return tf.cast(MOVED[name](total), tf.float32)

    (found,), halves = _traced(function, [SLOPES])
    exact = SLOPES.numpy().astype("f4").sum((0, 1, 2))
    assert halves == [tf.float16]
    np.testing.assert_allclose(found.ravel(), exact, rtol=1e-5)
    assert found.shape == function(SLOPES).shape


def test_the_rest_of_a_gradient_is_a_term_of_its_own() -> None:
    """A regulariser's share was never rounded, and must not be."""
    share = tf.constant([[1 / 3] * 4] * 3)

    def function(a: Any, b: Any) -> Any:
        return tf.add_n([share, tf.cast(tf.matmul(a, b), tf.float32), share])

    found, halves = _traced(function, [_half(3, 7), _half(7, 4)])
    assert halves == [tf.float16, None]
    np.testing.assert_allclose(found[1], 2 * share.numpy())


def _twice(a: Any, b: Any) -> Any:
    one = tf.cast(tf.matmul(a, b), tf.float32)
    return tf.add_n([one, tf.cast(tf.matmul(a, 2 * b), tf.float32)])


UNKNOWN: dict[str, Callable[..., Any]] = {
    "of two uses": _twice,
    "no sum": lambda a, b: tf.cast(tf.tanh(tf.matmul(a, b)), tf.float32),
    "not rounded": lambda a, b: tf.cast(tf.matmul(a, b), tf.float32) * 3.0,
    "half": tf.matmul,
    "from integers": lambda a, _: tf.cast(tf.cast(a, tf.int32), tf.float32),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_understood_is_taken_as_it_is(name: str) -> None:
    """One term, the gradient itself, which nobody rounds again."""
    inputs = [_half(3, 7), _half(7, 4)]
    (found,), halves = _traced(UNKNOWN[name], inputs)
    assert halves == [None]
    np.testing.assert_array_equal(found, tf.function(UNKNOWN[name])(*inputs).numpy())


def test_products_are_left_where_they_would_not_pay() -> None:
    """Sums are not: they cost nothing."""
    product, inputs = ROUNDED["MatMul"]
    total, slopes = ROUNDED["BiasAddGrad"]
    for function, given, known in (
        (product, inputs, None),
        (total, slopes, tf.float16),
    ):
        _, halves = _traced(
            lambda *a, function=function: tf.cast(function(*a), tf.float32),
            given,
            products=False,
        )
        assert halves == [known]


@pytest.mark.parametrize(
    ("gpus", "tf32", "pay"),
    [
        ([], False, True),
        ([(8, 0)], True, True),
        ([(9, 0), (7, 5)], True, False),
        ([(9, 0)], False, False),
        ([None], True, False),
    ],
)
def test_products_pay_where_float32_has_tensor_cores(
    gpus: list[tuple[int, int] | None], *, tf32: bool, pay: bool
) -> None:
    """On each of the GPUs that are used."""
    assert float32_accumulation.products_pay(gpus, tf32=tf32) is pay


def test_no_copy_is_made_before_it_is_needed() -> None:
    """The float32 copy of what the forward pass left waits for the slope."""

    def function(a: Any, b: Any) -> Any:
        slope = tf.identity(b)
        gradient = tf.cast(tf.matmul(a, slope, transpose_a=True), tf.float32)
        return float32_accumulation.terms(gradient, products=True)[0].tensor, slope

    traced = tf.function(function, autograph=False)
    graph = traced.get_concrete_function(_half(7, 3), _half(7, 4)).graph
    copies = [
        one
        for one in graph.get_operations()
        if one.type == "Cast" and one.inputs[0].op.type == "Placeholder"
    ]
    slopes = [one for one in graph.get_operations() if one.type == "Identity"]
    assert len(copies) == 1
    assert slopes[0] in copies[0].control_inputs


def test_a_sum_is_rounded_once() -> None:
    """As TensorFlow rounds it: to the nearest value of the half precision."""
    total = tf.constant([1 + 2**-11 + 2**-20, 1e6])
    assert float32_accumulation.Term(total).finished(total) is total
    finished = float32_accumulation.Term(total, tf.float16).finished(total).numpy()
    np.testing.assert_array_equal(finished, np.array([1 + 2**-10, np.inf], "f4"))
