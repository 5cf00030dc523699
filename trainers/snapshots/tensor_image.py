# ruff: noqa: EM101, EM102, TRY003  # these exceptions are their sentences
"""The safetensors layout: an 8-byte length, a JSON header, then the raw data.

Written by us because the training thread copies straight into the image of the file
(one copy, no second buffer). Format: https://github.com/huggingface/safetensors: the
data follow each other without holes, ``data_offsets`` count from the header's end.
"""

import functools
import json
import math
import mmap
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainers.snapshots.parallel_copy import Pair, copy_all

_LENGTH = struct.Struct("<Q")
_ALIGNMENT = 64
_GROUP_BYTES = 32 * 1024 * 1024
_COPIED_TWICE_BYTES = 64 * 1024
"""Of values that do not last: so few are copied aside rather than into their place."""

DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "complex64": "C64",
}  # fmt: skip
"""NumPy's name of a dtype → the format's. Others cannot be stored."""


class DamagedTensorsError(Exception):
    """The file is not what it should be; the text says how."""


ReadAll = Callable[[Sequence[Any]], Sequence[Any]]
ArrayOf = Callable[[Any], Any]


def _as_it_is(value: Any) -> Any:
    return value


class Tensor(NamedTuple):
    """A tensor to store: its ``name``, and where its value is read when it is copied.

    (One for each variable is made while training waits: a dataclass takes twice as long.)
    """

    name: str
    dtype: str
    """NumPy's name."""
    shape: tuple[int, ...]
    source: Any
    read_all: ReadAll
    """Returns the value of each source; called in the training thread for all tensors
    that share it at once, which is many times as fast."""
    lasting: bool = False
    """What ``read_all`` returns stays as it is, whatever becomes of the source."""
    array_of: ArrayOf = _as_it_is
    """Returns the array (shape ``shape``) of a value that was read, in any thread."""

    def read(self) -> Any:
        """The present value, as an array."""
        return self.array_of(self.read_all([self.source])[0])

    @property
    def nbytes(self) -> int:
        """Size of the data in bytes."""
        return _nbytes(self.dtype, self.shape)

    @property
    def layout(self) -> tuple[str, str, tuple[int, ...]]:
        """What decides where the tensor lies in the image."""
        return self[:3]


def of_array(name: str, array: np.ndarray) -> Tensor:
    """``array`` as a tensor to store."""
    return Tensor(name, array.dtype.name, array.shape, array, _as_it_is)


