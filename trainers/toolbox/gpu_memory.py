"""How much of each GPU this process may take.

When: two processes share a GPU, or something beside training needs a part of it. Without a
limit TensorFlow and JAX take nearly all of every GPU that they see at their first
operation, PyTorch what it needs. Under ``trainwarden run`` it is ``memory.gpu`` of a spec.

Traps: it has to be said before the first operation (on JAX: before JAX is imported); on
TensorFlow a GPU has a limit *or* growth, and growth is the same for all; a limit is of the
allocator alone, beside which the CUDA context and its libraries take memory of their own; a
pool that grows does not shrink, and a shared one gets fragmented.
"""

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
    Raises ValueError where a limit is below 1 MiB, or there is no such GPU; RuntimeError
    where TensorFlow uses its GPUs already; NotImplementedError on JAX, saying what to set.
    """
    for index, limit in limits.items():
        if index < 0 or limit < MIB:
            message = (
                "expected the number of a GPU, from 0, and a limit of 1 MiB or more in"
                f" bytes: {index}: {limit}"
            )
            raise ValueError(message)
    match keras.backend.backend():
        case "tensorflow":
            _limit_tensorflow(limits)
        case "torch":
            _limit_torch(limits)
        case _:
            raise NotImplementedError(ON_JAX)


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
    for index, limit in limits.items():
        gpu = gpus[_checked(index, len(gpus))]
        device = tf.config.LogicalDeviceConfiguration(memory_limit=limit // MIB)
        tf.config.set_logical_device_configuration(gpu, [device])


def _limit_torch(limits: Mapping[int, int]) -> None:
    import torch  # noqa: PLC0415  # not in every environment

    for index, limit in limits.items():
        _checked(index, torch.cuda.device_count())
        whole = torch.cuda.get_device_properties(index).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / whole), index)


def _checked(index: int, count: int) -> int:
    if index >= count:
        message = f"there is no GPU {index} here: {count} are visible"
        raise ValueError(message)
    return index
