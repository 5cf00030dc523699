"""What was read of a variable may be copied later: training changes nothing of it."""

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from trainers import fit_variables, seams_values, tensors
from trainers.parallel_copy import copy_all
from trainers.tensors import Image


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


@pytest.mark.parametrize(("optimizer", "jit"), [("sgd", False), ("adam", True)])
def test_steps_leave_what_was_read(optimizer: str, jit: bool) -> None:  # noqa: FBT001  # a parameter
    """A snapshot that is copied after three steps holds the state of before them."""
    model = model_with(optimizer, jit=jit)
    x, y = np.arange(32, dtype=np.int32).reshape(8, 4) % 16, np.ones((8, 1))
    model.train_on_batch(x, y)
    listed = fit_variables.tensors_of(fit_variables.storable(model)[0])
    before = [np.array(tensor.read()) for tensor in listed]
    image = Image(listed)
    left = image.fill(listed)
    assert len(left) == len(listed)
    for _ in range(3):
        model.train_on_batch(x, y)
    copy_all(left)
    stored = tensors.parse(image.content)
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
    read = seams_values.arrays_of([variable, generator.state])
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
    listed = [tensors.of_array("a", array)]
    image = Image(listed)
    assert image.fill(listed) == []
    array += 1
    assert tensors.parse(image.content)["a"].tolist() == [1, 1, 1]


def test_only_the_last_values_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """What training goes on beside takes memory of a bounded size."""
    monkeypatch.setattr(tensors, "_GROUP_BYTES", 100)

    def left_of(*sizes: int) -> list[int]:
        listed = [
            tensors.of_array(str(index), np.full(size, index, np.uint8))._replace(
                lasting=True
            )
            for index, size in enumerate(sizes)
        ]
        image = Image(listed)
        left = image.fill(listed)
        copy_all(left)
        found = tensors.parse(image.content)
        assert [len(found[one.name]) for one in listed] == list(sizes)
        assert all((found[one.name] == int(one.name)).all() for one in listed)
        return [len(to) for to, _ in left]

    assert left_of(60, 60, 30) == [60, 30]
    assert left_of(60, 200) == []
    assert left_of(200, 60) == [60]
    assert left_of(60, 40) == [60, 40]
