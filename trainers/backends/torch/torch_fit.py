"""The private names of Keras on PyTorch, and of PyTorch, that supervised ``fit`` leans on.

``self_test`` looks for each, and for those of ``keras_compat``, before the first step.

| name | why |
| --- | --- |
| ``TorchTrainer.fit`` | the loop that is supervised |
| ``TorchEpochIterator`` | its iterator stands between two steps |
| ``Variable._value`` | its tensor, which is changed in place |
| ``Module._buffers``, ``Module._parameters`` | what a model keeps that Keras does not list |
| ``_next_index`` | the batches of a pass that were done are counted, not read |
| ``global_state``, ``global_seed_generator`` | Keras' global random state |
| ``get_device`` | where Keras computes |
"""

import functools
import inspect
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import keras
import torch
from keras.src.backend.common import global_state
from keras.src.backend.torch import core
from keras.src.backend.torch import trainer as torch_trainer
from keras.src.random import seed_generator
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from torch.utils.data import dataloader
from typing_extensions import override

from trainers.backends import keras_compat
from trainers.backends.computing_device import (
    ComputingDevice,
    of_gpu,
    this_processor,
)
from trainers.backends.versions.keras_version import VersionedIterator, of_keras

TAKES_ARRAYS = True
LOADS = True
SLICES = True
WHY_NOT_RECOMPUTED: str | None = "that is not done on PyTorch"
GLANCES_COUNT = False
STANDS_IN = False

NAMES: tuple[tuple[Any, str], ...] = (
    (torch_trainer, "TorchEpochIterator"),
    (torch_trainer.TorchTrainer, "fit"),
    (torch_trainer.TorchTrainer, "make_train_function"),
    (getattr(dataloader, "_BaseDataLoaderIter", dataloader), "_next_index"),
    (core, "get_device"),
    (global_state, "get_global_attribute"),
    (global_state, "set_global_attribute"),
    (seed_generator, "global_seed_generator"),
    *keras_compat.NAMES,
    *of_keras.NAMES,
)

IN_SOURCE: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (
        torch_trainer.TorchTrainer.fit,
        (
            "epoch_iterator = TorchEpochIterator(",
            "self._symbolic_build(iterator=epoch_iterator)",
            "epoch_iterator.reset()",
            "self.make_train_function()",
            "callbacks.on_train_begin()",
            "initial_epoch = self._initial_epoch or initial_epoch",
            of_keras.STEPS_OF_FIT.replace(" iterator in", " data in"),
            "logs = self.train_function(data)",
            "self._get_metrics_result_or_logs(logs)",
        ),
    ),
    (
        core.Variable._direct_assign,
        ("self.value.copy_(value)",),
    ),
    (
        ArrayDataAdapter.get_torch_dataloader,
        ("RandomSampler(range(self._num_samples))", "torch.randperm(len(batch))"),
    ),
    (
        getattr(torch_trainer.TorchEpochIterator, of_keras.LOOP, None),
        of_keras.STEPS,
    ),
    *keras_compat.IN_SOURCE,
)
"""Source lines that our replacements mirror."""

NOT_DETERMINISTIC = (
    "kernels of PyTorch on {} may add in another order each time: bits are promised there"
    " only after torch.use_deterministic_algorithms(True)"
)
DISTRIBUTED = (
    "in a process group of torch.distributed this run is watched and restarted, but its fits"
    " are not resumed: after a restart each begins anew"
)
UNLIKE_BATCHES = (
    "the step is compiled by torch.compile, and batches are not known to be all of one size"
    " (a short last one, say): which of its kernels a batch gets depends on the sizes that came"
    " before, so after a restart sums may be rounded in another way (leave out the rest, or"
    " jit_compile=False)"
)
GRADIENTS = (
    "the train_step of the model never calls zero_grad: gradients that it adds up over"
    " several steps are not saved"
)


def self_test() -> list[str]:
    """What is not as this module expects it; empty on the versions it supports."""
    wrong = keras_compat.missing(NAMES)
    fit = inspect.unwrap(torch_trainer.TorchTrainer.fit)
    if tuple(inspect.signature(fit).parameters) != keras_compat.FIT_PARAMETERS:
        wrong.append("the parameters of fit are others")
    return wrong + keras_compat.other_lines(IN_SOURCE)


class _LoaderBatches:
    """What an adapter's loader hands out, from the beginning each time."""

    def __init__(self, adapter: Any) -> None:
        self._adapter = adapter

    def __iter__(self) -> Iterator[Any]:
        return iter(self._adapter.get_torch_dataloader())


class _CountedLoader:
    """A loader that counts in ``owner`` how often it was drawn from."""

    def __init__(self, owner: Any, loader: Any) -> None:
        self._owner, self._loader = owner, loader

    def __iter__(self) -> Iterator[Any]:
        # At once: it draws from PyTorch's generator as it begins.
        return self._counted(iter(self._loader))

    def _counted(self, batches: Iterator[Any]) -> Iterator[Any]:
        self._owner.begun += 1
        yield from batches


_KerasOwn: Any = torch_trainer.TorchEpochIterator


