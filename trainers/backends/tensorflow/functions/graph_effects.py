"""Effects of the operations of a graph: what one draws or changes beside its result.

TensorFlow says of each operation whether it is stateful, which reads of variables are, too.
A call of a function is looked into. What is not known counts as an effect.

| private name | why |
| --- | --- |
| ``context().get_function_def`` | the operations of a function that is called |
| ``op_def_registry.get`` | whether an operation within it is stateful |
"""

import hashlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import op_def_registry

NAMES: tuple[tuple[Any, str], ...] = (
    (eager_context.Context, "get_function_def"),
    (op_def_registry, "get"),
)

_READS = frozenset(
    {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Assert", "VarHandleOp"}
)
"""Stateful to TensorFlow, but the same however often they are done."""
_GATHERS = frozenset({"ResourceGather", "ResourceGatherNd", "GatherV2", "GatherNd"})
_PASSES_ON = frozenset({"Cast", "Identity"})
_CALLS = frozenset({"StatefulPartitionedCall", "If", "While", "Case"})
"""They are what the functions are that they call."""


class Seen:
    """The operations that come into the graph in force from here on."""

    def __init__(self) -> None:
        self._graph: Any = tf.compat.v1.get_default_graph()
        self._before = len(self._graph.get_operations())

    def effect(self) -> str | None:
        """The type of one that draws or changes anything; None: there is none."""
        return next((n.op for n in self._nodes() if _has_effect(n)), None)

    def gathers(self) -> bool:
        """Whether rows of a variable are taken: its gradient is of these rows alone then, each
        as often as it was taken."""
        nodes = {one.name: one for one in self._nodes()}
        return any(
            _is_of_variable(node, nodes)
            for node in nodes.values()
            if node.op in _GATHERS
        )

    def content(self) -> tuple[tuple[str, bytes], ...]:
        """Types and digests of constants, in order: two traces of the same have the same."""
        return tuple((n.op, _constant(n)) for n in self._nodes())

    def _nodes(self) -> Iterator[Any]:
        called = set[str]()
        for operation in self._graph.get_operations()[self._before :]:
            yield from _with_called(operation.node_def, called)


def _with_called(node: Any, called: set[str]) -> Iterator[Any]:
    """``node``, and all those of functions that it names."""
    yield node
    for name in _functions(node):
        if name not in called:
            called.add(name)
            for inner in eager_context.context().get_function_def(name).node_def:
                yield from _with_called(inner, called)


def _is_of_variable(node: Any, nodes: dict[str, Any]) -> bool:
    """Whether the first input of ``node`` is a variable, as it is or in another precision."""
    while node is not None and node.op != "ReadVariableOp":
        if node.op.startswith("Resource"):
            return True
        if node.op not in _GATHERS | _PASSES_ON or not node.input:
            return False
        node = nodes.get(node.input[0].split(":")[0])
    return node is not None


def _functions(node: Any) -> Iterator[str]:
    for value in node.attr.values():
        if value.HasField("func"):
            yield value.func.name
        for one in value.list.func:
            yield one.name


def _has_effect(node: Any) -> bool:
    definition = op_def_registry.get(node.op)
    if definition is None or "PyFunc" in node.op:  # Python may do anything
        return True
    return definition.is_stateful and node.op not in _READS | _CALLS


def _constant(node: Any) -> bytes:
    if node.op != "Const":
        return b""
    value = node.attr["value"].SerializeToString(deterministic=True)
    return hashlib.blake2b(value, digest_size=16).digest()
