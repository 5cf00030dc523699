"""Types of TensorFlow operations that decide what can be promised."""

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


def in_graph(graph: Any) -> set[str]:
    """Those in a ``GraphDef`` and in the functions that it calls."""
    inner = (function.node_def for function in graph.library.function)
    return {node.op for nodes in (graph.node, *inner) for node in nodes}
