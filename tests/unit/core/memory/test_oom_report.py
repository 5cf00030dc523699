"""Allocator figures out of what programs print."""

import pytest

from supervisor.core.memory.figures import MemoryFigures, OomVerdict, verdict
from supervisor.core.memory.oom_report import (
    DumpReader,
    processes_named,
    requested_by,
    size_in_bytes,
)

TF1 = """\
2017-11-06 bfc_allocator.cc:273] Allocator (GPU_0_bfc) ran out of memory trying to \
allocate 64B.  Current allocation summary follows.
2017-11-06 bfc_allocator.cc:660] Chunk at 0x10000 of size 300
2017-11-06 bfc_allocator.cc:669] Free at 0x10200 of size 60
2017-11-06 bfc_allocator.cc:669] Free at 0x10400 of size 40
2017-11-06 bfc_allocator.cc:685] Stats:
Limit:                         400
InUse:                         300
MaxInUse:                      320
NumAllocs:                      26
MaxAllocSize:                  121

after
"""
TF2 = """\
W tsl/framework/bfc_allocator.cc:485] Allocator (GPU_0_bfc) ran out of memory trying \
to allocate 64B (rounded to 256)requested by op _EagerConst
I tsl/framework/bfc_allocator.cc:1087]   Size: 2.79GiB | Requested Size: 0B | in_use: \
0 | bin_num: 20
I tsl/framework/bfc_allocator.cc:1109] Total bytes in pool: 4000 memory_limit_: 4096 \
available bytes: 96 curr_region_allocation_bytes_: 7005929472
Limit:                        4096
InUse:                        3000
MaxInUse:                     3100
NumAllocs:                      26
MaxAllocSize:                  121
Reserved:                        0
PeakReserved:                    0
LargestFreeBlock:                0
"""
TF221 = """\
W0000 bfc_allocator.cc:502] Allocator (bfc_cpu_allocator_for_gpu) ran out of memory \
trying to allocate 2.00MiB (rounded to 2097152)requested by op x
I0000 bfc_allocator.cc:1105] InUse at 7fe107605440 of size 2097152 next 85
I0000 bfc_allocator.cc:1105] Free  at 7fe107605440 of size 1048576 next 85
I0000 bfc_allocator.cc:1105] Free  at 7fe107605440 of size 1048576 next 85
I0000 bfc_allocator.cc:1119] Total size in pool: 4.00MiB memory_limit_: 4.50MiB \
available size: 512.0KiB curr_region_allocation_bytes_: 64.00MiB
Limit:                         4.50MiB
InUse:                         2.00MiB
MaxInUse:                      3.00MiB
NumAllocs:                           6
MaxAllocSize:                  2.00MiB
"""


def read(text: str) -> list[tuple[int, MemoryFigures]]:
    """All dumps in ``text``: (line, figures)."""
    reader = DumpReader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.feed(number, line)
    return [(found.line, found.figures) for found in reader.found()]


def test_five_stats_lines_of_tensorflow_1() -> None:
    """The pool is the sum of its chunks: 1.x prints no total."""
    [(line, figures)] = read(TF1)
    assert line == 1
    assert figures == MemoryFigures(
        limit_bytes=400,
        in_use_bytes=300,
        requested_bytes=64,
        largest_free_bytes=60,
        fragmentation=0.4,
        peak_bytes=320,
        pool_bytes=400,
        free_bytes=100,
        growth_bytes=0,
        allocator="GPU_0_bfc",
    )
    assert verdict(figures) is OomVerdict.FRAGMENTATION


def test_integers_up_to_2_20() -> None:
    """The rounded request counts; without a map the pool's total gives the free."""
    [(_, figures)] = read(TF2)
    assert figures.requested_bytes == 256
    assert (figures.free_bytes, figures.growth_bytes) == (1000, 96)
    assert figures.largest_free_bytes == int(2.79 * 1024**3)
    assert verdict(figures) is not None


def test_human_readable_sizes_of_2_21() -> None:
    """Where the map is whole, it is exact and the rounded sizes are not used."""
    [(_, figures)] = read(TF221)
    assert figures.in_use_bytes == 2097152
    assert figures.limit_bytes == int(4.5 * 1024**2)
    assert figures.largest_free_bytes == 1048576
    assert figures.fragmentation == 0.5
    assert verdict(figures) is OomVerdict.FRAGMENTATION


def test_a_dump_that_is_cut_is_found_too() -> None:
    """Neither its first line nor its last one is needed; a torn map is not believed."""
    [(line, figures)] = read("\n".join(TF221.splitlines()[2:6]))
    assert line == 1
    assert figures.free_bytes is None or figures.free_bytes > 2 * 1024**2
    assert figures.requested_bytes is None


