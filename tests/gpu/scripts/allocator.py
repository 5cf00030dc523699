"""TensorFlow's allocator on the first GPU, as our operations read it. Prints JSON."""

import json
import os
import time

import tensorflow as tf

from trainers.backends.tensorflow.allocator import native_ops, op_build, peak_readings

MIB = 2**20
gpus = tf.config.list_physical_devices("GPU")
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
asynchronous = os.environ.get("TF_GPU_ALLOCATOR") == "cuda_malloc_async"
if not asynchronous:
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=1024)
    tf.config.set_logical_device_configuration(gpus[0], [limit])


def figures(ops):
    found = ops.figures()
    return (
        None
        if found is None
        else {
            "source": found.source.name,
            "chunks": found.chunks,
            "limit": found.limit,
            "pool": found.pool,
            "in_use": found.in_use,
            "largest_free": found.largest_free,
            "peak": found.peak,
            "fragmentation": found.fragmentation,
        }
    )


def counted():
    return tf.config.experimental.get_memory_info("GPU:0")


with tf.device("GPU:0"):
    first = tf.zeros([MIB])
began = time.perf_counter()
built = op_build.get(native_ops.recipe(), dict(os.environ))
told = {
    "device": peak_readings.device(),
    "tensorflow": tf.version.VERSION,
    "build": {key: str(value) for key, value in tf.sysconfig.get_build_info().items()},
    "capability": tf.config.experimental.get_device_details(gpus[0]),
    "building_seconds": time.perf_counter() - began,
    "built": str(getattr(built, "because", "")),
}
if not told["built"]:
    ops = native_ops.Ops(built)
    told["begin"] = {"ours": figures(ops), "counted": counted()}
    with tf.device("GPU:0"):
        kept = [tf.zeros([4 * MIB]) for _ in range(40)]  # 16 MiB each
    told["full"] = {"ours": figures(ops), "counted": counted()}
    kept = kept[::2]
    told["holes"] = {"ours": figures(ops), "counted": counted()}
    lengths = []
    for _ in range(200):
        began = time.perf_counter()
        ops.figures()
        lengths.append(time.perf_counter() - began)
    told["reading_microseconds"] = 1e6 * sorted(lengths)[100]
    told["map_bytes"] = len(ops.map())
    address, size = ops.address(kept[0])
    told["address"] = {"bytes": size, "not_null": bool(address)}
    try:
        with tf.device("GPU:0"):
            tf.zeros([150 * MIB])  # 600 MiB, of which there is no piece
        told["large"] = "fits"
    except tf.errors.ResourceExhaustedError as error:
        told["large"] = str(error)[:400]
print(json.dumps(told))
