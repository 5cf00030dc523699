"""The private names of Keras that supervised ``fit`` leans on, whatever the backend.

(``keras_losses`` holds those of microbatching.) ``NAMES`` and ``IN_SOURCE`` are looked for
before the first step of a run; so are those of the backend (``tensorflow.fit_compat``)
and of the versions (``versions``).

| name | why |
| --- | --- |
| ``EpochIterator`` | it stands between two steps: code after its ``yield`` runs after every user callback |
| ``_eval_epoch_iterator`` | the data of the validation: where they stand |
| ``TensorBoard._writers`` | what they hold back is before the snapshot |
| ``_compile_config`` | whether a callback compiled the model again |
| ``_initial_epoch`` | where ``fit`` starts counting epochs |
| ``_get_metrics_result_or_logs`` | forgets ``loss`` when an epoch is resumed at its very end, where no step runs |
| ``_distribute_strategy`` | variables are made for its devices; a model with one is built before the first step |
| ``_symbolic_build`` | makes the variables that a restore needs without running a step |
| ``ArrayDataAdapter`` | its arrays and batch size: the permutation is ours |
| ``PyDatasetAdapter`` | the order of its batches is ours |
| ``NUM_BATCHES_FOR_TENSOR_SPEC`` | batches that Keras takes from a generator to look at |
| ``Optimizer._learning_rate`` | a variable, unless it follows a schedule |
"""

import contextlib
import inspect
import json
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
from keras.src import tree
from keras.src.trainers.data_adapters import array_slicing, data_adapter_utils
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.generator_data_adapter import (
    GeneratorDataAdapter,
)
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter
from keras.src.trainers.data_adapters.tf_dataset_adapter import TFDatasetAdapter
from keras.src.trainers.data_adapters.torch_data_loader_adapter import (
    TorchDataLoaderAdapter,
)
from keras.src.trainers.trainer import Trainer, model_supports_jit

LOOKED_AT: int = data_adapter_utils.NUM_BATCHES_FOR_TENSOR_SPEC
"""Batches that Keras takes from a generator before the first step."""

CALLBACK_SETTINGS = ("_model", "model", "params")
"""Attributes that ``fit`` sets in a callback."""

PY_DATASET_SETTINGS = ("_workers", "_use_multiprocessing", "_max_queue_size")
"""Attributes that Keras sets in a ``PyDataset``."""

NAMES: tuple[tuple[Any, str], ...] = (
    (Trainer, "_get_metrics_result_or_logs"),
    (Trainer, "_symbolic_build"),
    (PyDatasetAdapter, "_finite_generator"),
    (array_slicing, "convert_to_sliceable"),
    (data_adapter_utils, "NUM_BATCHES_FOR_TENSOR_SPEC"),
)

IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        ArrayDataAdapter.__init__,
        ("self._inputs = inputs", "self._batch_size =", "self._num_samples ="),
    ),
)
"""Source lines that our replacements mirror."""

FIT_PARAMETERS = (
    "self", "x", "y", "batch_size", "epochs", "verbose", "callbacks",
    "validation_split", "validation_data", "shuffle", "class_weight", "sample_weight",
    "initial_epoch", "steps_per_epoch", "validation_steps", "validation_batch_size",
    "validation_freq",
)  # fmt: skip
"""Of ``fit``, whose arguments are bound by name."""


def missing(names: Iterable[tuple[Any, str]]) -> list[str]:
    """A sentence for each of ``names`` that its owner lacks."""
    return [
        f"{getattr(owner, '__name__', owner)}.{name} is missing"
        for owner, name in names
        if not hasattr(owner, name)
    ]


def other_lines(functions: Iterable[tuple[Any, tuple[str, ...]]]) -> list[str]:
    """A sentence for each line that a function's source lacks.

    Without source files there is nothing to compare.
    """
    return [
        f"{function.__qualname__} has no {line!r}"
        for function, lines in functions
        if (source := _source(function))
        for line in lines
        if line not in source
    ]


def _source(function: Any) -> str:
    try:
        return inspect.getsource(inspect.unwrap(function))
    except (OSError, TypeError):
        return ""


# --- The model -------------------------------------------------------------------


def build(model: Any, element_spec: Any) -> None:
    """Make the model's, metrics' and optimizer's variables without running a step."""
    symbolic = getattr(model, "_symbolic_build", None)
    if symbolic is not None:  # a script builds what its own loop trains
        with _as_made(model):
            symbolic(data_batch=element_spec)


