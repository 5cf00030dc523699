"""What calls return, as bytes and back; what they are called with, told apart."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from trainers.loops import packing

PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text()
)
ARRAYS = arrays.arrays(
    st.sampled_from([np.float32, np.float64, np.int32, np.bool_, np.float16]),
    arrays.array_shapes(min_dims=0, max_dims=3, max_side=3, min_side=0),
)
VALUES = st.recursive(
    PLAIN | ARRAYS | ARRAYS.map(tf.constant),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(st.text() | st.integers(0, 9), inner)
    ),
    max_leaves=8,
)


class PackedPair(NamedTuple):
    """A tuple whose class is lost in JSON."""

    a: int
    b: int


def there_and_back(value: Any) -> Any:
    """Packed and unpacked."""
    template, leaves = packing.pack(value)
    content = packing.bytes_of(leaves)
    assert packing.size_of(template) == len(content)
    return packing.unpack(template, content)


def assert_same(one: Any, other: Any) -> None:
    """To the bit, kinds included."""
    assert type(one) is type(other)
    if isinstance(one, (list, tuple)):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key, left in one.items():
            assert_same(left, other[key])
    elif isinstance(one, (np.ndarray, np.generic, tf.Tensor)):
        left, right = np.asarray(one), np.asarray(other)
        assert (left.dtype, left.shape) == (right.dtype, right.shape)
        assert left.tobytes() == right.tobytes()
    else:
        assert repr(one) == repr(other)


@given(VALUES)
def test_what_was_packed_is_unpacked(value: Any) -> None:
    """Nested, with tensors, arrays and numbers."""
    assert_same(value, there_and_back(value))


@pytest.mark.parametrize("kind", [np.float32, np.int64, np.bool_])
def test_a_number_of_numpy_stays_one(kind: type[np.generic]) -> None:
    """Not an array without dimensions."""
    assert_same(kind(1), there_and_back(kind(1)))


@pytest.mark.parametrize(
    "value",
    [
        tf.constant("text"),
        tf.ragged.constant([[1], [2, 3]]),
        PackedPair(1, 2),
        np.array([object()]),
        {1.5: 2},
        {1},
        2**70,
    ],
    ids=["string", "ragged", "namedtuple", "objects", "key", "set", "long"],
)
def test_what_is_not_recorded_is_named(value: Any) -> None:
    """It is not guessed at."""
    with pytest.raises(packing.UnpackableError):
        packing.pack(value)


def test_arguments_are_told_apart_by_kind_and_shape() -> None:
    """Not by their values, plain ones aside."""
    x, same, longer = np.zeros((2, 3)), np.ones((2, 3)), np.zeros((3, 3))
    assert packing.key_of((x, 1)) == packing.key_of((same, 1))
    others = [(longer, 1), (x, 2), (x.astype("float32"), 1), (x,), [(x, 1)]]
    keys = [packing.key_of(one) for one in [(x, 1), *others]]
    assert len(set(keys)) == len(keys)
    assert packing.key_of(tf.constant(x)) == packing.key_of(x)


def test_sums_see_the_ends_or_all() -> None:
    """Of what is large both ends alone, now and then all of it."""
    x = np.zeros(10_000, "float32")
    middle, end = x.copy(), x.copy()
    middle[5_000], end[-1] = 1, 1

    def of(value: Any, *, whole: bool) -> int:
        return packing.sum_of(({"x": [value]}, None), whole=whole)

    assert of(x, whole=False) == of(middle, whole=False) != of(end, whole=False)
    assert of(x, whole=True) != of(middle, whole=True)
    assert of(tf.constant(x), whole=True) == of(x, whole=True)
    small = np.zeros(10, "float32")
    assert of(small, whole=False) != of(small + 1, whole=False)
