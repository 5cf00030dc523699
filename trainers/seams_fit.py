# ruff: noqa: SLF001  # the private names of Keras: see the table in seams_fit
"""The private names of Keras and TensorFlow that supervised ``fit`` leans on.

(``seams`` holds those of microbatching.) ``NAMES`` is the table of them all: where each
lives, and why; ``self_test`` looks for each before the first step of a run.

| name | why |
| --- | --- |
| ``TensorFlowTrainer.fit`` | the loop that is supervised |
| ``TFEpochIterator`` | its iterator stands between two steps: code after its ``yield`` runs after every user callback |
| ``_eval_epoch_iterator`` | the data of the validation: where they stand |
| ``TensorBoard._writers`` | what they hold back is before the snapshot |
| ``_initial_epoch`` | where ``fit`` starts counting epochs |
| ``_get_metrics_result_or_logs`` | forgets ``loss`` when an epoch is resumed at its very end, where no step runs |
| ``_symbolic_build`` | makes the variables that a restore needs without running a step |
| ``ArrayDataAdapter`` | its arrays and batch size: the permutation is ours |
| ``PyDatasetAdapter`` | the order of its batches is ours |
| ``NUM_BATCHES_FOR_TENSOR_SPEC`` | batches that Keras takes from a generator to look at |
| ``global_state``, ``GLOBAL_SEED_GENERATOR`` | Keras' global random state |
| ``tf.function._list_all_concrete_functions`` | operations with a hidden random state |
| ``FuncGraph`` | such operations in the functions of a loop of the script's own |
| ``get_read_only_resource_input_indices_graph`` | which variables a step only reads |
| ``context()._rng`` | TensorFlow's eager operation seeds |
| ``EagerTensor``, ``context().device_name`` | a tensor around an array of ours |
| ``Variable._value``, ``_ReadVariablesOp`` and ``EagerTensor._numpy`` | the values without a copy |
"""

import functools
import gc
import inspect
import itertools
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src import tree
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import trainer as tf_trainer
from keras.src.random import seed_generator
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import (
    GeneratorDataAdapter,
)
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from keras.src.trainers.epoch_iterator import EpochIterator
from keras.src.trainers.trainer import Trainer
from tensorflow.python.eager import context as eager_context
from tensorflow.python.eager.execute import execute as eager_execute
from tensorflow.python.framework import (
    auto_control_deps_utils,
    func_graph,
    op_def_registry,
)
from tensorflow.python.framework.config import is_op_determinism_enabled
from tensorflow.python.framework.ops import EagerTensor

from trainers import seams_data

READ_VARIABLES = "_ReadVariablesOp"

LOOKED_AT: int = data_adapter_utils.NUM_BATCHES_FOR_TENSOR_SPEC
"""Batches that Keras takes from a generator before the first step."""

FIT_PARAMETERS = (
    "self", "x", "y", "batch_size", "epochs", "verbose", "callbacks",
    "validation_split", "validation_data", "shuffle", "class_weight", "sample_weight",
    "initial_epoch", "steps_per_epoch", "validation_steps", "validation_batch_size",
    "validation_freq",
)  # fmt: skip

NAMES: tuple[tuple[Any, str], ...] = (
    (tf_trainer, "TFEpochIterator"),
    (tf_trainer.TensorFlowTrainer, "fit"),
    (tf_trainer.TensorFlowTrainer, "make_train_function"),
    (tf_trainer.TFEpochIterator, "_get_iterator"),
    (EpochIterator, "_enumerate_iterator"),
    (EpochIterator, "_interrupted_warning"),
    (EpochIterator, "reset"),
    (Trainer, "_get_metrics_result_or_logs"),
    (Trainer, "_symbolic_build"),
    (PyDatasetAdapter, "_finite_generator"),
    (global_state, "get_global_attribute"),
    (global_state, "set_global_attribute"),
    (seed_generator, "GLOBAL_SEED_GENERATOR"),
    (seed_generator, "global_seed_generator"),
    (array_slicing, "convert_to_sliceable"),
    (data_adapter_utils, "NUM_BATCHES_FOR_TENSOR_SPEC"),
    (auto_control_deps_utils, "get_read_only_resource_input_indices_graph"),
    (eager_context, "global_seed"),
    (type(eager_context.context()), "_internal_operation_seed"),
    *seams_data.NAMES,
)

IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        tf_trainer.TensorFlowTrainer.fit,
        (
            "epoch_iterator = TFEpochIterator(",
            "self.make_train_function()",
            "callbacks.on_train_begin()",
            "initial_epoch = self._initial_epoch or initial_epoch",
            "for begin_step, end_step, iterator in epoch_iterator:",
            "logs = self.train_function(iterator)",
            "self._get_metrics_result_or_logs(logs)",
        ),
    ),
    (
        EpochIterator._enumerate_iterator,
        (
            "self.data_adapter.on_epoch_begin()",
            "self._steps_seen += self.steps_per_execution",
            "if self._num_batches and self._steps_seen >= self._num_batches:",
        ),
    ),
    (
        ArrayDataAdapter.__init__,
        ("self._inputs = inputs", "self._batch_size =", "self._num_samples ="),
    ),
)
"""Source lines that our replacements mirror."""


def _source(function: Any) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return ""


def self_test() -> list[str]:
    """What is not as this module expects it; empty on the versions it supports."""
    wrong = [
        f"{getattr(owner, '__name__', owner)}.{name} is missing"
        for owner, name in NAMES
        if not hasattr(owner, name)
    ]
    if op_def_registry.get(READ_VARIABLES) is None:
        wrong.append(f"the operation {READ_VARIABLES} is missing")
    fit = inspect.unwrap(tf_trainer.TensorFlowTrainer.fit)
    if tuple(inspect.signature(fit).parameters) != FIT_PARAMETERS:
        wrong.append("the parameters of fit are others")
    for function, lines in IN_SOURCE:
        source = _source(function)
        if source:  # without source files there is nothing to compare
            wrong += [
                f"{function.__qualname__} has no {line!r}"
                for line in lines
                if line not in source
            ]
    return wrong


def replace_epoch_iterator(replacement: type) -> None:
    """Let ``fit`` and ``evaluate`` make ``replacement`` their epoch iterator."""
    tf_trainer.TFEpochIterator = replacement


def trainer_module() -> ModuleType:
    """The module whose ``fit`` is supervised."""
    return tf_trainer


# --- Values ----------------------------------------------------------------------


def tensor_of(variable: Any) -> Any:
    """The tf.Variable inside a Keras variable; a tf.Variable as it is."""
    return variable._value if isinstance(variable, keras.Variable) else variable


def array_of(variable: Any) -> np.ndarray:
    """The variable's present value; see ``arrays_of``."""
    return arrays_of([variable])[0]


def arrays_of(variables: Sequence[Any]) -> list[np.ndarray]:
    """The variables' present values, on a CPU without copying them.

    An array is a view of the value, not of the variable: an assignment while it is held
    makes TensorFlow allocate. Let go of them before the next step.

    All on one device are read by one operation: 3 µs a variable, against 12 one by one
    and ten times that by ``read_value``.
    """
    inner = [tensor_of(variable) for variable in variables]
    values: list[Any] = [None] * len(inner)
    places: dict[str | None, list[int]] = {}
    for index, one in enumerate(inner):
        handle = getattr(one, "handle", None)
        places.setdefault(None if handle is None else handle.device, []).append(index)
    for place, indices in places.items():
        members = [inner[index] for index in indices]
        read = (
            [one.read_value() for one in members] if place is None else _read(members)
        )
        for index, value in zip(indices, read, strict=True):
            values[index] = np.asarray(value._numpy())
    return values


def _read(members: Sequence[Any]) -> list[Any]:
    """The values of variables that lie on one device, as eager tensors."""
    context = eager_context.context()
    return eager_execute(
        READ_VARIABLES.encode(),
        len(members),
        inputs=[one.handle for one in members],
        attrs=(
            "N", len(members), "dtypes", [one.dtype.as_datatype_enum for one in members]
        ),
        ctx=context,
    )  # fmt: skip


def assign(variable: Any, array: np.ndarray) -> None:
    """Give ``variable`` the value ``array`` (same shape and dtype)."""
    tensor_of(variable).assign(array)


def framework_array(value: Any) -> np.ndarray | None:
    """The array of a tensor or variable; None for any other value."""
    if isinstance(value, (keras.Variable, tf.Variable)):
        return array_of(value)
    if isinstance(value, tf.Tensor) and hasattr(value, "numpy"):
        return np.asarray(value.numpy())
    return None


def framework_value(existing: Any, array: np.ndarray, kind: str) -> Any:
    """``existing`` with the value ``array`` if it is such a variable, else a new value.

    ``kind``: name of the type that was saved: a variable made in training is made anew.
    """
    if kind.endswith("Variable"):
        if _takes(existing, array):
            assign(existing, array)
            return existing
        maker = keras.Variable if kind.startswith("keras.") else tf.Variable
        return maker(array)
    # What a callback keeps needs no device memory before it is used: a script that
    # keeps more and more of it would run out of it again at once.
    with tf.device("CPU:0"):
        place = eager_context.context().device_name
        kind = tf.as_dtype(array.dtype).as_datatype_enum
        # Not convert_to_tensor: it copies once more, to wherever that may lie.
        return EagerTensor(_aligned_copy(array), place, kind)


