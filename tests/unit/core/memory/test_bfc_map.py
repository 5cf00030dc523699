"""The allocator's dump, read without TensorFlow and without protobuf."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.core.memory.bfc_map import (
    Chunk,
    MemoryMap,
    decode_dump,
    figures_of,
    handed_out_whole,
)
from supervisor.core.memory.figures import (
    MemoryFigures,
    OomVerdict,
    complete,
    fragmentation_of,
    verdict,
)

sizes = st.integers(min_value=0, max_value=2**62)


def varint(number: int) -> bytes:
    """``number`` (64 bits, two's complement) as protobuf writes it."""
    number &= 2**64 - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def field(number: int, value: bytes | float | int) -> bytes:  # noqa: PYI041 - an int is a varint, a float is not
    """One field: int as varint, float as fixed32, bytes with their length."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def encode(memory_map: MemoryMap) -> bytes:
    """A ``MemoryDump`` as TensorFlow would write it, with fields we pass over."""
    out = field(1, memory_map.allocator.encode()) + field(2, field(1, 3))
    for chunk in memory_map.chunks:
        content = field(1, chunk.address) + field(2, chunk.size)
        content += field(3, chunk.requested_size) + field(4, -1)
        content += field(5, chunk.op_name.encode()) + field(8, int(chunk.in_use))
        out += field(3, content)
    stats = field(2, 1)
    if memory_map.peak_bytes is not None:
        stats += field(3, memory_map.peak_bytes)
    return out + field(5, stats) + varint(9 << 3 | 1) + bytes(8)


chunks = st.builds(
    Chunk,
    address=sizes,
    size=sizes,
    requested_size=sizes,
    in_use=st.booleans(),
    op_name=st.text(max_size=8),
)
maps = st.builds(
    MemoryMap,
    allocator=st.text(min_size=1, max_size=8),
    chunks=st.lists(chunks, max_size=5).map(tuple),
    peak_bytes=st.none() | sizes,
)


@settings(deadline=None)
@given(maps)
def test_a_dump_is_read_back_as_it_was_written(memory_map: MemoryMap) -> None:
    """Every field that is used survives, and unknown ones do no harm."""
    assert decode_dump(encode(memory_map)) == memory_map


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_hostile_bytes_are_no_dump_and_no_exception(content: bytes) -> None:
    """Whatever the file holds, the answer is a map or None."""
    decoded = decode_dump(content)
    assert decoded is None or decoded.chunks or decoded.allocator


@settings(deadline=None)
@given(maps, st.data())
def test_a_torn_dump_never_raises(memory_map: MemoryMap, data: st.DataObject) -> None:
    """A file cut anywhere, or with any byte changed, is read or refused."""
    content = bytearray(encode(memory_map))
    cut = data.draw(st.integers(0, len(content)))
    decode_dump(bytes(content[:cut]))
    at = data.draw(st.integers(0, len(content) - 1))
    content[at] ^= data.draw(st.integers(1, 255))
    decode_dump(bytes(content))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 20,
        varint(3 << 3 | 3),
        field(0, b"x"),
        field(1, 7),
        field(3, field(1, b"x")),
        field(3, field(5, 1)),
        field(1, b"\xff\xfe"),
        varint(1 << 3 | 2) + varint(9) + b"short",
    ],
)
def test_what_breaks_the_format_is_no_dump(content: bytes) -> None:
    """Empty, endless, of unknown wire types, of wrong types, not UTF-8, too short."""
    assert decode_dump(content) is None


def test_a_negative_size_counts_as_nothing() -> None:
    """A hostile chunk cannot make the pool smaller than it is."""
    content = field(1, b"a") + field(3, field(2, -5) + field(8, 0))
    decoded = decode_dump(content)
    assert decoded is not None
    assert decoded.chunks[0].size == 0


@settings(deadline=None)
@given(maps)
def test_figures_follow_from_the_chunks(memory_map: MemoryMap) -> None:
    """Pool = in use + free, and fragmentation is DESIGN's formula."""
    figures = figures_of(memory_map, limit_bytes=2**62, requested_bytes=10)
    free = [chunk.size for chunk in memory_map.chunks if not chunk.in_use]
    assert figures.in_use_bytes is not None
    assert figures.pool_bytes == figures.in_use_bytes + sum(free)
    assert figures.largest_free_bytes == max(free, default=0)
    assert figures.fragmentation is not None
    assert 0.0 <= figures.fragmentation <= 1.0


def test_fragmentation_of_nothing_is_zero() -> None:
    """No free memory is not fragmented; one block is not either; two halves are."""
    assert fragmentation_of(free_bytes=0, largest_free_bytes=0) == 0.0
    assert fragmentation_of(free_bytes=8, largest_free_bytes=8) == 0.0
    assert fragmentation_of(free_bytes=8, largest_free_bytes=4) == 0.5


CASES = [
    (MemoryFigures(), None),
    (MemoryFigures(requested_bytes=11, limit_bytes=10), OomVerdict.OVERSIZE),
    (MemoryFigures(requested_bytes=5), None),
    (
        MemoryFigures(requested_bytes=5, limit_bytes=10, in_use_bytes=8),
        OomVerdict.CAPACITY,
    ),
    (MemoryFigures(requested_bytes=5, limit_bytes=10, in_use_bytes=2), None),
    (MemoryFigures(requested_bytes=5, free_bytes=4), OomVerdict.CAPACITY),
    (
        MemoryFigures(requested_bytes=5, free_bytes=6, growth_bytes=5),
        OomVerdict.CAPACITY,
    ),
    (
        MemoryFigures(requested_bytes=5, free_bytes=6, largest_free_bytes=3),
        OomVerdict.FRAGMENTATION,
    ),
    (
        MemoryFigures(requested_bytes=5, free_bytes=6, largest_free_bytes=6),
        OomVerdict.CAPACITY,
    ),
    (MemoryFigures(requested_bytes=5, free_bytes=6), OomVerdict.FRAGMENTATION),
]


@pytest.mark.parametrize(("figures", "kind"), CASES)
def test_the_verdict_needs_proof(
    figures: MemoryFigures, kind: OomVerdict | None
) -> None:
    """Fragmentation is free >= asked and no growth left; a hint proves nothing."""
    assert verdict(figures) == kind


def test_what_follows_is_filled_in_and_nothing_is_overwritten() -> None:
    """Free and growth follow from pool, limit and use; given values stay."""
    figures = complete(MemoryFigures(pool_bytes=8, in_use_bytes=3, limit_bytes=10))
    assert (figures.free_bytes, figures.growth_bytes) == (5, 2)
    assert figures.fragmentation is None
    again = complete(MemoryFigures(free_bytes=4, largest_free_bytes=1, growth_bytes=0))
    assert (again.fragmentation, again.growth_bytes) == (0.75, 0)


def test_a_block_that_was_handed_out_whole_and_was_not_needed_so() -> None:
    """What it holds beyond its request would have been enough; of what is free, or too
    little, there is nothing to say."""

    def chunk(size: int, requested: int, *, in_use: bool = True) -> Chunk:
        return Chunk(address=0, size=size, requested_size=requested, in_use=in_use)

    large, small = chunk(104, 90), chunk(20, 19)
    free = chunk(100, 0, in_use=False)
    found = MemoryMap(allocator="a", chunks=(small, large, free))
    assert handed_out_whole(found, asked_bytes=14) == large
    assert handed_out_whole(found, asked_bytes=15) is None
    assert handed_out_whole(MemoryMap(allocator="a", chunks=()), asked_bytes=1) is None
