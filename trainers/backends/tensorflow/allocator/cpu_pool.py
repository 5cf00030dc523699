"""The CPU allocator's pool in one piece.

TensorFlow's CPU pool grows in regions of 1, 2, 4, … MiB that are never joined: with
128 MiB of its 300 MiB in one region, it has no place for a tensor of 140 MiB (a
process that asked for that one first has). The largest slice that fits then depends
on what was asked for before, and no plan can hold. A GPU without memory growth gets
its whole pool at once; this gives the CPU the same.

The memory is not touched, so the process does not grow by it.
"""

import tensorflow as tf

from trainers.backends.tensorflow import memory_compat

ROOM_BYTES = 4 * 2**20
"""Asked for is this much less than the limit: the region is the whole limit anyway,
because regions are rounded up to a power of two and then cut to the limit."""

ROW_BYTES = 2**20


def in_one_piece(limit_bytes: int) -> bool:
    """Reserve the pool of ``limit_bytes`` as soon as TensorFlow's devices are ready.

    False: they are already, and the pool has begun to grow in pieces.
    """
    return memory_compat.when_devices_are_ready(lambda: _reserve(limit_bytes))


def _reserve(limit_bytes: int) -> None:
    room = limit_bytes - ROOM_BYTES
    if room <= 0:
        return
    # Each length of a shape is an int32 here: 2 GiB have two.
    rows = [room // ROW_BYTES, ROW_BYTES] if room >= ROW_BYTES else [room]
    with tf.init_scope(), tf.device("CPU:0"):
        tf.raw_ops.Empty(shape=rows, dtype=tf.uint8, init=False)
    tf.config.experimental.reset_memory_stats("CPU:0")
