"""Functions of ``tf.data``'s ``map`` that draw without a seed: from the entropy of the run.

Their operations cannot be given a seed (each epoch would draw the same again), and keep
their state where nobody can read it. So each sample brings a seed along, out of a
``Dataset.random`` that is another in each epoch and that is replayed like a shuffle; what
is drawn for the sample is drawn statelessly by it, in parallel as well.

Left as they are, and told by ``pipelines.why_not_exact``: draws inside of a ``tf.function``
that the function calls (it may be traced already), in loops, and by operations that have
no stateless counterpart.

The private names that this leans on:

| name | why |
| --- | --- |
| ``autograph.tf_convert``, ``control_status_ctx`` | the function is converted as it would be |
| ``CondBranchFuncGraph`` | a branch sees the seed of the function that it belongs to |
"""

import functools
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

import tensorflow as tf
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.autograph.impl import api as autograph
from tensorflow.python.framework.func_graph import FuncGraph
from tensorflow.python.ops import control_flow_v2_func_graphs

from trainers.backends.tensorflow.data import data_compat as compat
from trainers.process.script.run_entropy import RunEntropy

NAMES: tuple[tuple[Any, str], ...] = (
    (autograph, "tf_convert"),
    (ag_ctx, "control_status_ctx"),
    (control_flow_v2_func_graphs, "CondBranchFuncGraph"),
)


class _Sample(threading.local):
    """What the function draws by that this thread traces."""

    seed: Any = None
    """A scalar tensor (int64) in the function's graph; None: it has none."""
    stream = 0
    """The number of what is drawn next for the sample."""
    trying = False
    """Whether it is being found out how the function draws."""


_sample = _Sample()


def _graph() -> Any:
    """That of the function which is being traced; a branch belongs to its function."""
    graph: Any = tf.compat.v1.get_default_graph()
    while isinstance(graph, control_flow_v2_func_graphs.CondBranchFuncGraph):
        graph = graph.outer_graph
    return graph


def seed_of_sample() -> Any | None:
    """The seed (2,) int64 of the next draw in the graph that is being traced; None: it is
    not the function of a pipeline, or nested so that it has to do without."""
    if _sample.seed is None or _sample.seed.graph is not _graph():
        return None
    _sample.stream += 1
    return tf.stack([_sample.seed, tf.constant(_sample.stream, tf.int64)])


def is_trying() -> bool:
    """Whether the function that is traced may get a seed for each sample, but for those
    that it calls."""
    return _sample.trying and not isinstance(_graph().outer_graph, FuncGraph)


def install(entropy: RunEntropy) -> None:
    """From now on a ``map`` that draws without a seed is given one for each sample."""
    owner: Any = compat.dataset_class()
    original = owner.map

    @functools.wraps(original)
    def seeded(self: Any, map_func: Any, *args: Any, **kwargs: Any) -> Any:
        if not compat.is_eager_and_unseeded() or _is_inside_keras():
            return original(self, map_func, *args, **kwargs)
        # Whatever comes of it, the next ``map`` gets the same.
        seed, stream = (entropy.draw("tf.data", bits=31) for _ in range(2))
        _sample.trying = True
        try:
            mapped = original(self, map_func, *args, **kwargs)
            if not compat.draws_without_seed(mapped):
                return mapped
            drawing = _by_seed(map_func, stream=stream)
            again = original(_with_seeds(self, seed), drawing, *args, **kwargs)
        finally:
            _sample.trying = False
        if not compat.draws_without_seed(again):
            return again
        fixed = compat.is_op_determinism_enabled()  # refuses what has no seed at all
        return original(self, map_func, *args, **kwargs) if fixed else mapped

    owner.map = seeded


def _is_inside_keras() -> bool:
    """Whether Keras, or we, make this pipeline: how many of those a process makes depends
    on where it resumed, and a script's own must not get other seeds for that."""
    frame: FrameType | None = sys._getframe(2)  # as the standard library does
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package != "tensorflow":
            return package in {"keras", "trainers"}
        frame = frame.f_back
    return False


def _with_seeds(dataset: Any, seed: int) -> Any:
    seeds = tf.data.Dataset.random(seed, rerandomize_each_iteration=True)
    return tf.data.Dataset.zip((dataset, seeds))


def _by_seed(map_func: Any, *, stream: int) -> Callable[[Any, Any], Any]:
    """``map_func`` of a sample and its seed."""
    converted = autograph.tf_convert(map_func, ag_ctx.control_status_ctx())

    @tf.autograph.experimental.do_not_convert
    def drawing(sample: Any, seed: Any) -> Any:
        _sample.seed, _sample.stream = seed, stream
        try:
            # As ``tf.data`` itself takes an element apart.
            return converted(*sample) if type(sample) is tuple else converted(sample)
        finally:
            _sample.seed = None

    return drawing
