"""Names of traced functions that do not depend on what else was traced before.

TensorFlow numbers whatever it traces, and XLA's cache asks for the name, too: an attempt
that goes on from a snapshot has its optimizer built when it traces the first step, where
the attempt before had to trace it twice. So it would compile again what is compiled.
Here the number of a function comes of its graph. Whether one may be taken for another is
not decided by that: XLA compares the computation as a whole.
"""

import collections
import functools
import hashlib
import threading
from collections.abc import Callable
from typing import Any

from tensorflow.python.eager.polymorphic_function import atomic_function

MADE_BY = "from_func_graph"
PREFIX = "__inference_"
FIRST = 10**9
"""TensorFlow's own numbers, which other functions still get, do not come so far."""
GRAPHS = 10**9
"""As many graphs are told apart."""
ALIKE = 1000
"""So many functions of one name and graph there are numbers for, in one process."""


def install(before: Callable[[], None] = lambda: None) -> bool:
    """From here on, in this process; False: TensorFlow names otherwise, and nothing is
    done. ``before()`` is called at each function, which XLA may compile thereafter."""
    original = getattr(atomic_function, MADE_BY, None)
    if original is None:
        return False
    named = _Names()

    @functools.wraps(original)
    def from_func_graph(name: Any, graph: Any, *args: Any, **kwargs: Any) -> Any:
        before()
        return original(named.by_graph(name, graph), graph, *args, **kwargs)

    setattr(atomic_function, MADE_BY, from_func_graph)
    return True


class _Names:
    """The names that were given out."""

    def __init__(self) -> None:
        self._counts: collections.Counter[tuple[str, int]] = collections.Counter()
        self._lock = threading.Lock()

    def by_graph(self, name: Any, graph: Any) -> Any:
        """``name``, with another number at its end where TensorFlow numbered it."""
        text = name.decode() if isinstance(name, bytes) else str(name)
        begin, _, number = text.rpartition("_")
        if not text.startswith(PREFIX) or not number.isdigit():
            return name
        digest = graph_digest(graph) % GRAPHS
        with self._lock:
            alike = self._counts[begin, digest]
            self._counts[begin, digest] += 1
        if alike >= ALIKE:
            return name
        return f"{begin}_{FIRST + digest * ALIKE + alike}"


def graph_digest(graph: Any) -> int:
    """Of the operations of ``graph``: their kinds, names and inputs."""
    found = hashlib.blake2b(digest_size=8)
    for operation in graph.get_operations():
        inputs = ",".join(tensor.name for tensor in operation.inputs)
        found.update(f"{operation.type} {operation.name} {inputs}\n".encode())
    return int.from_bytes(found.digest())
