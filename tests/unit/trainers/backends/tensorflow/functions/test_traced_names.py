"""Names of traced functions: the same graph has the same name, whatever came before."""

from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow as tf
from tensorflow.python.eager.polymorphic_function import atomic_function

from trainers.backends.tensorflow.functions import traced_names

ORIGINAL = atomic_function.from_func_graph


def begin() -> None:
    """As at the start of a process."""
    setattr(atomic_function, traced_names.MADE_BY, ORIGINAL)
    traced_names.install()


@pytest.fixture(autouse=True)
def installed() -> Iterator[None]:
    """For this test alone."""
    begin()
    yield
    setattr(atomic_function, traced_names.MADE_BY, ORIGINAL)


def traced(add: float, *, size: int = 3) -> tuple[str, Any]:
    """The name of a function that was traced just now, and the function."""

    def step(x: Any) -> Any:
        return x * 2.0 + add if add else x * 2.0

    concrete = tf.function(step).get_concrete_function(tf.TensorSpec((size,)))
    return concrete.name.decode(), concrete


def number(name: str) -> int:
    """At its end."""
    return int(name.rpartition("_")[2])


def test_a_graph_has_its_name_whatever_was_traced_before() -> None:
    """Two attempts agree on it."""
    first = number(traced(1.0)[0])
    traced(0.0)
    begin()
    assert number(traced(1.0)[0]) == first


def test_graphs_are_told_apart() -> None:
    """Other operations, another number."""
    assert abs(number(traced(1.0)[0]) - number(traced(0.0)[0])) >= traced_names.ALIKE


def test_no_two_functions_of_a_process_share_a_name() -> None:
    """Also where their graphs are alike; both still compute what they should."""
    (one, first), (two, second) = traced(1.0), traced(1.0)
    assert one != two
    assert first(tf.ones(3)).numpy().tolist() == [3.0, 3.0, 3.0]
    assert second(tf.ones(3)).numpy().tolist() == [3.0, 3.0, 3.0]


def test_gradients_go_through() -> None:
    """Forward and backward functions keep TensorFlow's own names."""
    _, step = traced(1.0)
    x = tf.Variable(tf.ones(3))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(step(x))
    found: Any = tape.gradient(y, x)
    assert found.numpy().tolist() == [2.0, 2.0, 2.0]
