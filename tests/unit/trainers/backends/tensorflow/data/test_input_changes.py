"""Pipelines that are read otherwise: the elements stay what they are."""

import functools
import threading
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat, input_changes

data = tf.data.Dataset
N = 24


def numbers(dataset: Any) -> list[Any]:
    """All elements, as NumPy has them."""
    return [np.asarray(one).tolist() for one in dataset.as_numpy_iterator()]


def alone(dataset: Any) -> Any:
    """What TensorFlow adds nothing to by itself."""
    options = tf.data.Options()
    options.experimental_optimization.inject_prefetch = False
    return dataset.with_options(options)


def in_python(i: Any) -> Any:
    """A function of the script's own, whose state nobody knows."""
    return tf.numpy_function(lambda one: one * 2, [i], tf.int64)


@pytest.mark.parametrize(
    ("dataset", "ahead"),
    [
        (data.range(N).batch(4).prefetch(8), 8),
        (alone(data.range(N).batch(4).prefetch(8)), 8),
        (data.range(N).prefetch(tf.data.AUTOTUNE), -1),
        (data.range(N).prefetch(8).batch(4), None),
        (alone(data.range(N).prefetch(8).batch(4)), 0),
        (alone(data.range(N).map(in_python, num_parallel_calls=2)), None),
    ],
)
def test_what_is_read_ahead(dataset: Any, ahead: int | None) -> None:
    """Where TensorFlow reads ahead by itself, nothing is to be added."""
    assert input_changes.read_ahead(dataset) == ahead


def test_less_is_read_ahead_in_the_place_of_more() -> None:
    """The last stage is replaced, the options stay, and so do the elements."""
    dataset = alone(data.range(N).shuffle(N, seed=3).batch(4).prefetch(8))
    changed = input_changes.with_read_ahead(dataset, 1)
    assert input_changes.read_ahead(changed) == 1
    stages = [type(one).__name__ for one in data_compat.stages(changed)]
    assert stages.count("_PrefetchDataset") == 1
    assert changed.options().experimental_optimization.inject_prefetch is False
    assert numbers(changed) == numbers(
        alone(data.range(N).shuffle(N, seed=3).batch(4).prefetch(8))
    )


def test_calls_side_by_side_yield_the_same_in_order() -> None:
    """In each pass, shuffled anew as it is."""
    waiting = threading.Barrier(2, timeout=60)

    def together(i: Any) -> Any:
        waiting.wait()
        return i * 2

    def made(function: Any) -> Any:
        called = functools.partial(tf.numpy_function, function, Tout=tf.int64)
        mapped = data.range(N).shuffle(N, seed=3).map(lambda i: called([i]))
        return mapped.batch(4)

    plain = made(lambda i: i * 2)
    changed = input_changes.with_parallel_maps(made(together))
    assert [numbers(changed), numbers(changed)] == [numbers(plain), numbers(plain)]
    assert changed.element_spec == plain.element_spec


def test_only_a_map_with_a_state_is_called_one_after_another() -> None:
    """TensorFlow makes the calls of others side by side by itself."""
    assert input_changes.lone_maps(data.range(N).map(in_python).map(lambda i: i)) == 1
    assert input_changes.lone_maps(data.range(N).map(lambda i: i + 1)) == 0
    parallel = data.range(N).map(in_python, num_parallel_calls=2)
    assert input_changes.lone_maps(parallel) == 0


def test_rows_come_from_main_memory_in_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No stage of the pipeline holds them, however many blocks they are handed out in."""
    monkeypatch.setattr(
        data_compat.dataset_class(),
        "from_tensor_slices",
        staticmethod(data.from_tensor_slices),
    )
    monkeypatch.setattr(input_changes, "BLOCK_BYTES", 256)
    x = np.random.default_rng(1).random((50, 8), "float32")
    y = np.arange(50)
    whole = data.from_tensor_slices({"x": x, "y": y})
    input_changes.cut_slices()
    cut = data.from_tensor_slices({"x": x, "y": y})
    assert cut.element_spec == whole.element_spec
    assert int(cut.cardinality()) == 50
    assert input_changes.slices_are_cut(cut.shuffle(8).batch(4))
    assert not input_changes.slices_are_cut(whole)
    for one, other in zip(cut, whole, strict=True):
        assert np.array_equal(one["x"], other["x"])
        assert one["y"] == other["y"]
    held = [data_compat.tensors_of(stage) for stage in data_compat.stages(cut)]
    assert not any(one.shape.rank for tensors in held for one in tensors)


@pytest.mark.parametrize(
    "given", [tf.range(5), [1, 2, 3], np.array(["a", "b"]), np.zeros((0, 3))]
)
def test_what_is_no_array_of_numbers_is_left_to_tensorflow(
    given: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Strings, lists, tensors, nothing at all."""
    monkeypatch.setattr(
        data_compat.dataset_class(),
        "from_tensor_slices",
        staticmethod(data.from_tensor_slices),
    )
    input_changes.cut_slices()
    made = data.from_tensor_slices(given)
    assert not input_changes.slices_are_cut(made)
    assert len(list(made)) == len(given)


def test_images_and_masks_of_their_size_are_halved_alike() -> None:
    """What is no image, nor as large as one, stays."""
    batch = (
        {"image": tf.zeros((2, 9, 8, 3)), "age": tf.zeros((2, 5))},
        {"mask": tf.zeros((2, 9, 8), tf.int32), "label": tf.zeros((2, 5))},
        tf.ones(2),
    )
    dataset = input_changes.halved(data.from_tensors(batch), sides=(1, 2), rank=4)
    shapes = tf.nest.map_structure(lambda one: tuple(one.shape), next(iter(dataset)))
    assert shapes == (
        {"image": (2, 5, 4, 3), "age": (2, 5)},
        {"mask": (2, 5, 4), "label": (2, 5)},
        (2,),
    )


def test_of_sequences_the_first_half_is_left() -> None:
    """A target of another length is none of a step each."""
    batch = (tf.reshape(tf.range(14), (2, 7)), tf.zeros((2, 1)))
    dataset = input_changes.halved(data.from_tensors(batch), sides=(1,), rank=2)
    x, y = next(iter(dataset))
    assert x.numpy().tolist() == [[0, 1, 2, 3], [7, 8, 9, 10]]
    assert y.shape == (2, 1)
