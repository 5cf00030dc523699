"""The private names of Keras on JAX, and of JAX, that supervised ``fit`` leans on.

``self_test`` looks for each, and for those of ``keras_compat``, before the first step.

| name | why |
| --- | --- |
| ``JAXTrainer.fit`` | the loop that is supervised |
| ``JAXEpochIterator`` | its iterator stands between two steps |
| ``_jax_state``, ``_jax_state_synced`` | where the loop keeps the values of the variables within an epoch |
| ``Variable._value`` | nothing, for as long as they are kept there |
| ``_one_batch_ahead_iterator`` | batches on their way to a device |
| ``global_state``, ``global_seed_generator`` | Keras' global random state |
"""

import functools
import inspect
import os
from collections.abc import Iterator
from typing import Any, NoReturn

import jax
from keras.src.backend import config
from keras.src.backend.common import global_state
from keras.src.backend.jax import trainer as jax_trainer
from keras.src.distribution import distribution_lib
from keras.src.random import seed_generator
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from typing_extensions import override

from trainers.backends import keras_compat
from trainers.backends.computing_device import (
    ComputingDevice,
    of_gpu,
    this_processor,
)
from trainers.backends.versions.keras_version import VersionedIterator, of_keras

TAKES_ARRAYS = True
LOADS = False
SLICES = True
WHY_NOT_RECOMPUTED: str | None = "that is not done on JAX"
GLANCES_COUNT = False
STANDS_IN = True
DISTRIBUTED = (
    "under keras.distribution this run is watched and restarted, but its fits are not"
    " resumed: after a restart each begins anew"
)


NAMES: tuple[tuple[Any, str], ...] = (
    (jax_trainer, "JAXEpochIterator"),
    (jax_trainer.JAXTrainer, "fit"),
    (jax_trainer.JAXTrainer, "jax_state_sync"),
    (jax_trainer.JAXTrainer, "make_train_function"),
    (getattr(jax_trainer, "JAXEpochIterator", None), "_one_batch_ahead_iterator"),
    (global_state, "get_global_attribute"),
    (global_state, "set_global_attribute"),
    (seed_generator, "global_seed_generator"),
    *keras_compat.NAMES,
    *of_keras.NAMES,
)

IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        jax_trainer.JAXTrainer.fit,
        (
            "epoch_iterator = JAXEpochIterator(",
            "self._symbolic_build(iterator=epoch_iterator)",
            "epoch_iterator.reset()",
            "self.make_train_function()",
            "callbacks.on_train_begin()",
            "initial_epoch = self._initial_epoch or initial_epoch",
            "self._jax_state_synced = True",
            of_keras.STEPS_OF_FIT,
            "if self._jax_state_synced:",
            "purge_model_variables=True",
            "self._jax_state_synced = False",
            "logs, state = self.train_function(state, iterator)",
            "self._jax_state = {",
            "self._get_metrics_result_or_logs(logs)",
        ),
    ),
    (
        jax_trainer.JAXTrainer.jax_state_sync,
        (
            '"trainable_variables"',
            '"non_trainable_variables"',
            '"optimizer_variables"',
            '"metrics_variables"',
        ),
    ),
    (
        ArrayDataAdapter._get_iterator,
        (
            "global_permutation = np.random.permutation(self._num_samples)",
            "indices = np.random.permutation(stop - start) + start",
            "indices = global_permutation[start:stop]",
        ),
    ),
    (
        getattr(jax_trainer.JAXEpochIterator, of_keras.LOOP, None),
        of_keras.STEPS,
    ),
    *keras_compat.IN_SOURCE,
)
"""Source lines that our replacements mirror."""

NOT_DETERMINISTIC = (
    "GPU algorithms may add in another order each time: bits are promised only with"
    " deterministic ones (XLA_FLAGS=--xla_gpu_deterministic_ops=true)"
)


def self_test() -> list[str]:
    """What is not as this module expects it; empty on the versions it supports."""
    wrong = keras_compat.missing(NAMES)
    if config.is_nnx_enabled():
        wrong.append("Flax NNX is enabled, and its variables are others")
    fit = inspect.unwrap(jax_trainer.JAXTrainer.fit)
    if tuple(inspect.signature(fit).parameters) != keras_compat.FIT_PARAMETERS:
        wrong.append("the parameters of fit are others")
    return wrong + keras_compat.other_lines(IN_SOURCE)


