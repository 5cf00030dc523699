"""How much of each GPU this process may take.

When: two processes share a GPU, or something beside training needs a part of it. Without a
limit TensorFlow and JAX take nearly all of every GPU that they see at their first
operation, PyTorch what it needs. Under ``trainwarden run`` it is ``memory.gpu`` of a spec.

Traps: it has to be said before the first operation (on JAX: before JAX is imported); on
TensorFlow a GPU has a limit *or* growth, growth is the same for all, and a limit of one
takes it from all; a limit is of the
allocator alone, beside which the CUDA context and its libraries take memory of their own; a
pool that grows does not shrink, and a shared one gets fragmented.
"""

import operator
from collections.abc import Mapping

import keras

MIB = 2**20
ON_JAX = (
    "JAX reads it from the environment as it is imported, one part for every GPU: set"
    " XLA_PYTHON_CLIENT_MEM_FRACTION=0.5 for a limit, XLA_PYTHON_CLIENT_PREALLOCATE=false"
    " for growth, before the script starts"
)


def limit_gpu_memory(limits: Mapping[int, int]) -> None:
    """Let this process take so many bytes of each GPU, by its index among those that are
    visible (``CUDA_VISIBLE_DEVICES``), and as much as it wants of the others.

    On TensorFlow the limit is taken in whole MiB, on PyTorch as a part of the GPU's memory.
    Raises TypeError where that is no mapping; ValueError where a limit is below 1 MiB, or
    there is no such GPU; RuntimeError where TensorFlow uses its GPUs already;
    NotImplementedError on JAX, saying what to set.
    """
    whole = _checked(limits)
    match keras.backend.backend():
        case "tensorflow":
            _limit_tensorflow(whole)
        case "torch":
            _limit_torch(whole)
        case _:
            raise NotImplementedError(ON_JAX)


def _checked(limits: object) -> dict[int, int]:
    if not isinstance(limits, Mapping):
        message = (
            f"limits is {limits!r}: give bytes by the number of the GPU, as"
            " {0: 6 * 2**30}"
        )
        raise TypeError(message)
    whole = {_whole(index): _whole(limit) for index, limit in limits.items()}
    if any(index < 0 or limit < MIB for index, limit in whole.items()):
        message = (
            "expected the number of a GPU, from 0, and a limit of 1 MiB or more in"
            f" bytes: {limits!r}"
        )
        raise ValueError(message)
    return whole


def _whole(value: object) -> int:
    """A number as an int; -1: it is none, or not a whole one."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    try:
        return operator.index(value)  # type: ignore[arg-type]  # asked for what it is
    except TypeError:
        return -1


def grow_gpu_memory() -> None:
    """Let this process take memory of GPUs as it needs it, and not all at once; PyTorch does
    so anyway.

    Raises RuntimeError where TensorFlow uses its GPUs already, ValueError where one of them
    has a limit, NotImplementedError on JAX, saying what to set.
    """
    match keras.backend.backend():
        case "tensorflow":
            import tensorflow as tf  # noqa: PLC0415  # not in every environment

            for gpu in tf.config.list_physical_devices("GPU"):
                tf.config.experimental.set_memory_growth(gpu, enable=True)
        case "torch":
            pass
        case _:
            raise NotImplementedError(ON_JAX)


def _limit_tensorflow(limits: Mapping[int, int]) -> None:
    import tensorflow as tf  # noqa: PLC0415  # not in every environment

    gpus = tf.config.list_physical_devices("GPU")
    _check_there(limits, len(gpus))
    for index, limit in limits.items():
        device = tf.config.LogicalDeviceConfiguration(memory_limit=limit // MIB)
        tf.config.set_logical_device_configuration(gpus[index], [device])


def _limit_torch(limits: Mapping[int, int]) -> None:
    import torch  # noqa: PLC0415  # not in every environment

    _check_there(limits, torch.cuda.device_count())
    for index, limit in limits.items():
        whole = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / whole), index)


def _check_there(limits: Mapping[int, int], count: int) -> None:
    """Of all of them, before the first is set."""
    for index in limits:
        if index >= count:
            message = (
                f"there is no GPU {index} here: {count} are visible. Leave its limit out,"
                " or see nvidia-smi and CUDA_VISIBLE_DEVICES"
            )
            raise ValueError(message)
