"""A copy by several threads is the same copy."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.snapshots import parallel_copy, tensor_image

MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine with one."""
    monkeypatch.setattr(parallel_copy, "_cores", lambda: 4)


def arrays(sizes: list[int], dtype: str) -> list[np.ndarray]:
    """Arrays of so many bytes, each byte another."""
    rng = np.random.default_rng(len(sizes))
    kind = tensor_image.numpy_dtype(dtype)
    return [
        rng.integers(0, 256, size - size % 8, dtype=np.uint8).view(kind)
        for size in sizes
    ]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(0, 5 * MIB), max_size=6),
    st.sampled_from(["float32", "int8", "bool", "bfloat16", "complex64"]),
)
def test_every_byte_arrives(sizes: list[int], dtype: str) -> None:
    """Whatever the sizes, down to none."""
    values = arrays(sizes, dtype)
    places = [np.zeros_like(value) for value in values]
    parallel_copy.copy_all(list(zip(places, values, strict=True)))
    for to, value in zip(places, values, strict=True):
        assert to.tobytes() == value.tobytes()


def test_arrays_that_do_not_lie_in_one_piece_are_copied_whole() -> None:
    """A transposed source, and a scalar beside it."""
    value = np.arange(3 * MIB, dtype=np.float32).reshape(3, MIB).T
    to, scalar = np.zeros((MIB, 3), np.float32), np.zeros((), np.int64)
    parallel_copy.copy_all([(to, value), (scalar, np.array(7))])
    assert np.array_equal(to, value)
    assert scalar == 7


@pytest.mark.parametrize("shape", [(2, MIB), (4, MIB)])
def test_another_dtype_is_refused_by_whichever_thread(shape: tuple[int, ...]) -> None:
    """Nothing is converted in silence, in a small copy and in one by many."""
    pairs = [
        (np.zeros(shape, np.float32), np.zeros(shape, np.float64)) for _ in range(4)
    ]
    with pytest.raises(TypeError, match="Cannot cast"):
        parallel_copy.copy_all(pairs)


SCRIPT = """
import concurrent.futures.thread as pools, threading, time
import numpy as np
from trainers.snapshots.parallel_copy import copy_all

def train():
    while not pools._shutdown:
        time.sleep(0.01)
    places = [np.zeros(4 << 20, np.uint8) for _ in range(4)]
    copy_all([(place, np.ones(4 << 20, np.uint8)) for place in places])
    print(sum(int(place.sum()) for place in places))

threading.Thread(target=train).start()
"""


def test_a_thread_that_outlives_the_script_copies_all_the_same() -> None:
    """The main thread has ended, and pools take no more work: it copies alone."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == (f"{4 * (4 << 20)}\n", "")
