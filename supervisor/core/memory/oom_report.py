"""Allocator figures out of a log: what BFC allocators and PyTorch print on an OOM.

Formats of ``bfc_allocator.cc`` (TensorFlow, later ``tsl``, also in JAX):

- ``ran out of memory trying to allocate 585.94MiB (rounded to 614400000)``; before
  2.0 without the rounded size; "The caller indicates that this is not a failure"
  marks an attempt that was allowed to fail.
- ``Free  at 7975bbaca000 of size 2995773440 next 18…`` (TF 1.x: ``Free at 0x… of
  size …``): the free chunks. ``LargestFreeBlock`` is 0 in every version seen.
- ``Total bytes in pool: … memory_limit_: … available bytes: …`` up to 2.20, ``Total
  size in pool: 66.00MiB memory_limit_: … available size: …`` from 2.21; not in 1.x.
- ``Limit:`` … ``MaxAllocSize:``: five lines in 1.x, eight later; plain integers up
  to 2.20, human-readable from 2.21.

PyTorch (``CUDACachingAllocator.cpp``) says everything in one sentence: under
``set_per_process_memory_fraction`` what is *allowed* as well, and since 2.1 which other
processes are on the device.
"""

import re
from dataclasses import dataclass, replace

from supervisor.core.gpu.gpu_readings import GpuProcess
from supervisor.core.memory.figures import MemoryFigures, complete

_UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE = r"(-?\d+(?:\.\d+)?)\s*([KMGTP]?)(?:i?B|ytes)?"


def size_in_bytes(number: str, unit: str) -> int:
    """``"2.79", "G"`` as 2.79 * 1024**3: all these programs count in 1024s."""
    return int(float(number) * 1024 ** _UNITS[unit[:1].upper()])


_ASKED = re.compile(
    r"Allocator \((?P<name>[^)\s]+)\) ran out of memory trying to allocate "
    + _SIZE
    + r"(?:\s*\(rounded to (?P<rounded>\d+)\))?"
)
_XLA_ASKED = re.compile(
    r"(?:while trying to allocate|memory allocating|cuMemAllocAsync failed to allocate)"
    r"\s+" + _SIZE
)
_SHAPE = re.compile(
    r"OOM when allocating tensor with shape\s?\[(?P<shape>[\d,]*)\]"
    r"(?: and type (?P<type>\w+))?(?:.*? by allocator (?P<name>\S+))?"
)
_CHUNK = re.compile(
    r"\b(Free|InUse|Chunk)\s+(?:at|by)\s+(?:0x)?[0-9a-f]+ of size (\d+)"
)
_STATE = re.compile(r"Size: " + _SIZE + r" \| Requested Size: \S+ \| in_use: 0")
_POOL = re.compile(
    r"Total (?:bytes|size) in pool: "
    + _SIZE
    + r" memory_limit_: "
    + _SIZE
    + r" available (?:bytes|size): "
    + _SIZE
)
_STAT = re.compile(r"^\s*(Limit|InUse|MaxInUse|MaxAllocSize): +" + _SIZE + r"\s*$")
_TORCH = re.compile(r"Tried to allocate " + _SIZE)
_TORCH_PARTS = {
    "capacity": re.compile(
        r"(?:total capac(?:i)?ty of " + _SIZE + r"|" + _SIZE + r" total capacity)"
    ),
    "allowed": re.compile(_SIZE + r" allowed\b"),
    "device_free": re.compile(r"(?:of which )?" + _SIZE + r" (?:is )?free"),
    "allocated": re.compile(_SIZE + r" (?:is allocated by PyTorch|already allocated)"),
    "unallocated": re.compile(
        _SIZE + r" is reserved by PyTorch but unallocated|" + _SIZE + r" cached\b"
    ),
    "reserved": re.compile(_SIZE + r" reserved in total by PyTorch"),
}
_PROCESS = re.compile(r"\bProcess (\d+) has " + _SIZE + r" memory in use")
_ITEM_BYTES = {
    "float": 4, "float32": 4, "half": 2, "float16": 2, "bfloat16": 2, "double": 8,
    "float64": 8, "int32": 4, "int64": 8, "uint8": 1, "int8": 1, "bool": 1,
    "int16": 2, "uint16": 2, "uint32": 4, "uint64": 8, "complex64": 8,
    "complex128": 16,
}  # fmt: skip


def _sized(match: re.Match[str] | None) -> int | None:
    """The first size in ``match``, whichever alternative it stands in."""
    if match is None:
        return None
    number, unit = [part for part in match.groups() if part is not None][:2]
    return size_in_bytes(number, unit)


def torch_figures(text: str) -> MemoryFigures | None:
    """The figures in PyTorch's sentence; None if it is not one.

    Three forms: ``cached`` (up to 1.3: what is reserved and unallocated), ``reserved
    in total`` (1.4 to 1.13, 2.0), ``reserved by PyTorch but unallocated`` (from 2.1).
    """
    asked = _sized(_TORCH.search(text))
    if asked is None:
        return None
    part = {key: _sized(rule.search(text)) for key, rule in _TORCH_PARTS.items()}
    used, unallocated = part["allocated"], part["unallocated"]
    if unallocated is None and part["reserved"] is not None and used is not None:
        unallocated = max(0, part["reserved"] - used)
    pool = None if used is None or unallocated is None else used + unallocated
    limit, growth = part["capacity"], part["device_free"]
    if part["allowed"] is not None:
        limit = min(part["allowed"], limit or part["allowed"])
        left = limit - (pool or used or 0)
        growth = max(0, left if growth is None else min(growth, left))
    return MemoryFigures(
        limit_bytes=limit,
        in_use_bytes=used,
        requested_bytes=asked,
        pool_bytes=pool,
        free_bytes=unallocated,
        growth_bytes=growth,
    )


