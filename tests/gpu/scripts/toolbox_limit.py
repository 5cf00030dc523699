"""``toolbox_limit.py limit|grow``: what the toolbox lets this process take of a GPU.

Prints JSON: whether half of the limit and twice the limit can be had, and how much of the
GPU is taken once a first small tensor is there.
"""

import json
import sys

import keras

from trainers.toolbox.gpu_memory import grow_gpu_memory, limit_gpu_memory

LIMIT = 2**30
FLOAT_BYTES = 4


def had(nbytes):
    """Whether so many bytes can be had in one piece; else what is said."""
    try:
        keras.ops.convert_to_numpy(keras.ops.zeros([nbytes // FLOAT_BYTES])[:1])
    except Exception as error:  # each framework raises its own
        return f"{type(error).__module__}.{type(error).__name__}: {error}"[:300]
    return ""


def taken():
    """Bytes of the GPU that are not free: of all processes on it."""
    import pynvml

    pynvml.nvmlInit()
    return pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(0)).used


before = taken()
if sys.argv[1] == "limit":
    limit_gpu_memory({0: LIMIT})
else:
    grow_gpu_memory()
small = had(2**20)
told = {"small": small, "taken": taken() - before}
print(json.dumps(told | {"half": had(LIMIT // 2), "twice": had(2 * LIMIT)}))