def _takes(value: Any, array: np.ndarray) -> bool:
    """Whether ``value`` is a variable of the shape and dtype of ``array``."""
    if not isinstance(value, (keras.Variable, tf.Variable)):
        return False
    inner = tensor_of(value)
    same = inner.dtype == tf.as_dtype(array.dtype)
    return bool(same and inner.shape.is_compatible_with(array.shape))


ALIGNMENT = 64
"""TensorFlow takes an array over as it is, without a copy into its own memory, if it
begins at such an address (``EIGEN_MAX_ALIGN_BYTES``)."""


def _aligned_copy(array: np.ndarray) -> np.ndarray:
    """``array`` in memory of its own: that of a snapshot is written to again."""
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


# --- The model -------------------------------------------------------------------


def _attributes(model: Any) -> Iterator[Any]:
    """Attributes of the model itself, and what lies in those that are containers."""
    for value in list(vars(model).values()):
        if isinstance(value, dict):
            yield from value.values()
        elif isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def _inside(model: Any) -> Iterator[Any]:
    """What layers keep that Keras does not count among their variables.

    That is what the script's own classes have as attributes, and the optimizers of
    models inside of the model. Keras' own layers have nothing of the kind.
    """
    layers = getattr(model, "_flatten_layers", None)
    for layer in () if layers is None else layers(include_self=False):
        if not type(layer).__module__.startswith("keras."):
            yield from _attributes(layer)
        elif isinstance(layer, keras.Model):
            yield vars(layer).get("optimizer")


@functools.cache
def _is_state(kind: type) -> bool:
    """Asked of thousands of attributes a snapshot, of few types."""
    return issubclass(
        kind,
        (
            keras.optimizers.Optimizer,
            keras.Metric,
            keras.Variable,
            tf.Variable,
            tf.random.Generator,
        ),
    )


def _raw(value: Any) -> Any:
    """The variable that ``value`` is, or that a random generator keeps; or None."""
    if isinstance(value, tf.random.Generator):
        return value.state
    return value if isinstance(value, (keras.Variable, tf.Variable)) else None


def listed(model: Any) -> list[tuple[str, Any]]:
    """Every variable that decides the rest of training, once, after what it is.

    Those of the model, its metrics (the loss tracker and compiled ones included), its
    optimizer, and what else a subclass or a layer of one keeps: further optimizers,
    metrics, variables, random generators.
    """
    optimizers, metrics = [getattr(model, "optimizer", None)], list(model.metrics)
    own = []
    for value in itertools.chain(_attributes(model), _inside(model)):
        if not _is_state(type(value)):
            continue
        if isinstance(value, keras.optimizers.Optimizer):
            optimizers.append(value)
        elif isinstance(value, keras.Metric):
            metrics.append(value)
        elif (raw := _raw(value)) is not None:
            own.append(raw)
    groups = (
        ("model", model.variables),
        *(("metric", metric.variables) for metric in metrics),
        *(("optimizer", getattr(one, "variables", ())) for one in optimizers),
        ("own", own),
    )
    unique: dict[int, tuple[str, Any]] = {}
    for group, members in groups:
        for one in members:
            unique.setdefault(id(tensor_of(one)), (group, one))
    return list(unique.values())


def variables(model: Any) -> list[tuple[str, Any]]:
    """What ``listed`` finds, each after a readable name."""
    return [
        (f"{group}:{getattr(one, 'path', None) or getattr(one, 'name', '')}", one)
        for group, one in listed(model)
    ]


def is_distributed(model: Any) -> bool:
    """Whether the model trains under a distribution strategy of several replicas."""
    return model._distribute_strategy is not None or tf.distribute.has_strategy()


def build(model: Any, element_spec: Any) -> None:
    """Make the model's, metrics' and optimizer's variables without running a step."""
    model._symbolic_build(data_batch=element_spec)


def build_inner_optimizers(model: Any, _element_spec: Any) -> None:
    """Make the variables of the optimizers of models inside of the model."""
    for layer in model._flatten_layers(include_self=False):
        optimizer = vars(layer).get("optimizer")
        known = isinstance(optimizer, keras.optimizers.Optimizer)
        if known and not optimizer.built:
            optimizer.build(layer.trainable_variables)


def has_own_train_step(model: Any) -> bool:
    """Whether the model's class has a ``train_step`` of the script's own.

    The state of a loop of the script's own has none at all: there is nothing to trace.
    """
    keras_own = tf_trainer.TensorFlowTrainer.train_step
    return getattr(type(model), "train_step", keras_own) is not keras_own


