"""A cache on disk in a ``tf.data`` pipeline, put there for a trial.

It belongs above all that is the same in each pass, and below what is not: shuffles,
repetitions, functions that draw, change something or call Python, of which nobody knows. Looked
for is that place in the graph that TensorFlow writes a pipeline down as. What a cache saves
shows in the second pass, so that it is filled before: with what the steps of a trial need.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from trainers.backends.tensorflow.data import data_compat as compat
from trainers.backends.tensorflow.functions.operation_types import CHANGING, RANDOM

_DATASET = re.compile(r"Dataset(V\d+)?$")
_ANEW = re.compile(r"^(Shuffle|Repeat|Random|Sampling|Iterator|Generator)")
"""Stages, or sources, that are another thing in each pass, or have no end."""
_CACHES = re.compile(r"^(Cache|Snapshot|Save)")
_READERS = re.compile(r"^(TFRecord|TextLine|FixedLengthRecord|Sql|LMDB)")
_FUNCTIONS = ("f", "predicate", "key_func", "reduce_func")
_BATCHES = re.compile(r"^(Parallel|Padded)?BatchDataset")
_NO_MORE = re.compile(
    r"^(Map|ParallelMap|Options|Prefetch|Take|Repeat|AssertCardinality)Dataset"
)
"""Stages that need no more elements than they hand out. Of others it is not known."""
_TRANSPARENT = re.compile(r"^(Options|Prefetch|AssertCardinality)Dataset")
"""Below which a cache does the same, and people put it."""
_UNLIKE = RANDOM | CHANGING | {"PyFunc", "EagerPyFunc", "ReadVariableOp"}
"""What a function with one of them gives is not known to be the same another time; Python
without a state is promised to be."""
FREE_PART = 0.5
"""Of the room on a disk, that a trial takes at most."""
NO_PLACE = "nothing is read or computed in the pipeline that is the same in each pass"
NO_ROOM = (
    "what its steps need would take more than half of the room where trials keep files"
)
_SAMPLE = 4
"""Elements whose bytes are counted before."""


class NoCacheError(Exception):
    """There can be none, as the sentence says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlace:
    """Where in a graph a cache belongs."""

    below: str
    """The name of the node whose elements it keeps."""
    before: str
    """What comes after it, in words."""


def place_of(dataset: Any) -> str:
    """Where a cache belongs in ``dataset``, in words; empty: nowhere, for nothing is read or
    computed there that is the same in each pass, or TensorFlow cannot write it down."""
    try:
        found = place(compat.written(dataset))
    except (tf.errors.OpError, ValueError):
        return ""
    return "" if found is None else found.before


def place(graph: Any) -> CachePlace | None:
    """Where a cache belongs in the ``graph`` of a dataset; None: nowhere."""
    nodes = {node.name: node for node in graph.node}
    chain = list(_chain(nodes))
    for index, node in enumerate(chain):
        if _CACHES.match(node.op):
            return None
        below = list(_all_below(node, nodes))
        if not _TRANSPARENT.match(node.op) and all(
            _is_alike(one, graph) for one in below
        ):
            works = any(_works(one) for one in below)
            before = _before(chain, index)
            return CachePlace(below=node.name, before=before) if works else None
    return None


def _chain(nodes: dict[str, Any]) -> Iterator[Any]:
    """The stages from the last to the first one that has not one input alone."""
    last = next(node for node in nodes.values() if node.op == "_Retval")
    below = _inputs(last, nodes)
    while len(below) == 1:
        yield below[0]
        below = _inputs(below[0], nodes)


def _inputs(node: Any, nodes: dict[str, Any]) -> list[Any]:
    found = [nodes[name.split(":")[0]] for name in node.input]
    return [one for one in found if _DATASET.search(one.op)]


def _all_below(node: Any, nodes: dict[str, Any]) -> Iterator[Any]:
    """``node`` and all that its elements come from."""
    yield node
    for one in _inputs(node, nodes):
        yield from _all_below(one, nodes)


def _is_alike(node: Any, graph: Any) -> bool:
    """Whether ``node`` yields the same in each pass, if what it reads does."""
    return not (_ANEW.match(node.op) or _CACHES.match(node.op)) and not any(
        operation in _UNLIKE or _ANEW.match(operation)
        for name in _called(node)
        for operation in _operations(name, graph, set())
    )


def _called(node: Any) -> Iterator[str]:
    for one in _FUNCTIONS:
        if one in node.attr and node.attr[one].func.name:
            yield node.attr[one].func.name


def _operations(name: str, graph: Any, seen: set[str]) -> Iterator[str]:
    """Of a function and of those that it calls."""
    seen.add(name)
    for function in graph.library.function:
        if function.signature.name != name:
            continue
        for node in function.node_def:
            yield node.op
            for value in node.attr.values():
                inner = [value.func, *value.list.func]
                for one in inner:
                    if one.name and one.name not in seen:
                        yield from _operations(one.name, graph, seen)


def _works(node: Any) -> bool:
    """Whether it reads a file, or calls a function."""
    return bool(_READERS.match(node.op)) or any(_called(node))


def _before(chain: Sequence[Any], index: int) -> str:
    while index and _TRANSPARENT.match(chain[index - 1].op):
        index -= 1
        if chain[index].op.startswith("Prefetch"):
            return "before prefetch"
    if index == 0:
        return "at the end of the pipeline"
    after = chain[index - 1].op
    for word in ("Shuffle", "Repeat"):
        if after.startswith(word):
            return f"before {word.lower()}"
    return "before the function that draws, changes something or calls Python"


# --- filled, and used ---