def build_by(model: Any, iterator: Any) -> None:
    """Make them from a batch of an epoch iterator, as ``fit`` does on some backends."""
    model._symbolic_build(iterator=iterator)


def build_for_any_size(model: Any, iterator: Any) -> None:
    """As ``build_by``; but a Sequential model that takes its shapes from that batch, and
    would be one for exactly so many samples, is one for any number of them."""
    if model.built or not isinstance(model, keras.Sequential):
        build_by(model, iterator)
        return
    _, _, data = next(iter(iterator))
    batch = data[0] if isinstance(data, list | tuple) else next(data)
    x, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
    if hasattr(x, "shape"):
        model.build((None, *x.shape[1:]))
    model._symbolic_build(data_batch=batch)


def may_be_compiled(model: Any) -> bool:
    """Whether Keras compiles it by itself where there is a GPU."""
    return bool(not model.run_eagerly and model_supports_jit(model))


def build_optimizers(model: Any, _element_spec: Any) -> None:
    """Make the variables of the optimizers of the model, and of models inside of it."""
    for layer in model._flatten_layers():
        optimizer = vars(layer).get("optimizer")
        known = isinstance(optimizer, keras.optimizers.Optimizer)
        if known and layer.built and not optimizer.built:
            with _as_made(model):
                optimizer.build(layer.trainable_variables)


def build_optimizers_of(models: Iterable[Any]) -> None:
    """Make the variables of their optimizers, which the first step would make."""
    for model in models:
        optimizer = getattr(model, "optimizer", None)
        if not isinstance(optimizer, keras.optimizers.Optimizer) or optimizer.built:
            continue
        if model.built:
            optimizer.build(model.trainable_variables)


def build_config(model: Any) -> dict[str, Any] | None:
    """What it takes to build ``model`` as it is built, as JSON; None: it is not, or nothing
    tells of which shapes its input was."""
    try:
        config = model.get_build_config() if model.built else None
        found: dict[str, Any] = json.loads(json.dumps(config or {}))
    except (TypeError, ValueError, AttributeError):
        return None
    return found if found and all(found.values()) else None


def build_as_before(model: Any, config: dict[str, Any]) -> None:
    """Build ``model`` by its ``build_config``."""
    shape = config.get("input_shape")
    more = {} if shape is None else {"input_shape": tuple(shape)}
    model.build_from_config({**config, **more})


def is_built_by_fit(model: Any) -> bool:
    """Whether ``fit`` builds the model before its first step, and not with it."""
    return getattr(model, "_distribute_strategy", None) is not None


def _as_made(model: Any) -> contextlib.AbstractContextManager[Any]:
    """Variables that are made in here are for the devices that ``model`` was made for."""
    strategy = getattr(model, "_distribute_strategy", None)
    return contextlib.nullcontext() if strategy is None else strategy.scope()


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


def compiled_with(model: Any) -> Any | None:
    """What ``compile`` was given, another object each time; None: it was not called."""
    return getattr(model, "_compile_config", None)


def start_at_epoch(model: Any, epoch: int | None) -> None:
    """Let the next ``fit`` of ``model`` start with ``epoch`` (None: as asked)."""
    model._initial_epoch = epoch


def remember_last_logs(model: Any, logs: Any) -> None:
    """Let an epoch in which no step is left to do end with ``logs``."""
    own = getattr(model, "_get_metrics_result_or_logs", None)
    if own is None:  # the state of a loop of the script's own
        return

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


def is_validation(iterator: Any, model: Any) -> bool:
    """Whether ``fit`` made the epoch iterator for its validation data."""
    return iterator is getattr(model, "_eval_epoch_iterator", None)


def learning_rate(optimizer: Any) -> Any | None:
    """The variable of the learning rate; None where it follows a schedule."""
    rate = getattr(optimizer, "_learning_rate", None)
    return rate if hasattr(rate, "assign") else None


# --- The data --------------------------------------------------------------------


def array_data(adapter: Any) -> tuple[Any, int, int, Any]:
    """What the ``ArrayDataAdapter`` was made of: arrays, their samples, samples of a
    batch, and ``shuffle`` as ``fit`` was given it (True, False or ``"batch"``)."""
    return (
        adapter._inputs, adapter._num_samples, adapter._batch_size, adapter._shuffle
    )  # fmt: skip