def numpy_dtype(name: str) -> np.dtype:
    """The dtype called ``name``, those of ml_dtypes included. Raises TypeError."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # noqa: PLC0415  # there where TensorFlow is

        found: np.dtype = np.dtype(getattr(ml_dtypes, name))
        return found


@functools.cache
def _nbytes(dtype: str, shape: tuple[int, ...]) -> int:
    return math.prod(shape) * numpy_dtype(dtype).itemsize


def _header(tensors: Sequence[Tensor]) -> bytes:
    """Header with its length before it, padded so that the data are aligned."""
    entries, offset = {}, 0
    for tensor in tensors:
        entries[tensor.name] = {
            "dtype": DTYPES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(_LENGTH.size + len(text)) % _ALIGNMENT)
    return _LENGTH.pack(len(text)) + text


def _anonymous(nbytes: int) -> mmap.mmap:
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
    return mmap.mmap(-1, nbytes, flags=flags)


def layout_of(
    tensors: Sequence[Tensor],
) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    """What decides whether tensors fit an image made for others."""
    return tuple(tensor.layout for tensor in tensors)


class Image:
    """The memory image of a tensor file: allocated once, filled again and again."""

    def __init__(
        self,
        tensors: Sequence[Tensor],
        *,
        allocate: Callable[[int], mmap.mmap] | None = None,
    ) -> None:
        """Allocate and touch the memory for tensors of this layout.

        ``allocate(nbytes)`` returns the memory to use; without it, anonymous memory.
        """
        # The widest items first: then every tensor is aligned without holes.
        self._order = sorted(
            range(len(tensors)), key=lambda i: -numpy_dtype(tensors[i].dtype).itemsize
        )
        ordered = [tensors[i] for i in self._order]
        header = _header(ordered)
        self.layout = layout_of(tensors)
        self.nbytes = len(header) + sum(tensor.nbytes for tensor in ordered)
        self._map = (allocate or _anonymous)(self.nbytes)
        self._map[: len(header)] = header
        self.content = memoryview(self._map)
        self._views = self._make_views(ordered, len(header))

    def _make_views(self, ordered: list[Tensor], offset: int) -> list[np.ndarray]:
        views = []
        for tensor in ordered:
            dtype = numpy_dtype(tensor.dtype)
            count = math.prod(tensor.shape)
            view = np.frombuffer(self._map, dtype, count, offset) if count else None
            views.append(np.empty(tensor.shape, dtype) if view is None else view)
            offset += tensor.nbytes
        return [
            view.reshape(tensor.shape)
            for view, tensor in zip(views, ordered, strict=True)
        ]

    def fill(self, tensors: Sequence[Tensor]) -> list[Pair]:
        """Read the present values and copy them in: all that training waits for.

        Some are read, then those are copied: in turn, reading one was four times as
        slow as the copy of the one before had emptied the caches. Not all at once:
        values of a GPU are copies in the host's memory until they are let go.

        Returns what is left to be copied (by ``copy_all``), beside training: the last
        of them, at most 32 MiB of ``lasting`` values. They keep their memory until then.
        """
        group: list[tuple[np.ndarray, Tensor]] = []
        nbytes = 0
        for view, index in zip(self._views, self._order, strict=True):
            if nbytes + view.nbytes > _GROUP_BYTES:
                _copy(group)
                group, nbytes = [], 0
            group.append((view, tensors[index]))
            nbytes += view.nbytes
        return _copy(group, but_lasting=nbytes <= _GROUP_BYTES)

    def pairs(self, tensors: Sequence[Tensor], values: Sequence[Any]) -> list[Pair]:
        """Where each of ``values`` goes, and its array; they are as ``held`` gave them."""
        return [
            (view, tensors[index].array_of(values[index]))
            for view, index in zip(self._views, self._order, strict=True)
        ]


def held(tensors: Sequence[Tensor]) -> list[Any] | None:
    """The present values, to be copied beside training: it waits for no copy of them.

    They keep their memory until they are let go of. None: they are more than 32 MiB, or
    too many of them do not last, and would be copied twice.
    """
    nbytes = {True: 0, False: 0}
    for tensor in tensors:
        nbytes[tensor.lasting] += _nbytes(tensor.dtype, tensor.shape)
    if nbytes[True] > _GROUP_BYTES or nbytes[False] > _COPIED_TWICE_BYTES:
        return None
    return [
        value if tensor.lasting else np.array(tensor.array_of(value))
        for tensor, value in zip(tensors, _read(tensors), strict=True)
    ]


def _read(tensors: Sequence[Tensor]) -> list[Any]:
    """The value of each, read together with those of its kind."""
    alike: dict[ReadAll, list[int]] = {}
    for index, tensor in enumerate(tensors):
        alike.setdefault(tensor.read_all, []).append(index)
    values: list[Any] = [None] * len(tensors)
    for read_all, indices in alike.items():
        read = read_all([tensors[index].source for index in indices])
        for index, value in zip(indices, read, strict=True):
            values[index] = value
    return values


def _copy(
    group: Sequence[tuple[np.ndarray, Tensor]], *, but_lasting: bool = False
) -> list[Pair]:
    """Read all of ``group`` and copy it; returns what is left to be copied."""
    now: list[Pair] = []
    later: list[Pair] = []
    values = _read([tensor for _, tensor in group])
    for (view, tensor), value in zip(group, values, strict=True):
        left = but_lasting and tensor.lasting
        (later if left else now).append((view, tensor.array_of(value)))
    copy_all(now)
    return later


def parse(content: memoryview) -> Mapping[str, np.ndarray]:
    """The tensors in a file's ``content``, as read-only views of it.

    Raises:
        DamagedTensorsError: anything that the format does not allow.
    """
    try:
        (length,) = _LENGTH.unpack_from(content)
        start = _LENGTH.size + length
        if start > len(content):
            raise DamagedTensorsError("the header is longer than the file")
        entries = json.loads(bytes(content[_LENGTH.size : start]))
        return {
            name: _view(content[start:], entry)
            for name, entry in entries.items()
            if name != "__metadata__"
        }
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedTensorsError(f"the header cannot be read: {error}") from error


def _view(data: memoryview, entry: dict[str, Any]) -> np.ndarray:
    names = {ours: name for name, ours in DTYPES.items()}
    dtype = numpy_dtype(names[entry["dtype"]])
    shape = tuple(entry["shape"])
    begin, end = entry["data_offsets"]
    if end - begin != math.prod(shape) * dtype.itemsize or not 0 <= begin <= end:
        raise DamagedTensorsError("a tensor's size and its place disagree")
    if end > len(data):
        raise DamagedTensorsError("a tensor lies outside of the file")
    return np.frombuffer(data[begin:end], dtype).reshape(shape)
