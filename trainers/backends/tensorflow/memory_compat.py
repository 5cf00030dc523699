"""The private names of TensorFlow that memory pools, and looking into them, lean on."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.python.client import device_lib
from tensorflow.python.eager import context as eager_context
from tensorflow.python.ops.gen_resource_variable_ops import read_variable_op

from trainers.backends.tensorflow import replicas


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
