"""The private names of Keras and TensorFlow that supervised ``fit`` leans on.

(``compat`` holds those of microbatching.) ``NAMES`` is the table of them all: where each
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

import inspect
import itertools
import types
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeVar

import keras
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
from tensorflow.python.framework import (
    auto_control_deps_utils,
    op_def_registry,
)
from tensorflow.python.framework.config import is_op_determinism_enabled

from trainers.backends.tensorflow import data_compat, tensor_values

Answer = TypeVar("Answer")

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
    *data_compat.NAMES,
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
    if op_def_registry.get(tensor_values.READ_VARIABLES) is None:
        wrong.append(f"the operation {tensor_values.READ_VARIABLES} is missing")
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


def dataset_of(iterator: Any) -> Any:
    """The pipeline that an epoch iterator draws from."""
    return iterator._distributed_dataset


def holding(dataset: Any) -> Any:
    """What ``dataset_of`` takes for an epoch iterator over ``dataset``."""
    return types.SimpleNamespace(data_adapter=None, _distributed_dataset=dataset)


def replace_epoch_iterator(replacement: type) -> None:
    """Let ``fit`` and ``evaluate`` make ``replacement`` their epoch iterator."""
    tf_trainer.TFEpochIterator = replacement


def trainer_module() -> ModuleType:
    """The module whose ``fit`` is supervised."""
    return tf_trainer


# --- The model -------------------------------------------------------------------


NO_STATE_IN = frozenset(
    {
        "_layers", "_operations", "_operations_by_depth", "_nodes_by_depth",
        "_compiled_trainable_state", "_self_unconditional_checkpoint_dependencies",
    }
)  # fmt: skip
"""Attributes of Keras with an item for each layer, none of which is a variable, metric
or optimizer: to look at them took a quarter of the time for a model of many layers."""


def _attributes(model: Any) -> Iterator[Any]:
    """Attributes of the model itself, and what lies in those that are containers."""
    for name, value in list(vars(model).items()):
        if name in NO_STATE_IN:
            continue
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
        kind: type = type(layer)  # undeclared, mypy takes it for unhashable
        is_own, is_model = _sort_of(kind)
        if is_own:
            yield from _attributes(layer)
        elif is_model:
            yield vars(layer).get("optimizer")


def precision(model: Any, *, wanted: str) -> str:
    """``wanted`` where any layer computes by that dtype policy, else one that does."""
    found = {
        str(layer.dtype_policy.name)
        for layer in model._flatten_layers()
        if not isinstance(layer, keras.layers.InputLayer)
        # What only holds other layers computes nothing by its own policy.
        and next(iter(layer._flatten_layers(include_self=False)), None) is None
    }
    return wanted if wanted in found else min(found, default=wanted)


def _of_types(answer: Callable[[type], Answer]) -> Callable[[type], Answer]:
    """``answer``, asked once for each type, of which none is kept alive.

    A class may be made for one model, and its methods close over that and its data.
    """
    known: weakref.WeakKeyDictionary[type, Answer] = weakref.WeakKeyDictionary()

    def ask(kind: type) -> Answer:
        try:
            return known[kind]
        except KeyError:
            return known.setdefault(kind, answer(kind))

    return ask


@_of_types
def _sort_of(layer: type) -> tuple[bool, bool]:
    """Whether such layers are the script's own, and whether they are models."""
    return not layer.__module__.startswith("keras."), issubclass(layer, keras.Model)


@_of_types
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
        kind: type = type(value)  # as in ``_inside``
        if not _is_state(kind):
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
            unique.setdefault(id(tensor_values.tensor_of(one)), (group, one))
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


def updates(model: Any) -> int | None:
    """Updates the optimizer made so far; None before it has a counter."""
    iterations = getattr(getattr(model, "optimizer", None), "iterations", None)
    return None if iterations is None else int(tensor_values.array_of(iterations))


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
