"""What was read of a variable may be copied later: training changes nothing of it."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainers.backends.tensorflow import tensor_values
from trainers.snapshots import tensor_image
from trainers.snapshots.parallel_copy import copy_all
from trainers.snapshots.tensor_image import Image, held
from trainers.state import variable_state


def model_with(optimizer: str, *, jit: bool) -> Any:
    """One that changes its variables in many ways: sparsely, at random, as averages."""
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            keras.layers.Embedding(16, 8),
            keras.layers.Flatten(),
            keras.layers.Dense(8),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    model.compile(optimizer, "mse", metrics=["mae"], jit_compile=jit)
    return model


@pytest.mark.parametrize(
    ("optimizer", "jit", "all_held"),
    [
        ("sgd", False, False),
        ("adam", True, True),
        pytest.param("adam", False, True, marks=pytest.mark.slow),
    ],
)
def test_steps_leave_what_was_read(
    optimizer: str, *, jit: bool, all_held: bool
) -> None:
    """A snapshot that is copied after three steps holds the state of before them."""
    model = model_with(optimizer, jit=jit)
    x, y = np.arange(32, dtype=np.int32).reshape(8, 4) % 16, np.ones((8, 1))
    model.train_on_batch(x, y)
    listed = variable_state.tensors_of(variable_state.storable(model)[0])
    before = [np.array(tensor.read()) for tensor in listed]
    image = Image(listed)
    values = held(listed) if all_held else None
    left = [] if values is not None else image.fill(listed)
    assert len(values or left) == len(listed)
    for _ in range(3):
        model.train_on_batch(x, y)
    copy_all(left if values is None else image.pairs(listed, values))
    stored = tensor_image.parse(image.content)
    for tensor, value in zip(listed, before, strict=True):
        assert np.array_equal(stored[tensor.name], value), tensor.name
    changed = [
        not np.array_equal(tensor.read(), value)
        for tensor, value in zip(listed, before, strict=True)
    ]
    assert sum(changed) > len(listed) // 2


def test_updates_of_parts_leave_what_was_read() -> None:
    """An eager loop's own assignments: whole, added, of slices, of rows, at random."""
    variable = tf.Variable(tf.ones((4, 3)))
    generator = tf.random.Generator.from_seed(7)
    read = tensor_values.arrays_of([variable, generator.state])
    before = [array.copy() for array in read]
    variable.assign_add(variable)
    variable[1].assign(tf.zeros(3))
    variable.scatter_nd_update([[2]], tf.zeros((1, 3)))
    variable.scatter_update(tf.IndexedSlices(tf.zeros((1, 3)), [3]))
    variable.assign(tf.zeros((4, 3)))
    generator.normal((2,))
    assert not np.array_equal(generator.state.numpy(), before[1])
    for array, value in zip(read, before, strict=True):
        assert np.array_equal(array, value)


def test_arrays_of_the_script_are_copied_at_once() -> None:
    """They may change with the next line."""
    array = np.ones(3)
    listed = [tensor_image.of_array("a", array)]
    image = Image(listed)
    assert image.fill(listed) == []
    values = held(listed)
    assert values is not None
    array += 1
    assert tensor_image.parse(image.content)["a"].tolist() == [1, 1, 1]
    copy_all(image.pairs(listed, values))
    assert tensor_image.parse(image.content)["a"].tolist() == [1, 1, 1]


def test_nothing_large_is_held() -> None:
    """Neither a large state, nor arrays of the script that would be copied twice."""

    def holds(nbytes: int, *, lasting: bool) -> bool:
        tensor = tensor_image.of_array("a", np.zeros(nbytes, np.uint8))
        return held([tensor._replace(lasting=lasting)]) is not None

    assert holds(2**25, lasting=True)
    assert not holds(2**25 + 1, lasting=True)
    assert holds(2**16, lasting=False)
    assert not holds(2**16 + 1, lasting=False)


def test_values_of_a_device_are_not_held_there() -> None:
    """A step may need all of a GPU's memory: its values are copied to ours at once."""
    members = [tf.Variable([1.0]), tf.Variable([2])]
    # Asked by the device's name: the public way would need a GPU.
    read = tensor_values._values_at("/device:GPU:0", members)  # noqa: SLF001  # see above
    first, second = read
    assert isinstance(first, np.ndarray)
    assert (first.tolist(), second.tolist()) == ([1.0], [2])
    held_here = tensor_values.values_of(members)
    assert all(isinstance(one, tf.Tensor) for one in held_here)


def test_only_the_last_values_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What training goes on beside takes memory of a bounded size."""
    monkeypatch.setattr(tensor_image, "_GROUP_BYTES", 100)

    def left_of(*sizes: int) -> list[int]:
        listed = [
            tensor_image.of_array(str(index), np.full(size, index, np.uint8))._replace(
                lasting=True
            )
            for index, size in enumerate(sizes)
        ]
        image = Image(listed)
        left = image.fill(listed)
        copy_all(left)
        found = tensor_image.parse(image.content)
        assert [len(found[one.name]) for one in listed] == list(sizes)
        assert all((found[one.name] == int(one.name)).all() for one in listed)
        return [len(to) for to, _ in left]

    assert left_of(60, 60, 30) == [60, 30]
    assert left_of(60, 200) == []
    assert left_of(200, 60) == [60]
    assert left_of(60, 40) == [60, 40]
