"""Types of TensorFlow operations that decide what can be promised."""

from collections.abc import Iterator
from typing import Any

RANDOM = frozenset({
    "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal",
    "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoissonV2", "RandomShuffle",
    "Multinomial", "RandomCrop", "SampleDistortedBoundingBoxV2",
})  # fmt: skip
"""Operations that keep a random state in themselves, where nobody can read it."""

CHANGING = frozenset({
    "AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
    "ResourceScatterUpdate", "ResourceScatterAdd", "RngReadAndSkip", "RngSkip",
    "StatefulUniform", "StatefulStandardNormalV2",
})  # fmt: skip
"""Operations that change a variable."""

PYTHON = frozenset({"PyFunc", "EagerPyFunc", "PyFuncStateless"})
"""Operations that call Python."""


def nodes(graph: Any) -> Iterator[Any]:
    """All operations in a ``GraphDef`` and in the functions that it calls."""
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def in_graph(graph: Any) -> set[str]:
    """The types of ``nodes``."""
    return {node.op for node in nodes(graph)}
