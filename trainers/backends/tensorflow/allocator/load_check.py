"""The trial of a freshly built library, in a process of its own: ``load_check.py LIBRARY``.

A library that was compiled against other headers than those of the running TensorFlow
would take training down with it. Here it takes down nobody.
"""

import sys

import tensorflow as tf


def main(library: str) -> int:
    """0: the map agrees with what the allocator counts, and addresses are told."""
    ops = tf.load_op_library(library)
    with tf.device("CPU:0"):
        kept = tf.zeros([2**20], tf.uint8)
        figures = ops.trainwarden_allocator_figures().numpy()
        content = ops.trainwarden_allocator_map().numpy()
        address = ops.trainwarden_tensor_address(kept).numpy()
    counted = tf.config.experimental.get_memory_info("CPU:0")["current"]
    if figures[0] != 1 or not content or address[0] == 0 or address[1] != 2**20:
        sys.stderr.write(f"no map: {figures.tolist()}\n")
        return 1
    if not 2**20 <= figures[4] <= 2 * counted:
        sys.stderr.write(f"{figures[4]} bytes in use, {counted} counted\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