def trace_train(model: Any, element_spec: Any) -> None:
    """Trace the train function for batches of ``element_spec``; no step is run.

    The same trace is used by the first step. Raises what the script's step raises.
    """
    model.make_train_function()
    _trace(model.train_function, model.train_step, element_spec)


def trace_test(model: Any, element_spec: Any) -> None:
    """Trace the function of the validation, as ``trace_train`` does that of a step."""
    model.make_test_function()
    _trace(model.test_function, model.test_step, element_spec)


def _trace(function: Any, step: Any, element_spec: Any) -> None:
    compiled = next(_compiled(function, set()), None)
    if compiled is None:  # eager: traced once for this alone, as Keras would do it
        tf.function(step, autograph=False).get_concrete_function(element_spec)
    else:
        compiled.get_concrete_function(tf.data.IteratorSpec(element_spec))


def updates(model: Any) -> int | None:
    """Updates the optimizer made so far; None before it has a counter."""
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    return None if iterations is None else int(array_of(iterations))


def why_device_not_exact() -> str | None:
    """Why this device's arithmetic is not the same twice; None if it is."""
    if not tf.config.list_logical_devices("GPU") or is_op_determinism_enabled():
        return None
    return (
        "GPU algorithms may add in another order each time: bits are promised only with"
        " deterministic ones (tf.config.experimental.enable_op_determinism)"
    )


def start_at_epoch(model: Any, epoch: int | None) -> None:
    """Let the next ``fit`` of ``model`` start with ``epoch`` (None: as asked)."""
    model._initial_epoch = epoch


def remember_last_logs(model: Any, logs: Any) -> None:
    """Let an epoch in which no step is left to do end with ``logs``."""
    own = model._get_metrics_result_or_logs

    def result_or_logs(given: Any) -> Any:
        return own(given or logs)

    model._get_metrics_result_or_logs = result_or_logs


def forget_last_logs(model: Any) -> None:
    """Take ``remember_last_logs`` back."""
    if "_get_metrics_result_or_logs" in vars(model):
        del model._get_metrics_result_or_logs


def flush_summaries(board: Any) -> None:
    """Let a TensorBoard callback's writers write what they hold back."""
    for writer in getattr(board, "_writers", {}).values():
        writer.flush()


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


def traced_graphs(model: Any) -> list[Any]:
    """The graphs of the model's train function, as traced so far."""
    return [
        concrete.graph
        for function in _compiled(model.train_function, set())
        for concrete in function._list_all_concrete_functions()
    ]


def read_only_inputs(graph: Any) -> set[int]:
    """The numbers of those inputs of a traced graph that are variables only read."""
    return set(
        auto_control_deps_utils.get_read_only_resource_input_indices_graph(graph)
    )


def traced_operations(model: Any) -> set[str]:
    """Types of all operations in the model's train function, as traced so far."""
    found: set[str] = set()
    for traced in traced_graphs(model):
        graph = traced.as_graph_def()
        found |= {node.op for node in graph.node}
        for inner in graph.library.function:
            found |= {node.op for node in inner.node_def}
    return found


def functions_that_draw(operations: frozenset[str]) -> list[str]:
    """Names of all functions traced so far that use one of ``operations``.

    Those of tf.data are left out: what their pipelines promise is told elsewhere. Looks
    through every object once (some 50 ms): to be asked once.
    """
    return [
        thing.name
        for thing in gc.get_objects()
        if type(thing) is func_graph.FuncGraph
        and not thing.name.startswith("Dataset")
        and any(one.type in operations for one in thing.get_operations())
    ]


# --- Random state ----------------------------------------------------------------


def global_seed() -> int | None:
    """TensorFlow's global seed; None if the script set none."""
    return eager_context.global_seed()


def eager_random() -> Any | None:
    """The ``random.Random`` that eager operation seeds are drawn from, if any."""
    return getattr(eager_context.context(), "_rng", None)


def keras_generator_variable() -> list[Any]:
    """The variable (as a list of one) of Keras' global seed generator, if it exists."""
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    return [] if generator is None else [tensor_of(generator.state)]


def keras_generator_state() -> np.ndarray | None:
    """State (2,) of Keras' global seed generator; None if it does not exist."""
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    return None if generator is None else array_of(generator.state).copy()


def set_keras_generator_state(state: np.ndarray | None) -> None:
    """Put Keras' global seed generator into ``state``; None: let there be none."""
    if state is None:
        global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, None)
    else:
        assign(seed_generator.global_seed_generator().state, state)


__all__ = [
    "ArrayDataAdapter",
    "GeneratorDataAdapter",
    "PyDatasetAdapter",
    "TFDatasetAdapter",
    "array_slicing",
    "keras",
    "tf",
    "tree",
]