class _AdapterBatches:
    """What an adapter hands out, from the beginning each time."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def __iter__(self) -> Iterator[Any]:
        return iter(self._adapter.get_jax_iterator())


_KerasOwn: Any = jax_trainer.JAXEpochIterator


class SupervisedEpochIterator(VersionedIterator, _KerasOwn):
    """Keras' epoch iterator on JAX, followed by a supervised ``fit``."""

    data_adapter: Any
    strategy = None

    @property
    def pipeline(self) -> Any:
        """Its batches, as the adapter hands them out."""
        return _AdapterBatches(self.data_adapter)

    def ahead(self, batches: Iterator[Any]) -> Iterator[Any]:
        """``batches``, each on its way to the device while the one before is used."""
        if jax.default_backend() == "cpu":
            return batches
        found: Iterator[Any] = self._one_batch_ahead_iterator(batches)
        return found

    @override
    def _get_iterator(self) -> Any:
        """Keras' own; the data are begun when the first batch is asked for."""
        before = self.begun
        batches = super()._get_iterator()
        self.begun = before
        return self._noted(batches)

    def _noted(self, batches: Iterator[Any]) -> Iterator[Any]:
        self.begun += 1
        yield from batches


def replace_epoch_iterator() -> None:
    """Let ``fit`` and ``evaluate`` make ours their epoch iterator."""
    jax_trainer.JAXEpochIterator = SupervisedEpochIterator


def element_spec_of(model: Any, arguments: dict[str, Any]) -> Any:
    """Nothing is traced for it; but ``fit`` builds a model from a batch of its data before
    its first epoch, and so it is done here."""
    iterator = SupervisedEpochIterator(
        **arguments, steps_per_execution=model.steps_per_execution
    )
    model._symbolic_build(iterator=iterator)
    iterator.reset()


# --- The model -------------------------------------------------------------------


def logs_of(result: Any) -> Any:
    """What of the train function's ``result`` is its logs."""
    return result[0]


def not_run(arguments: tuple[Any, ...], logs: Any) -> Any:
    """What the train function returns for a step that is not run."""
    return logs, arguments[0]


precision = keras_compat.precision


def zeros_of(_element_spec: Any) -> Any:
    """Not asked for: Keras builds its models without a step here."""
    raise NotImplementedError


def of_any_size(element_spec: Any) -> Any:
    """Nothing is traced for it."""
    return element_spec


def out_of_memory(text: str) -> Exception:
    """What JAX raises where memory runs out."""
    return jax.errors.JaxRuntimeError(f"RESOURCE_EXHAUSTED: {text}")


def why_not_followed(_model: Any, _data: Any) -> str | None:
    """Why a ``fit`` cannot be resumed; None if it can."""
    return None if distribution_lib.distribution() is None else DISTRIBUTED


def replicas_of(_model: Any) -> int:
    """Several devices are not followed."""
    return 1


def parts_batches(_model: Any) -> bool:
    """As above."""
    return False


def why_replicas_not_exact(_model: Any, _validation_data: Any) -> str | None:
    """There are none."""
    return None


def has_own_train_step(model: Any) -> bool:
    """Whether the model's class has a ``train_step`` of the script's own."""
    keras_own = jax_trainer.JAXTrainer.train_step
    return getattr(type(model), "train_step", keras_own) is not keras_own


def updates(_model: Any) -> int | None:
    """Not asked for: batches are counted where they are handed out."""
    return None


@functools.cache
def computing_device() -> ComputingDevice:
    """What it computes on in this process: the first GPU, where it sees any."""
    if jax.default_backend() == "cpu":
        return this_processor()
    return of_gpu(jax.local_devices()[0].device_kind)


def finds_no_gpu() -> bool:
    """Whether JAX finds none at all."""
    asked_for = str(jax.config.jax_platforms or "")
    return jax.default_backend() == "cpu" and not asked_for.startswith("cpu")


def why_device_not_exact() -> str | None:
    """Why this device's arithmetic is not the same twice; None if it is."""
    if jax.default_backend() == "cpu":
        return None
    flags = os.environ.get("XLA_FLAGS", "")
    asked = "--xla_gpu_deterministic_ops" in flags
    return (
        None if asked and "deterministic_ops=false" not in flags else NOT_DETERMINISTIC
    )


def why_step_not_exact(_model: Any, *, alike: bool) -> str | None:  # noqa: ARG001  # of the Protocol
    """What is in a step is asked of its traces."""
    return None


def recompute(_model: Any, _element_spec: Any) -> NoReturn:
    """Nobody asks: ``WHY_NOT_RECOMPUTED`` is looked at before."""
    raise NotImplementedError
