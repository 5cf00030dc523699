"""A parallel copy of many arrays, by as many threads as bring something.

One core fills a part of what the memory can take in, and the training thread waits for
the whole: the other cores, idle at a step boundary, take pieces of it. NumPy copies
without the interpreter's lock.
"""

import collections
import contextlib
import functools
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

Pair = tuple[np.ndarray, np.ndarray]
"""Where to, and what: of one shape and dtype."""

PIECE_BYTES = 1024 * 1024
"""What is copied by one call: small enough that nobody waits long for the last one."""

BYTES_PER_THREAD = 2 * PIECE_BYTES
"""Below that, waking a thread takes as long as what it would take over."""

MOST_THREADS = 4
"""Memory is full with a few: https://www.cs.virginia.edu/stream/ has the measure."""


def copy_all(pairs: Sequence[Pair], *, most_threads: int = MOST_THREADS) -> None:
    """Copy each pair's second array into its first, by at most so many threads.

    Raises:
        TypeError, ValueError: one has another dtype or shape than its place.
    """
    nbytes = sum(to.nbytes for to, _ in pairs)
    helpers = min(_cores(), most_threads, nbytes // BYTES_PER_THREAD) - 1
    if helpers < 1:
        _copy(collections.deque(pairs))
        return
    left = collections.deque(piece for pair in pairs for piece in _pieces(pair))
    working: list[Future[None]] = []
    # A thread of the script that trains on after its main thread ended copies alone:
    # the interpreter is shutting down, and no pool takes any more work.
    with contextlib.suppress(RuntimeError):
        for _ in range(helpers):
            one = _threads(os.getpid()).submit(_copy, left)
            working.append(one)  # also where the next one raises
    _copy(left)
    for one in working:
        if not one.cancel():  # not begun: nothing is left for it
            one.result()


def _copy(left: "collections.deque[Pair]") -> None:
    while True:
        try:
            to, value = left.popleft()
        except IndexError:
            return
        np.copyto(to, value, casting="no")


def _pieces(pair: Pair) -> Iterator[Pair]:
    """A large array in parts, where it lies in one piece."""
    to, value = pair
    alike = to.shape == value.shape and to.flags.c_contiguous
    if to.nbytes <= PIECE_BYTES or not alike or not value.flags.c_contiguous:
        yield pair
        return
    flat, source = to.reshape(-1), value.reshape(-1)
    count = PIECE_BYTES // to.itemsize
    for start in range(0, len(flat), count):
        yield flat[start : start + count], source[start : start + count]


@functools.cache
def _cores() -> int:
    return len(os.sched_getaffinity(0))


@functools.cache
def _threads(_process: int) -> ThreadPoolExecutor:
    """Made once in each process: a fork does not take them along."""
    return ThreadPoolExecutor(MOST_THREADS - 1, thread_name_prefix="trainwarden-copy")