def test_the_request_may_follow_its_dump() -> None:
    """``OP_REQUIRES failed`` gives the shape where the first line is missing."""
    text = "\n".join(TF1.splitlines()[1:])
    text += "\nOP_REQUIRES failed: OOM when allocating tensor with shape[2,3] and type"
    [(_, figures)] = read(text + " half on device:GPU:0 by allocator GPU_0_bfc\n")
    assert figures.requested_bytes == 12
    assert figures.allocator == "GPU_0_bfc"
    [(_, known)] = read(TF1 + "OOM when allocating tensor with shape[9,9]\n")
    assert known.requested_bytes == 64


def test_many_dumps_keep_the_first_and_the_last() -> None:
    """Memory stays bounded however often an allocator complains."""
    found = read(TF1 * 40)
    assert len(found) == 2 * DumpReader.KEPT
    assert found[0][0] == 1
    assert found[-1][0] == 39 * len(TF1.splitlines()) + 1


def test_a_second_request_ends_a_dump_without_stats() -> None:
    """An allocator that fails twice in a row is two failures."""
    first = TF1.splitlines()[0]
    assert [line for line, _ in read(f"{first}\n{first}\n")] == [1, 2]


NEW = (
    "CUDA out of memory. Tried to allocate 86.00 MiB. GPU 0 has a total capacty of "
    "31.74 GiB of which 53.12 MiB is free. Of the allocated memory 30.16 GiB is "
    "allocated by PyTorch, and 1.16 GiB is reserved by PyTorch but unallocated."
)
MIDDLE = (
    "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 7.79 GiB total "
    "capacity; 4.62 GiB already allocated; 1.11 GiB free; 4.65 GiB reserved in "
    "total by PyTorch)"
)
OLD = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.92 GiB total "
    "capacity; 9.79 GiB already allocated; 5.00 MiB free; 40.00 MiB cached)"
)
TORCH = [
    (NEW, OomVerdict.FRAGMENTATION),
    (MIDDLE, OomVerdict.CAPACITY),
    (OLD, OomVerdict.FRAGMENTATION),
    ("CUDA out of memory. Tried to allocate 80.00 GiB", None),
]


@pytest.mark.parametrize(("text", "kind"), TORCH)
def test_pytorch_says_it_in_one_sentence(text: str, kind: OomVerdict | None) -> None:
    """Reserved and unallocated at least what was asked for is fragmentation."""
    [(_, figures)] = read(text)
    assert verdict(figures) == kind


ALLOWED = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.18 "
    "GiB of which 73.17 GiB is free. Including non-PyTorch memory, this process has 4.79 "
    "GiB memory in use. Process 2438 has 612.00 MiB memory in use. Process 2512 has "
    "612.00 MiB memory in use. 4.75 GiB allowed; Of the allocated memory 4.19 GiB is "
    "allocated by PyTorch, and 1.11 MiB is reserved by PyTorch but unallocated."
)


def test_what_pytorch_allows_a_process() -> None:
    """set_per_process_memory_fraction is the limit, and what is left below it all that
    the pool can still take; the processes beside it are named."""
    [(_, figures)] = read(ALLOWED)
    assert figures.limit_bytes == int(4.75 * 2**30)
    assert figures.growth_bytes == int(4.75 * 2**30) - (figures.pool_bytes or 0)
    assert verdict(figures) is OomVerdict.CAPACITY
    held = {one.pid: one.bytes for one in processes_named(ALLOWED)}
    assert held == {2438: 612 * 2**20, 2512: 612 * 2**20}
    alone = "Tried to allocate 2.00 GiB. 4.75 GiB allowed; Of the allocated memory 4.19 GiB is allocated by PyTorch"
    [(_, figures)] = read(alone)
    assert figures.growth_bytes == int(4.75 * 2**30) - int(4.19 * 2**30)


def test_requests_in_other_words() -> None:
    """XLA says it with and without units; a type nobody knows gives no size."""
    assert requested_by("Out of memory while trying to allocate 4000 bytes.")[0] == 4000
    assert requested_by("Out of memory allocating 6400 bytes.")[0] == 6400
    assert requested_by("while trying to allocate 1.5GiB")[0] == 3 * 2**29
    strange = "OOM when allocating tensor with shape[2] and type fp3 by allocator x"
    assert requested_by(strange) == (None, "x")
    assert requested_by("nothing") == (None, None)
    assert read("nothing at all") == []
    assert size_in_bytes("2", "k") == 2048


def test_a_request_without_a_dump_is_a_failure_of_its_own() -> None:
    """JAX says how much was asked for, and nothing else."""
    [(line, figures)] = read("x\nOut of memory while trying to allocate 4000 bytes.\n")
    assert (line, figures) == (2, MemoryFigures(requested_bytes=4000))
