"""The private names of TensorFlow, and of Keras on it, that supervised ``fit`` leans on.

``self_test`` looks for each, and for those of ``keras_compat``, before the first step.

| name | why |
| --- | --- |
| ``TensorFlowTrainer.fit`` | the loop that is supervised |
| ``TFEpochIterator`` | its iterator stands between two steps |
| ``global_state``, ``global_seed_generator`` | Keras' global random state |
| ``tf.function._list_all_concrete_functions`` | operations with a hidden random state |
| ``FuncGraph`` | such operations in the functions of a loop of the script's own |
| ``get_read_only_resource_input_indices_graph`` | which variables a step only reads |
| ``context()._rng`` | TensorFlow's eager operation seeds |
| ``EagerTensor``, ``context().device_name`` | a tensor around an array of ours |
| ``stateful_random_ops.global_generator`` | the generator of ``tf.random.get_global_generator`` |
| ``DenseHashTable._empty_key``, ``_deleted_key`` | which of its keys are none |
| ``backend.Variable``, its ``_value``, ``_ReadVariablesOp`` and ``EagerTensor._numpy`` | the values without a copy |
"""

import functools
import inspect
from typing import Any

import tensorflow as tf
from keras.src.backend.common import global_state
from keras.src.backend.tensorflow import trainer as tf_trainer
from keras.src.random import seed_generator
from tensorflow.python.eager import context as eager_context
from tensorflow.python.framework import (
    auto_control_deps_utils,
    op_def_registry,
)
from tensorflow.python.framework.config import is_op_determinism_enabled

from trainers.backends import keras_compat
from trainers.backends.computing_device import (
    ComputingDevice,
    of_gpu,
    this_processor,
)
from trainers.backends.tensorflow import (
    hidden_parts,
    recomputation,
    replicas,
    tensor_values,
)
from trainers.backends.tensorflow.data import data_compat, pipeline_draws
from trainers.backends.tensorflow.functions import call_hooks, graph_effects
from trainers.backends.tensorflow.randomness import random_state, unseeded_draws
from trainers.backends.versions.keras_version import VersionedIterator, of_keras

TAKES_ARRAYS = False
LOADS = False
SLICES = True
WHY_NOT_RECOMPUTED: str | None = None
recompute = recomputation.recompute
GLANCES_COUNT = True
STANDS_IN = False

NAMES: tuple[tuple[Any, str], ...] = (
    (tf_trainer, "TFEpochIterator"),
    (tf_trainer.TensorFlowTrainer, "fit"),
    (tf_trainer.TensorFlowTrainer, "make_train_function"),
    (global_state, "get_global_attribute"),
    (global_state, "set_global_attribute"),
    (seed_generator, "global_seed_generator"),
    (auto_control_deps_utils, "get_read_only_resource_input_indices_graph"),
    (eager_context, "global_seed"),
    (type(eager_context.context()), "_internal_operation_seed"),
    *hidden_parts.NAMES,
    *call_hooks.NAMES,
    *data_compat.NAMES,
    *unseeded_draws.NAMES,
    *pipeline_draws.NAMES,
    *replicas.NAMES,
    *graph_effects.NAMES,
    *keras_compat.NAMES,
    *of_keras.NAMES,
)

IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        tf_trainer.TensorFlowTrainer.fit,
        (
            "epoch_iterator = TFEpochIterator(",
            "self.make_train_function()",
            "callbacks.on_train_begin()",
            "initial_epoch = self._initial_epoch or initial_epoch",
            of_keras.STEPS_OF_FIT,
            "logs = self.train_function(iterator)",
            "self._get_metrics_result_or_logs(logs)",
        ),
    ),
    (getattr(tf_trainer.TFEpochIterator, of_keras.LOOP, None), of_keras.STEPS),
    (seed_generator.global_seed_generator, (random_state.SEED_GENERATOR_LINE,)),
    *hidden_parts.IN_SOURCE,
    *replicas.IN_SOURCE,
    *keras_compat.IN_SOURCE,
)
"""Source lines that our replacements mirror."""


def self_test() -> list[str]:
    """What is not as this module expects it; empty on the versions it supports."""
    wrong = keras_compat.missing(NAMES)
    if op_def_registry.get(tensor_values.READ_VARIABLES) is None:
        wrong.append(f"the operation {tensor_values.READ_VARIABLES} is missing")
    fit = inspect.unwrap(tf_trainer.TensorFlowTrainer.fit)
    if tuple(inspect.signature(fit).parameters) != keras_compat.FIT_PARAMETERS:
        wrong.append("the parameters of fit are others")
    return wrong + keras_compat.other_lines(IN_SOURCE)


