"""Readings of TensorFlow's allocator: in use now, and the peak since the last reset.

The figures count whole chunks, as the allocator hands them out, so they are what
stands against its limit. On the CPU they are asked of the BFC allocator alone
(``TF_CPU_ALLOCATOR_USE_BFC=1``), whose peak can be reset as on a GPU. The allocator
that TensorFlow takes by itself with oneDNN, on some processors, answers too, but counts
no small tensors: a small model would need 0 bytes.
"""

import contextlib
import os

import tensorflow as tf

from trainers.backends.memory.allocator_figures import PeakReading

BFC_ON_CPU = "TF_CPU_ALLOCATOR_USE_BFC"
TRUE = frozenset({"1", "true"})
"""How TensorFlow reads it (tsl/util/env_var.cc)."""


def device() -> str:
    """The device whose memory training fills: the first GPU, else the CPU."""
    return "GPU:0" if tf.config.list_logical_devices("GPU") else "CPU:0"


def read() -> PeakReading | None:
    """The allocator now; None where it keeps no figures (a plain CPU allocator)."""
    name = device()
    if name.startswith("CPU") and os.environ.get(BFC_ON_CPU, "").lower() not in TRUE:
        return None
    try:
        return counts(name)
    except (ValueError, RuntimeError, tf.errors.OpError):
        return None


def counts(name: str) -> PeakReading:
    """The allocator of the device ``name``, which keeps figures. Takes 2 us.

    Raises ValueError, RuntimeError or tensorflow.errors.OpError where it keeps none.
    """
    info = tf.config.experimental.get_memory_info(name)
    return PeakReading(current_bytes=info["current"], peak_bytes=info["peak"])


def reset_peak() -> None:
    """Let the peak start again from what is in use now, where there is one."""
    with contextlib.suppress(ValueError, RuntimeError, tf.errors.OpError):
        tf.config.experimental.reset_memory_stats(device())