def processes_named(text: str) -> tuple[GpuProcess, ...]:
    """The other processes on the device that PyTorch's sentence names, each once."""
    found = {
        int(match[1]): size_in_bytes(match[2], match[3])
        for match in _PROCESS.finditer(text)
    }
    return tuple(GpuProcess(pid=pid, bytes=held) for pid, held in found.items())


def requested_by(text: str) -> tuple[int | None, str | None]:
    """(bytes asked for, allocator) in a line about a failed allocation."""
    if match := _ASKED.search(text):
        rounded = match["rounded"]
        plain = size_in_bytes(match[2], match[3])
        return (int(rounded) if rounded else plain), match["name"]
    if match := _SHAPE.search(text):
        item = _ITEM_BYTES.get(match["type"] or "float")
        if item is None:
            return None, match["name"]
        for extent in filter(None, match["shape"].split(",")):
            item *= int(extent)
        return item, match["name"]
    return _sized(_XLA_ASKED.search(text)), None


@dataclass(frozen=True, slots=True)
class LoggedFigures:
    """Figures, and the line (from 1) at which their description begins."""

    line: int
    figures: MemoryFigures


class DumpReader:
    """Collects one allocator's figures from the lines of a log, in order.

    A dump begins with a request that failed, or wherever the excerpt begins; the
    ``Stats`` lines end it. Keeps the first and the last few dumps.
    """

    KEPT = 4

    def __init__(self) -> None:
        self._kept: list[LoggedFigures] = []
        self._line = 0
        self._now = MemoryFigures()
        self._largest = 0
        self._free_sum = 0
        self._map_sum = 0
        """Bytes of all chunks of the map that were shown."""

    @property
    def open(self) -> bool:
        """Whether a dump has begun and its last line has not come yet."""
        return self._line > 0

    def found(self) -> tuple[LoggedFigures, ...]:
        """The dumps so far, the one that is open included."""
        return (*self._kept, *self._current())

    def feed(self, number: int, text: str) -> None:
        """Take one line. Lines that are no part of a dump are passed over."""
        if match := _CHUNK.search(text):
            self._chunk(number, free=match[1] == "Free", size=int(match[2]))
        elif match := _STAT.match(text):
            self._stat(number, match)
        elif match := _POOL.search(text):
            self._begin(number)
            self._now = replace(
                self._now,
                pool_bytes=size_in_bytes(match[1], match[2]),
                limit_bytes=size_in_bytes(match[3], match[4]),
                growth_bytes=size_in_bytes(match[5], match[6]),
            )
        elif match := _STATE.search(text):
            self._begin(number)
            self._largest = max(self._largest, size_in_bytes(match[1], match[2]))
        else:
            self._request(number, text)

    def _chunk(self, number: int, *, free: bool, size: int) -> None:
        self._begin(number)
        self._map_sum += size
        if free:
            self._largest = max(self._largest, size)
            self._free_sum += size

    def _request(self, number: int, text: str) -> None:
        if (torch := torch_figures(text)) is not None:
            self._close()
            self._keep(LoggedFigures(number, complete(torch)))
            return
        asked, name = requested_by(text)
        if asked is None and name is None:
            return
        if "ran out of memory" in text:
            self._close()
            self._begin(number)
        elif self._attach(asked, name):
            return
        self._begin(number)
        self._now = replace(self._now, requested_bytes=asked, allocator=name)

    def _attach(self, asked: int | None, name: str | None) -> bool:
        """Whether the line belongs to the dump before it: give that its request."""
        if self.open or not self._kept:
            return False
        last = self._kept[-1].figures
        if last.requested_bytes is None:
            last = replace(last, requested_bytes=asked)
        if last.allocator is None:
            last = replace(last, allocator=name)
        self._kept[-1] = LoggedFigures(self._kept[-1].line, last)
        return True

    def _stat(self, number: int, match: re.Match[str]) -> None:
        self._begin(number)
        value = size_in_bytes(match[2], match[3])
        if match[1] == "Limit":
            exact = self._now.limit_bytes
            self._now = replace(self._now, limit_bytes=exact or value)
        elif match[1] == "InUse":
            self._now = replace(self._now, in_use_bytes=value)
        elif match[1] == "MaxInUse":
            self._now = replace(self._now, peak_bytes=value)
        else:
            self._close()

    def _begin(self, number: int) -> None:
        if not self.open:
            self._line = number

    def _current(self) -> tuple[LoggedFigures, ...]:
        if not self.open:
            return ()
        now = self._now
        if self._map_is_whole():
            now = replace(
                now,
                pool_bytes=self._map_sum,
                in_use_bytes=self._map_sum - self._free_sum,
                free_bytes=self._free_sum,
                largest_free_bytes=self._largest,
            )
        elif self._largest:
            now = replace(now, largest_free_bytes=self._largest)
        return (LoggedFigures(self._line, complete(now)),)

    def _map_is_whole(self) -> bool:
        """Whether the chunks shown make up the pool: logs are cut and rotated.

        From 2.21 the pool's own size is rounded, to about half a per cent.
        """
        pool = self._now.pool_bytes
        if pool is None:
            return self._map_sum >= (self._now.in_use_bytes or 0) > 0
        return abs(self._map_sum - pool) <= pool / 100 and self._map_sum > 0

    def _close(self) -> None:
        for figures in self._current():
            self._keep(figures)
        self._line, self._now = 0, MemoryFigures()
        self._largest = self._free_sum = self._map_sum = 0

    def _keep(self, figures: LoggedFigures) -> None:
        self._kept.append(figures)
        del self._kept[self.KEPT : -self.KEPT]
