"""A limit of ours on a GPU, and what the script sets of its own: no GPU is needed to see
what is asked of TensorFlow."""

import subprocess
import sys

from hypothesis import example, given
from hypothesis import strategies as st

from trainers.backends.tensorflow.memory_compat import NO_GROWTH, shares

SCRIPT = """
import tensorflow as tf
from tensorflow.python.eager import context
from trainers.backends.tensorflow import memory_compat

gpus = [context.PhysicalDevice(f"/physical_device:GPU:{n}", "GPU") for n in range(2)]
session = context.context()
session._initialize_physical_devices()
session._physical_devices += gpus
memory_compat.limit_gpus(gpus[:1], 4096, print)
tf.config.experimental.set_memory_growth(gpus[0], True)
tf.config.experimental.set_memory_growth(gpus[1], True)
print("growth", session._memory_growth_map)

def limits():
    found = tf.config.get_logical_device_configuration(gpus[0])
    return [one.memory_limit for one in found]

print("ours", limits())
for kind, asked in ((list, [1024]), (tuple, [9999]), (iter, [3000, 3000])):
    devices = [tf.config.LogicalDeviceConfiguration(memory_limit=one) for one in asked]
    tf.config.set_logical_device_configuration(gpus[0], kind(devices))
    print(asked, limits())
"""


def test_growth_is_left_out_and_devices_share_the_limit() -> None:
    """TensorFlow raises ValueError for growth on a device with a limit, which ended
    scripts at the first restart under a remedy that sets one."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == NO_GROWTH
    assert "GPU:1" in said[1]
    assert "GPU:0" not in said[1]
    assert said[2:] == [
        "ours [4096]",
        "[1024] [1024]",
        "[9999] [4096]",
        "[3000, 3000] [2048, 2048]",
    ]


@given(
    st.integers(1, 10**6),
    st.lists(st.none() | st.integers(1, 10**6), min_size=1, max_size=8),
)
@example(4, [None, None, None, 3])
def test_shares_are_within_the_limit(limit: int, asked: list[int | None]) -> None:
    """And none is more than was asked for."""
    found = shares(limit, asked)
    assert sum(found) <= max(limit, len(asked))
    for one, share in zip(asked, found, strict=True):
        assert 1 <= share <= (one or limit)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8), st.integers(0, 10**6))
def test_what_fits_is_given(asked: list[int], more: int) -> None:
    """However unequal it is; what does not fit is scaled."""
    assert shares(sum(asked) + more, asked) == asked
    assert shares(6144, [5000, 1000]) == [5000, 1000]
    assert shares(3000, [5000, 1000]) == [2250, 750]
