"""The functions that TensorFlow traced of a training, or traces when asked.

The private names that this leans on stand in the table of ``fit_compat``.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import auto_control_deps_utils, func_graph

from trainers.backends.tensorflow import replicas, tensor_values
from trainers.backends.tensorflow.functions import operation_types
from trainers.backends.tensorflow.randomness import random_state

TRACES = True
MADE_AGAIN = True


def is_compiled(model: Any) -> bool:
    """Whether its steps are; else they read plain values anew each time."""
    return not getattr(model, "run_eagerly", True)


def trace_train(model: Any, element_spec: Any) -> None:
    """Trace the train function for batches of ``element_spec``; no step is run.

    The same trace is used by the first step. Raises what the script's step raises.
    """
    model.make_train_function()
    _trace(model, model.train_function, model.train_step, element_spec)


def trace_test(model: Any, element_spec: Any) -> None:
    """Trace the function of the validation, as ``trace_train`` does that of a step."""
    model.make_test_function()
    _trace(model, model.test_function, model.test_step, element_spec)


def _trace(model: Any, function: Any, step: Any, element_spec: Any) -> None:
    compiled = next(_compiled(function, set()), None)
    with random_state.generator_made_whole():
        if compiled is None:  # eager: traced once for this alone, as Keras would do it
            tf.function(step, autograph=False).get_concrete_function(element_spec)
        else:
            strategy = replicas.strategy_of(model)
            spec = replicas.iterator_spec(element_spec, strategy)
            compiled.get_concrete_function(spec)


def _compiled(function: Any, seen: set[int]) -> Iterator[Any]:
    """The ``tf.function`` objects that ``function`` calls, through its closure."""
    if id(function) in seen:
        return
    seen.add(id(function))
    if hasattr(function, "_list_all_concrete_functions"):
        yield function
        return
    for cell in getattr(function, "__closure__", None) or ():
        if callable(cell.cell_contents):
            yield from _compiled(cell.cell_contents, seen)


def compiled(model: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, part of a train step, compiled as that of ``model`` is."""
    if model.run_eagerly:
        return function
    return tf.function(
        function,
        autograph=False,
        reduce_retracing=True,
        jit_compile=True if model.jit_compile else None,
    )


def traced_graphs(model: Any) -> list[Any]:
    """The graphs of the model's train function, as traced so far."""
    return [
        concrete.graph
        for function in _compiled(model.train_function, set())
        for concrete in function._list_all_concrete_functions()
    ]


def changed_beside(model: Any, saved: Sequence[Any]) -> int:
    """Variables that the traced train function changes and that are none of ``saved``.

    Keras' own random state is always saved.
    """
    held = [tensor_values.tensor_of(variable) for variable in saved]
    held.append(random_state.keras_generator_variable())
    parts = [part for one in held for part in replicas.copies(one)]
    parts += replicas.tokens(model)
    known = {id(one.handle) for one in parts if hasattr(one, "handle")}
    return len(_changed_handles(model) - known)


def _changed_handles(model: Any) -> set[int]:
    """``id`` of the handles of the variables that the traced train function writes to."""
    graphs = traced_graphs(model)
    return {id(handle) for graph in graphs for handle in changed_in(graph)}


def changed_in(graph: Any) -> list[Any]:
    """Handles of the variables that a traced function writes to."""
    only_read = auto_control_deps_utils.get_read_only_resource_input_indices_graph(
        graph
    )
    read_only = {id(graph.inputs[n]) for n in only_read}
    return [
        handle
        for handle, placeholder in graph.captures
        if _is_variable(handle) and id(placeholder) not in read_only
    ]


def compiled_in(function: Any) -> list[Any]:
    """The ``tf.function`` objects that ``function`` calls, through its closure."""
    return list(_compiled(function, set()))


def _is_variable(handle: Any) -> bool:
    """Whether ``handle`` is a variable's: tables and iterators hold other things."""
    if handle.dtype != tf.resource:
        return False
    data = getattr(handle, "_handle_data", None)
    return data is not None and data.is_set and len(data.shape_and_type) == 1


def draws_unseen(model: Any) -> bool:
    """Whether the traced step draws from a random state that nobody can read."""
    graphs = (traced.as_graph_def() for traced in traced_graphs(model))
    return any(operation_types.in_graph(one) & operation_types.RANDOM for one in graphs)


def functions_that_draw() -> list[str]:
    """Names of all functions traced so far that do.

    Those of tf.data are left out: what their pipelines promise is told elsewhere. Looks
    through every object once (some 50 ms): to be asked once.
    """
    return [
        thing.name
        for thing in gc.get_objects()
        if type(thing) is func_graph.FuncGraph
        and not thing.name.startswith("Dataset")
        and any(one.type in operation_types.RANDOM for one in thing.get_operations())
    ]