class SupervisedEpochIterator(VersionedIterator, _KerasOwn):
    """Keras' epoch iterator on PyTorch, followed by a supervised ``fit``."""

    data_adapter: Any
    strategy = None

    @property
    def pipeline(self) -> Any:
        """Its batches, as the adapter's loader hands them out."""
        return _LoaderBatches(self.data_adapter)

    def ahead(self, batches: Iterator[Any]) -> Iterator[Any]:
        """``batches``: what is read ahead is so in the loader."""
        return batches

    @override
    def _get_iterator(self) -> Any:
        """Keras' own; the data are begun when the first batch is asked for."""
        before = self.begun
        loader = super()._get_iterator()
        self.begun = before
        return _CountedLoader(self, loader)


def replace_epoch_iterator() -> None:
    """Let ``fit`` and ``evaluate`` make ours their epoch iterator."""
    torch_trainer.TorchEpochIterator = SupervisedEpochIterator


def element_spec_of(model: Any, arguments: dict[str, Any]) -> Any:
    """Nothing is traced for it; but ``fit`` builds a model from a batch of its data before
    its first epoch, and so it is done here."""
    iterator = SupervisedEpochIterator(
        **arguments, steps_per_execution=model.steps_per_execution
    )
    model._symbolic_build(iterator=iterator)
    iterator.reset()
    adapter = iterator.data_adapter
    kinds = (ArrayDataAdapter, keras_compat.TorchDataLoaderAdapter)
    if not isinstance(adapter, kinds):
        return None  # a batch that is taken is gone
    return lambda: next(iter(adapter.get_torch_dataloader()))


# --- The model -------------------------------------------------------------------


def logs_of(result: Any) -> Any:
    """The train function's ``result`` is its logs."""
    return result


def not_run(_arguments: tuple[Any, ...], logs: Any) -> Any:
    """Not asked for: the loop begins within an epoch without a step before."""
    return logs


precision = keras_compat.precision


def zeros_of(element_spec: Any) -> Any:
    """Any batch: ``element_spec`` takes one."""
    if element_spec is None:
        message = "its data cannot be asked for a batch"
        raise ValueError(message)
    return keras.tree.map_structure(keras.ops.convert_to_tensor, element_spec())


def of_any_size(element_spec: Any) -> Any:
    """Nothing is traced for it."""
    return element_spec


def out_of_memory(text: str) -> Exception:
    """What PyTorch raises where memory runs out."""
    return torch.OutOfMemoryError(text)


def why_not_followed(_model: Any, _data: Any) -> str | None:
    """Why a ``fit`` cannot be resumed; None if it can."""
    several = torch.distributed.is_available() and torch.distributed.is_initialized()
    return DISTRIBUTED if several else None


def replicas_of(_model: Any) -> int:
    """Keras knows of one device here."""
    return 1


def parts_batches(_model: Any) -> bool:
    """As above."""
    return False


def why_replicas_not_exact(_model: Any, _validation_data: Any) -> str | None:
    """There are none."""
    return None


def has_own_train_step(model: Any) -> bool:
    """Whether the model's class has a ``train_step`` of the script's own."""
    keras_own = torch_trainer.TorchTrainer.train_step
    return getattr(type(model), "train_step", keras_own) is not keras_own


def why_step_not_exact(model: Any, *, alike: bool) -> str | None:
    """Why a step need not give the same bits after a restart."""
    if not alike and (model.jit_compile or _compiled_so_far()):
        return UNLIKE_BATCHES
    return GRADIENTS if has_own_train_step(model) and _adds_up(model) else None


def _compiled_so_far() -> int:
    """Functions that ``torch.compile`` has looked at, those of the script's own too."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return int(counters.get("frames", {}).get("total", 0))


def _adds_up(model: Any) -> bool:
    """Whether its train_step leaves to a later step what ``backward`` adds to gradients."""
    code = getattr(inspect.unwrap(type(model).train_step), "__code__", None)
    names = set(getattr(code, "co_names", ()))
    return "backward" in names and "zero_grad" not in names


def updates(_model: Any) -> int | None:
    """Not asked for: batches are counted where they are handed out."""
    return None


def device() -> Any:
    """Where Keras computes."""
    return torch.device(core.get_device())


@functools.cache
def computing_device() -> ComputingDevice:
    """What it computes on in this process: the GPU, where it sees any."""
    found = device()
    if found.type == "cpu":
        return this_processor()
    named = torch.cuda.get_device_name(found) if found.type == "cuda" else str(found)
    return of_gpu(named)


def finds_no_gpu() -> bool:
    """Whether PyTorch finds none at all."""
    return device().type == "cpu" and not torch.cuda.is_available()


def why_device_not_exact() -> str | None:
    """Why this device's arithmetic is not the same twice; None if it is."""
    found = device()
    if found.type == "cpu":
        return None
    exact = found.type == "cuda" and torch.are_deterministic_algorithms_enabled()
    return None if exact else NOT_DETERMINISTIC.format(found)


def recompute(_model: Any, _element_spec: Any) -> NoReturn:
    """Nobody asks: ``WHY_NOT_RECOMPUTED`` is looked at before."""
    raise NotImplementedError
