"""Who holds what, found by a script's own names."""

from collections import deque
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from typing_extensions import override

from trainers.backends.tensorflow.allocator import memory_owners

MIB = 2**20


def block(count: int = 1) -> np.ndarray:
    """An array of so many MiB."""
    return np.zeros(count * MIB, np.uint8)


class Keeper:
    """A class of a script's own."""

    shared: list[Any]

    def __init__(self) -> None:
        self.own = [block(2)]


class Proxy:
    """Raises whatever is asked of it."""

    @override
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def told(*roots: tuple[str, Any]) -> dict[str, tuple[str, int, int]]:
    """By name: kind, count and MiB."""
    found = memory_owners.kept(list(roots))
    return {one.where: (one.kind, one.count, one.bytes // MIB) for one in found}


def test_containers_go_by_their_own_name() -> None:
    """However deep it lies in there, it is kept by the name that leads to it."""
    deep = {
        "a": [block(), (block(), deque([block()]))],
        "b": {block().nbytes: block(4)},
    }
    assert told(("__main__.cache", deep)) == {"__main__.cache": ("array", 4, 7)}


def test_attributes_closures_and_generators() -> None:
    """Each has the name that a person would look for."""
    keeper = Keeper()
    Keeper.shared = [tf.zeros([3 * MIB], tf.uint8)]
    hidden = [block(5)]

    def closes() -> int:
        return len(hidden)

    def yields() -> Iterator[int]:
        read = [block(6)]
        yield 1
        yield len(read)

    running = yields()
    next(running)
    found = told(("callbacks", [keeper, closes, running]))
    prefix = test_attributes_closures_and_generators.__qualname__
    assert found == {
        "Keeper.own": ("array", 1, 2),
        "Keeper.shared": ("tensor", 1, 3),
        f"{prefix}.<locals>.closes.hidden": ("array", 1, 5),
        f"{prefix}.<locals>.yields.read": ("array", 1, 6),
    }


def test_nothing_counts_twice() -> None:
    """What two names lead to is told once; a view keeps no memory of its own."""
    one = block(2)
    found = told(("first", [one]), ("second", [one, one[:MIB]]))
    assert found == {"first": ("array", 1, 2)}


def test_strange_objects_do_no_harm() -> None:
    """Proxies, classes, modules and cycles are passed by."""
    cycle: list[Any] = [Proxy(), Keeper, np, block()]
    cycle.append(cycle)
    assert told(("x", cycle)) == {"x": ("array", 1, 1)}


def test_small_ones_are_not_told() -> None:
    """Nobody looks for a list of a few kilobytes."""
    assert told(("x", [np.zeros(100)])) == {}


def test_frames_on_the_way_of_an_exception() -> None:
    """The locals of the script's frames, and not those of libraries."""

    def fails() -> None:
        mine = [block(3)]
        raise MemoryError(len(mine))

    with pytest.raises(MemoryError) as caught:
        fails()
    names = {name for name, _ in memory_owners.roots_of_traceback(caught.tb)}
    prefix = test_frames_on_the_way_of_an_exception.__qualname__
    assert f"{prefix}.<locals>.fails.mine" in names


def test_what_a_fit_leads_to() -> None:
    """Its callbacks, and what its data come from."""
    adapter = SimpleNamespace(py_dataset=[block()])
    run = SimpleNamespace(
        model=None, callbacks=[Keeper()], data_adapter=adapter, pipeline=None
    )
    names = [name for name, _ in memory_owners.roots_of_fit(run)]
    assert names == ["callbacks", "data"]
    assert memory_owners.roots_of_fit(None) == []


class FakeOps:
    """Places of tensors, by what they hold."""

    def address(self, tensor: Any) -> tuple[int, int]:
        """The first value is where it lies."""
        return int(tf.reshape(tensor, [-1])[0]), 0


def test_tensors_that_a_pipeline_holds_have_its_name_and_their_places() -> None:
    """A data set that was made a pipeline lies in the framework's memory, whoever made it;
    of a batch, which nobody's name leads to, the sizes are known."""
    data = tf.data.Dataset.from_tensor_slices(tf.fill([MIB // 4, 2], 7.0))
    whole = tf.fill([MIB // 4], 5.0)
    pipeline = data.cache().shuffle(10).batch(1024).prefetch(2)
    found = memory_owners.kept(
        [("data", pipeline), ("__main__.table", [whole])],
        ops=FakeOps(),  # type: ignore[arg-type]  # as far as it is asked
    )
    assert {one.where: one.bytes for one in found} == {
        "data": 2 * MIB,
        "__main__.table": MIB,
    }
    assert {one.where: one.addresses for one in found}["__main__.table"] == (5,)
    run = SimpleNamespace(pipeline=pipeline, batch=1024)
    (batch,) = memory_owners.batch_of(run)
    assert (batch.bytes, batch.example) == (8192, "float32 (1024, 2)")
    unknown = SimpleNamespace(pipeline=pipeline, batch=None)
    assert memory_owners.batch_of(unknown) == []
    assert memory_owners.batch_of(None) == []
