"""Memory that was asked for to be faster, in the words of TensorFlow's allocator."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.advisories.workspace_requests import (
    WorkspaceReader,
    WorkspaceRequests,
)

WARNED = (
    b"2021-11-05 09:30:48.424570: W tensorflow/core/common_runtime/bfc_allocator.cc:271]"
    b" Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.50GiB with"
    b" freed_by_count=0. The caller indicates that this is not a failure, but may mean that"
    b" there could be performance gains if more memory were available.\n"
)
OLDER = WARNED.replace(b"2.50GiB with freed_by_count=0.", b"1019.25MiB.")
FAILED = (
    b"W tsl/framework/bfc_allocator.cc:485] Allocator (GPU_0_bfc) ran out of memory trying"
    b" to allocate 4.00GiB (rounded to 4294967296)requested by op add\n"
)
OF_MAIN_MEMORY = WARNED.replace(b"GPU_0_bfc", b"bfc_cpu_allocator_for_gpu")
LOG = b"Epoch 1\n" + WARNED + FAILED + OF_MAIN_MEMORY + b"x" * 3000 + b"\n" + OLDER


def read(*pieces: bytes) -> WorkspaceRequests:
    """What is found in a log that comes so."""
    reader = WorkspaceReader()
    for piece in pieces:
        reader.feed(piece)
    return reader.found


def test_what_is_no_failure_of_a_gpu_is_counted() -> None:
    """Failures have their own words, and main memory is another matter."""
    assert read(b"") == WorkspaceRequests()
    assert read(FAILED, OF_MAIN_MEMORY) == WorkspaceRequests()
    assert read(LOG) == WorkspaceRequests(count=2, largest_bytes=5 << 29)
    assert read(OLDER).largest_bytes == int(1019.25 * 2**20)


@given(st.lists(st.integers(0, len(LOG)), max_size=12))
def test_wherever_the_log_is_cut_it_says_the_same(places: list[int]) -> None:
    """A request is counted once, in whichever pieces it was read."""
    ends = [0, *sorted(places), len(LOG)]
    pieces = [LOG[a:b] for a, b in itertools.pairwise(ends)]
    assert read(*pieces) == read(LOG)