def with_cache(dataset: Any, directory: Path, *, steps: int) -> tuple[Any, int | None]:
    """``dataset`` with a cache in a file of ``directory``, filled with what ``steps`` of its
    elements are made of, and read from the disk; and the bytes that it would have of all of
    the data (None: nobody knows how many there are).

    Raises NoCacheError.
    """
    try:
        graph = compat.written(dataset)
        found = place(graph)
        if found is None:
            raise NoCacheError(NO_PLACE)
        return _with_cache(dataset, graph, found, directory / "elements", steps)
    except (tf.errors.OpError, ValueError) as error:
        raise NoCacheError(str(error).splitlines()[0]) from error


def _with_cache(
    dataset: Any, graph: Any, found: CachePlace, file: Path, steps: int
) -> tuple[Any, int | None]:
    kept = _only(graph, found.below)
    elements = compat.made_of(kept, _spec_of(kept))
    total = int(elements.cardinality())
    count = _needed(graph, found, steps)
    if total >= 0:
        count = total if count < 0 else min(count, total)
    _look_for_room(elements, count, file.parent)
    filled = _cached(kept, found, file, count)
    number = int(compat.made_of(filled, _spec_of(filled)).reduce(np.int64(0), _counted))
    size = _to_disk(file.parent)
    whole = int(size * total / number) if total >= 0 and number else None
    return compat.made_of(
        _cached(graph, found, file, count), dataset.element_spec
    ), whole


def _counted(number: Any, *_: Any) -> Any:
    return number + 1


def _needed(graph: Any, found: CachePlace, steps: int) -> int:
    """Elements at ``found`` that so many at the end are made of; -1: all."""
    nodes = {node.name: node for node in graph.node}
    wanted = steps + 1
    for node in _chain(nodes):
        if node.name == found.below:
            return wanted
        if _BATCHES.match(node.op):
            wanted *= max(_constant(node, 1, nodes), 1)
        elif node.op.startswith(("Shuffle", "Skip")):
            more = _constant(node, 1, nodes)
            if more < 0:
                return -1
            wanted += more
        elif not _NO_MORE.match(node.op):
            return -1
    return -1


def _constant(node: Any, index: int, nodes: dict[str, Any]) -> int:
    value = nodes[node.input[index].split(":")[0]]
    return int(tf.make_ndarray(value.attr["value"].tensor))


def _only(graph: Any, name: str) -> Any:
    """The graph of the dataset that ends with the node ``name``."""
    found = type(graph)()
    found.CopyFrom(graph)
    _end_of(found).input[0] = name
    return found


def _end_of(graph: Any) -> Any:
    return next(node for node in graph.node if node.op == "_Retval")


def _spec_of(graph: Any) -> Any:
    """Of its elements, one tensor beside the other."""
    last = _end_of(graph).input[0]
    node = next(one for one in graph.node if one.name == last)
    types = node.attr[_types_in(node)].list.type
    shapes = node.attr["output_shapes"].list.shape
    return tuple(
        tf.TensorSpec(tf.TensorShape(shape), tf.as_dtype(dtype))
        for dtype, shape in zip(types, shapes, strict=True)
    )


def _cached(graph: Any, found: CachePlace, file: Path, count: int) -> Any:
    """``graph`` with ``count`` elements of that place in a cache in ``file``."""
    changed = type(graph)()
    changed.CopyFrom(graph)
    number = _const(changed, "trainwarden_count", count, tf.int64)
    name = _const(changed, "trainwarden_file", str(file), tf.string)
    for node in changed.node:
        for index, taken in enumerate(node.input):
            if taken.split(":")[0] == found.below:
                node.input[index] = "trainwarden_cache"
    changed.node.add(op="DummyMemoryCache", name="trainwarden_memory")
    taken = changed.node.add(op="TakeDataset", name="trainwarden_taken")
    taken.input.extend([found.below, number])
    cache = changed.node.add(op="CacheDatasetV2", name="trainwarden_cache")
    cache.input.extend([taken.name, name, "trainwarden_memory"])
    below = next(node for node in changed.node if node.name == found.below)
    for node in (taken, cache):
        node.attr["output_types"].CopyFrom(below.attr[_types_in(below)])
        node.attr["output_shapes"].CopyFrom(below.attr["output_shapes"])
    return changed


def _types_in(node: Any) -> str:
    """A source of tensors names them by another word."""
    return "output_types" if "output_types" in node.attr else "Toutput_types"


def _const(graph: Any, name: str, value: Any, dtype: Any) -> str:
    node = graph.node.add(op="Const", name=name)
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
    return name


def _look_for_room(elements: Any, count: int, directory: Path) -> None:
    """By the first few, where it is known how many there will be."""
    sizes = [
        sum(_nbytes(one) for one in tf.nest.flatten(element))
        for element in elements.take(_SAMPLE)
    ]
    free = shutil.disk_usage(directory).free
    if sizes and count * sum(sizes) / len(sizes) > FREE_PART * free:
        raise NoCacheError(NO_ROOM)


def _nbytes(tensor: Any) -> int:
    if tensor.dtype == tf.string:
        return sum(len(one) for one in tf.reshape(tensor, [-1]).numpy())
    if tensor.dtype in (tf.variant, tf.resource):
        return 0
    return int(np.prod(tensor.shape.as_list())) * int(tensor.dtype.size)


def _to_disk(directory: Path) -> int:
    """What was written, in bytes; the kernel keeps none of it in memory, so that it is read
    from where a run would."""
    written = 0
    for path in directory.iterdir():
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
        written += path.stat().st_size
    return written
