"""Training on several devices of one process: a copy of each variable for each replica,
and batches that are parted between them.

Copies need not be equal: what a replica counts (metrics), averages (the moving statistics
of a batch normalization) or draws from belongs to it alone, and reading the variable gives
one of them, or their sum. So a state is that of all copies.

| private name | why |
| --- | --- |
| ``DistributedDataset._original_dataset`` | the pipeline that Keras has parted |
| ``DistributedIteratorSpec`` and what it is made of | a step is traced for it without data |
| ``_collective_ops``, ``_launchers``, ``_ordering_token`` | a step changes these, and they are no state |
| ``_distribute_strategy`` of a model | the strategy it was made under |
"""

from typing import Any

import tensorflow as tf
from tensorflow.python.data.ops import dataset_ops
from tensorflow.python.distribute import input_lib

NAMES: tuple[tuple[Any, str], ...] = (
    (dataset_ops, "_VariantDataset"),
    (input_lib, "DistributedIteratorSpec"),
)
IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (input_lib.DistributedDataset.__init__, ("self._original_dataset = dataset",)),
)

FOLLOWED = (tf.distribute.MirroredStrategy, tf.distribute.OneDeviceStrategy)
NOT_FOLLOWED = (
    "under {} this run is watched and restarted, but its fits are not resumed: after a"
    " restart each begins anew (on one machine, tf.distribute.MirroredStrategy is resumed"
    " exactly)"
)
DISTRIBUTED_BY_SCRIPT = (
    "the script distributes its training data itself, so this fit is watched and"
    " restarted, but not resumed: after a restart it begins anew (give fit the"
    " tf.data.Dataset, which it distributes itself, to have it resumed exactly)"
)
VALIDATION_BY_SCRIPT = (
    "the script distributes its validation data itself: after a restart they may come in"
    " another order"
)
ADDED_UP = (
    "several GPUs add up their gradients in an order that nobody promises to be the same"
    " each time"
)


def strategy_of(model: Any) -> Any | None:
    """The strategy that ``model`` trains under; None: none."""
    made_under = getattr(model, "_distribute_strategy", None)
    if made_under is None and not tf.distribute.has_strategy():
        return None
    return made_under or tf.distribute.get_strategy()


def why_not_followed(model: Any, data: Any) -> str | None:
    """Why a ``fit`` of ``model`` on ``data`` cannot be resumed; None if it can."""
    strategy = strategy_of(model)
    if strategy is not None and not isinstance(strategy, FOLLOWED):
        return NOT_FOLLOWED.format(_public_name(strategy))
    return DISTRIBUTED_BY_SCRIPT if _is_distributed(data) else None


def _public_name(strategy: Any) -> str:
    """As scripts write it: some classes have another name inside of TensorFlow."""
    names = ("MultiWorkerMirroredStrategy", "ParameterServerStrategy", "TPUStrategy")
    known = (
        name for name in names if isinstance(strategy, getattr(tf.distribute, name))
    )
    return next(known, type(strategy).__name__)


def count(model: Any) -> int:
    """On how many devices at once ``model`` trains."""
    strategy = strategy_of(model)
    return 1 if strategy is None else int(strategy.num_replicas_in_sync)


def parts_batches(model: Any) -> bool:
    """Whether ``model`` trains under a strategy that parts each batch between the devices
    that it finds, however many these are."""
    return isinstance(strategy_of(model), tf.distribute.MirroredStrategy)


def why_not_exact(model: Any, validation_data: Any) -> str | None:
    """Why bits cannot be promised on the devices of ``model``; None if they can."""
    if _is_distributed(validation_data):
        return VALIDATION_BY_SCRIPT
    strategy = strategy_of(model)
    if strategy is None or count(model) == 1:
        return None
    on_gpus = any("GPU" in one for one in strategy.extended.worker_devices)
    return ADDED_UP if on_gpus else None


def _is_distributed(data: Any) -> bool:
    return isinstance(data, tf.distribute.DistributedDataset)


# --- variables -------------------------------------------------------------------


def copies(variable: Any) -> tuple[Any, ...]:
    """The variables that a ``tf.Variable`` is made of: one for each replica, or itself."""
    if isinstance(variable, tf.distribute.DistributedValues):
        return tuple(variable.values)
    return (variable,)


def first(variable: Any) -> Any:
    """That of the first replica, or itself."""
    if isinstance(variable, tf.distribute.DistributedValues):
        return variable.values[0]
    return variable


def tokens(model: Any) -> list[Any]:
    """Variables by which TensorFlow keeps the sums over replicas in one order: they are
    always zero, and no state."""
    extended = getattr(strategy_of(model), "extended", None)
    launchers = getattr(getattr(extended, "_collective_ops", None), "_launchers", ())
    found = [getattr(one, "_ordering_token", None) for one in launchers]
    return [one for one in found if one is not None]


# --- data ------------------------------------------------------------------------


def undistributed(data: Any) -> Any:
    """The ``tf.data.Dataset`` that ``data`` parts between replicas, or ``data``."""
    return data._original_dataset if _is_distributed(data) else data


def iterator_spec(element_spec: Any, strategy: Any | None) -> Any:
    """What a step on batches of ``element_spec`` is traced for."""
    if strategy is None:
        return tf.data.IteratorSpec(element_spec)
    # Nobody iterates it: what is needed of it is how such batches are parted.
    batches = tf.data.Dataset.range(1).batch(strategy.num_replicas_in_sync)
    shaped = dataset_ops._VariantDataset(batches._variant_tensor, element_spec)
    parted = strategy.experimental_distribute_dataset(shaped)
    return input_lib.DistributedIteratorSpec(
        parted._input_workers,
        parted._element_spec,
        parted._strategy,
        parted._options,
        parted._cardinality,
        parted._enable_get_next_as_optional,
        parted._replica_order,
    )
