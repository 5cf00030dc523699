"""The allocator's map: every chunk, from the dump that TensorFlow writes on an OOM.

``decode_dump`` reads the ``MemoryDump`` protobuf (field numbers:
``xla/tsl/protobuf/bfc_memory_map.proto``; wire format:
https://protobuf.dev/programming-guides/encoding/) without TensorFlow and without
protobuf: the supervisor has neither. The file comes from a dying process, so anything
that is not such a message is None, never an exception.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from supervisor.core.memory.figures import MemoryFigures, complete


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One chunk of the map (``MemChunk``)."""

    address: int
    size: int
    requested_size: int
    in_use: bool
    op_name: str = ""
    """The op that asked for it, where the build records that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMap:
    """A decoded ``MemoryDump``: every chunk, and the allocator's own counts."""

    allocator: str
    chunks: tuple[Chunk, ...]
    peak_bytes: int | None = None


def handed_out_whole(memory_map: MemoryMap, *, asked_bytes: int) -> Chunk | None:
    """The chunk in use that holds most beyond its request, where that would have been
    enough for ``asked_bytes`` that were refused; None: there is none.

    ``bfc_allocator.cc`` cuts a free chunk only where it is twice as large as the request,
    or larger by 128 MiB.
    """
    used = (one for one in memory_map.chunks if one.in_use)
    most = max(used, key=lambda one: one.size - one.requested_size, default=None)
    if most is None or most.size - most.requested_size < asked_bytes:
        return None
    return most


def figures_of(
    memory_map: MemoryMap,
    *,
    limit_bytes: int | None = None,
    requested_bytes: int | None = None,
) -> MemoryFigures:
    """The map as figures. The limit and the request are not in a dump."""
    free = [chunk.size for chunk in memory_map.chunks if not chunk.in_use]
    used = sum(chunk.size for chunk in memory_map.chunks if chunk.in_use)
    return complete(
        MemoryFigures(
            limit_bytes=limit_bytes,
            in_use_bytes=used,
            requested_bytes=requested_bytes,
            largest_free_bytes=max(free, default=0),
            peak_bytes=memory_map.peak_bytes,
            pool_bytes=used + sum(free),
            free_bytes=sum(free),
            allocator=memory_map.allocator or None,
        )
    )


def decode_dump(content: bytes) -> MemoryMap | None:
    """The ``MemoryDump`` in ``content``; None for anything else."""
    try:
        return _memory_map(content)
    except ValueError:
        return None


def _memory_map(content: bytes) -> MemoryMap | None:
    name, stats = "", b""
    chunks: list[Chunk] = []
    for number, value in _fields(content):
        if number == 1:
            name = _of_kind(bytes, value).decode()
        elif number == 3:
            chunks.append(_chunk(_of_kind(bytes, value)))
        elif number == 5:
            stats = _of_kind(bytes, value)
    if not name and not chunks:
        return None
    peak = _integer(dict(_fields(stats)).get(3))
    return MemoryMap(allocator=name, chunks=tuple(chunks), peak_bytes=peak)


def _chunk(content: bytes) -> Chunk:
    fields = dict(_fields(content))
    return Chunk(
        address=_of_kind(int, fields.get(1, 0)),
        size=max(0, _integer(fields.get(2)) or 0),
        requested_size=max(0, _integer(fields.get(3)) or 0),
        in_use=bool(_of_kind(int, fields.get(8, 0))),
        op_name=_of_kind(bytes, fields.get(5, b"")).decode(errors="replace"),
    )


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) pairs: varints as int, everything else as bytes.

    Raises:
        ValueError: not a protobuf message.
    """
    at = 0
    while at < len(content):
        tag, at = _varint(content, at)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            value, at = _varint(content, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(content, at)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            message = f"no such wire type: {kind}"
            raise ValueError(message)
        if number == 0 or at + size > len(content):
            message = "a field that ends behind its message"
            raise ValueError(message)
        yield number, content[at : at + size]
        at += size


_FIXED_SIZES = {1: 8, 5: 4}
_Kind = TypeVar("_Kind", int, bytes)


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """A base-128 number of at most ten bytes, and where it ends."""
    value = 0
    for index, byte in enumerate(content[at : at + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    message = "a number without end"
    raise ValueError(message)


def _of_kind(kind: type[_Kind], value: int | bytes) -> _Kind:
    if isinstance(value, kind):
        return value
    message = f"no field of the kind {kind}"
    raise ValueError(message)


def _integer(value: int | bytes | None) -> int | None:
    """An ``int64`` field: two's complement in a varint."""
    if value is None:
        return None
    number = _of_kind(int, value)
    return number - (1 << 64) if number >> 63 else number