_KerasOwn: Any = tf_trainer.TFEpochIterator


class SupervisedEpochIterator(VersionedIterator, _KerasOwn):
    """Keras' epoch iterator on TensorFlow, followed by a supervised ``fit``."""

    @property
    def pipeline(self) -> Any:
        """The ``tf.data.Dataset`` that it iterates."""
        return replicas.undistributed(self._distributed_dataset)

    def let_go(self, pipeline: Any) -> None:
        """Hold ``pipeline`` in the place of the one that was made, on one device."""
        self._distributed_dataset = pipeline

    @property
    def strategy(self) -> Any | None:
        """What parts its batches between replicas; None: nothing does."""
        parted = self._distributed_dataset is not self.pipeline
        return self._distribute_strategy if parted else None


def replace_epoch_iterator() -> None:
    """Let ``fit`` and ``evaluate`` make ours their epoch iterator."""
    tf_trainer.TFEpochIterator = SupervisedEpochIterator


# --- The model -------------------------------------------------------------------


precision = keras_compat.precision


def logs_of(result: Any) -> Any:
    """What of the train function's ``result`` is its logs."""
    return result


def not_run(_arguments: tuple[Any, ...], logs: Any) -> Any:
    """Not asked for: nothing stands in for a step here."""
    return logs


def element_spec_of(model: Any, arguments: dict[str, Any]) -> Any:
    """Shapes and dtypes of a batch of the data that a ``fit`` is given so."""
    iterator = SupervisedEpochIterator(
        **arguments,
        distribute_strategy=model.distribute_strategy,
        steps_per_execution=model.steps_per_execution,
    )
    return iterator.pipeline.element_spec


def zeros_of(element_spec: Any) -> Any:
    """A batch of these shapes and dtypes, of one sample where any number may be."""

    def zeros(one: Any) -> Any:
        return tf.zeros([size or 1 for size in one.shape], one.dtype)

    return tf.nest.map_structure(zeros, element_spec)


def of_any_size(element_spec: Any) -> Any:
    """``element_spec`` for batches of any number of samples."""

    def widened(spec: Any) -> Any:
        if not isinstance(spec, tf.TensorSpec) or not spec.shape.rank:
            return spec
        return tf.TensorSpec([None, *spec.shape[1:]], spec.dtype, spec.name)

    return keras_compat.tree.map_structure(widened, element_spec)


def out_of_memory(text: str) -> Exception:
    """What TensorFlow raises where memory runs out."""
    return tf.errors.ResourceExhaustedError(None, None, text)


def why_not_followed(model: Any, data: Any) -> str | None:
    """Why a ``fit`` of ``model`` on ``data`` cannot be resumed; None if it can."""
    return replicas.why_not_followed(model, data)


def replicas_of(model: Any) -> int:
    """On how many devices at once it trains."""
    return replicas.count(model)


def parts_batches(model: Any) -> bool:
    """Whether each batch is parted between the devices that there are, one or more."""
    return replicas.parts_batches(model)


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


def why_replicas_not_exact(model: Any, validation_data: Any) -> str | None:
    """Why training on several replicas is not the same twice; None if it is."""
    return replicas.why_not_exact(model, validation_data)


@functools.cache
def computing_device() -> ComputingDevice:
    """What it computes on in this process: the first GPU, where it sees any."""
    if not tf.config.list_logical_devices("GPU"):
        return this_processor()
    first, *_ = tf.config.get_visible_devices("GPU")
    details = tf.config.experimental.get_device_details(first)
    return of_gpu(details.get("device_name", "a GPU"))


def finds_no_gpu() -> bool:
    """Whether TensorFlow finds none at all."""
    return not tf.config.list_physical_devices("GPU")


def why_device_not_exact() -> str | None:
    """Why this device's arithmetic is not the same twice; None if it is."""
    if not tf.config.list_logical_devices("GPU") or is_op_determinism_enabled():
        return None
    return (
        "GPU algorithms may add in another order each time: bits are promised only with"
        " deterministic ones (tf.config.experimental.enable_op_determinism)"
    )


def why_step_not_exact(_model: Any, *, alike: bool) -> str | None:  # noqa: ARG001  # of the Protocol
    """What is in a step is asked of its traces."""
    return None