def array_batches(adapter: Any, *, after: int) -> Iterator[Any]:
    """The batches of the ``ArrayDataAdapter`` as JAX is given them, but for the first
    ``after``: drawn from NumPy's global generator as ``_get_iterator`` does, at once."""
    inputs, samples, size, shuffle = array_data(adapter)
    starts = range(0, samples, size)
    ends = [min(start + size, samples) for start in starts]
    mixed = None
    if shuffle and shuffle != "batch":
        mixed = np.random.permutation(samples)  # noqa: NPY002  # the global one
    if shuffle == "batch":
        for start, end in zip(starts[:after], ends, strict=False):
            np.random.permutation(end - start)  # noqa: NPY002  # as above
    sliceable = array_slicing.convert_to_sliceable(inputs, target_backend="jax")

    def batches() -> Iterator[Any]:
        for start, end in zip(starts[after:], ends[after:], strict=True):
            indices: Any = slice(start, end)
            if shuffle == "batch":
                indices = np.random.permutation(end - start) + start  # noqa: NPY002  # as above
            elif mixed is not None:
                indices = mixed[start:end]
            yield tree.map_structure(
                lambda one, chosen=indices: one.convert_to_jax_compatible(one[chosen]),
                sliceable,
                none_is_leaf=False,
            )

    return batches()


def samples_in(batch: Any) -> int | None:
    """Samples in a batch: the first dimension of its first array."""
    for leaf in tree.flatten(batch):
        shape: Any = getattr(leaf, "shape", ())
        if len(shape) > 0:
            return int(shape[0])
    return None


def first_of_arrays(adapter: Any) -> Any:
    """The first samples of the ``ArrayDataAdapter``, in their own order, as many as a
    batch has, and as JAX is given them."""
    inputs, samples, size, _shuffle = array_data(adapter)
    sliceable = array_slicing.convert_to_sliceable(inputs, target_backend="jax")
    first = slice(0, min(size, samples))
    batch = tree.map_structure(
        lambda one: one.convert_to_jax_compatible(one[first]), sliceable
    )
    return tree.lists_to_tuples(batch)


def pipeline_of(adapter: Any) -> Any:
    """The ``tf.data`` pipeline of a ``TFDatasetAdapter``."""
    return adapter._dataset


def replace_pipeline(adapter: Any, pipeline: Any) -> None:
    """Let it hand out the batches of ``pipeline``."""
    adapter._dataset = pipeline


def peeked_batch(adapter: Any) -> Any:
    """The batch that Keras drew from a generator to look at it."""
    return adapter._first_batches[0]


def forget_glance(adapter: Any) -> None:
    """Let the workers of a ``PyDatasetAdapter`` hand out nothing of the pass that Keras
    began to look at a batch: it would come before the first of the next pass."""
    left = getattr(adapter.enqueuer, "ready_queue", None)
    while left is not None and not left.empty():
        left.get_nowait()


def standardized(adapter: Any, batch: Any) -> Any:
    """``batch`` of a ``PyDataset``, as its adapter hands it on."""
    return adapter._standardize_batch(batch)


__all__ = [
    "ArrayDataAdapter",
    "GeneratorDataAdapter",
    "PyDatasetAdapter",
    "TFDatasetAdapter",
    "TorchDataLoaderAdapter",
    "array_slicing",
    "tree",
]


OF_KERAS = frozenset({"builtins", "keras", "keras_hub", "keras_cv", "keras_nlp"})
"""Packages that Keras itself makes objects of from 3.9 on (saving/serialization_lib.py)."""


def foreign_names(config: Any) -> Iterator[str]:
    """``module:name`` of each function and class that ``config`` of a model or of its
    ``compile`` names and that neither Keras has nor anybody registered.

    Keras before 3.9 imports whatever module stands there (CVE-2025-1550).
    """
    if isinstance(config, list):
        for one in config:
            yield from foreign_names(one)
    if not isinstance(config, dict):
        return
    for one in config.values():
        yield from foreign_names(one)
    module = config.get("module")
    if not module or module.partition(".")[0] in OF_KERAS:
        return
    if keras.saving.get_registered_object(config.get("registered_name")) is None:
        named = "config" if config.get("class_name") == "function" else "class_name"
        yield f"{module}:{config.get(named)}"
