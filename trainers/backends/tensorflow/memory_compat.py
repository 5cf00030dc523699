"""The private names of TensorFlow that memory pools, and looking into them, lean on."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.client import device_lib
from tensorflow.python.eager import context as eager_context
from tensorflow.python.ops.gen_resource_variable_ops import read_variable_op

from trainers.backends.tensorflow import replicas

NO_GROWTH = (
    "the script asks for memory growth of a GPU that has a memory limit of ours, which"
    " TensorFlow does not allow: the limit stays, the growth is left out"
)


def when_devices_are_ready(callback: Callable[[], None]) -> bool:
    """Call ``callback`` once, right after TensorFlow has initialised its devices.

    Until then a script may still configure them. False: it was too late already.
    """
    context = eager_context.context()
    if context._initialized:
        return False
    ensure_initialized = context.ensure_initialized

    def ensure_then_call() -> None:
        ensure_initialized()
        if context.__dict__.pop("ensure_initialized", None) is not None:
            callback()

    context.ensure_initialized = ensure_then_call
    return True


def limit_gpus(
    gpus: Sequence[Any], limit_mib: int, notice: Callable[[str], None]
) -> None:
    """Let each of ``gpus`` (physical devices) take so much memory, in MiB, and no more.

    TensorFlow refuses memory growth on a device with a limit: where the script asks for
    it afterwards, it is left out and told. Logical devices that the script makes of one
    share the limit.
    """
    context = eager_context.context()
    for gpu in gpus:
        device = tf.config.LogicalDeviceConfiguration(memory_limit=limit_mib)
        context.set_logical_device_configuration(gpu, [device])
    grow, configure = (
        context.set_memory_growth,
        context.set_logical_device_configuration,
    )

    def set_memory_growth(device: Any, enable: Any) -> None:
        if device in gpus:
            notice(NO_GROWTH)
        else:
            grow(device, enable)

    def set_logical_device_configuration(device: Any, asked: Any) -> None:
        if device in gpus:
            asked = list(asked)
            asked = [
                one._replace(memory_limit=limit)
                for one, limit in zip(
                    asked,
                    shares(limit_mib, [one.memory_limit for one in asked]),
                    strict=True,
                )
            ]
        configure(device, asked)

    context.set_memory_growth = set_memory_growth
    context.set_logical_device_configuration = set_logical_device_configuration


def shares(limit_mib: int, asked: Sequence[int | None]) -> list[int]:
    """What logical devices of one GPU get, in MiB, that ask for so much each: what they
    asked for where all of it fits, else each its part. Together it is no more than the
    limit, but that each gets 1; who says no number gets an equal part of what there is."""
    equal = max(1, limit_mib // max(1, len(asked)))
    wanted = [equal if one is None else min(int(one), limit_mib) for one in asked]
    together = max(limit_mib, sum(wanted))
    found = [max(1, one * limit_mib // together) for one in wanted]
    beyond = sum(found) - max(limit_mib, len(found))  # for those that got their 1
    for _ in range(beyond):
        found[found.index(max(found))] -= 1
    return found


def value_of(variable: Any) -> Any:
    """The present value of a ``tf.Variable`` as a tensor that shares its memory.

    Let go of it before the next step: an assignment while it is held allocates.
    """
    variable = replicas.first(variable)
    handle = getattr(variable, "handle", None)
    return (
        variable.read_value()
        if handle is None
        else read_variable_op(handle, variable.dtype)
    )


def gpu_limit_bytes() -> int | None:
    """The limit of the first GPU's allocator; None without a GPU."""
    if not tf.config.list_logical_devices("GPU"):
        return None
    limits = [
        device.memory_limit
        for device in device_lib.list_local_devices()
        if device.device_type == "GPU"
    ]
    return limits[0] if limits else None
