"""The telemetry page: where an attempt is right now, in a mapped file.

One writer (training) and any number of readers. The writer makes the sequence number
odd, writes, makes it even; a reader takes what lies between two equal even numbers
(a seqlock). The file outlives both processes, so the last page of a dead attempt is
evidence. What each step changes (``step_writer``) is not under the sequence number: each of
these fields is whole, and a reader may see them of two steps, one after the other. Every
field is a signed 64-bit integer or a double; a field nobody knows yet
is ``None`` on both sides (the smallest integer, or NaN, in the file).

The file is preallocated: a sparse mapping on a full tmpfs would be SIGBUS in training.
Its numbers are in the byte order of the machine, as writer and readers are on one.
"""

import enum
import math
import mmap
import os
import struct
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import Any

from supervisor.wire.files import Held
from supervisor.wire.readings import INTEGERS

MAGIC = b"TWPAGE\0\3"
"""Identifies the file and the version of its layout (last byte)."""

PAGE_BYTES = 4096
TRIES = 20
"""How often a reader looks for a moment in which nobody writes."""
_UNKNOWN = -(2**63)
_HEADER = struct.Struct("=8sQ")  # magic, sequence number
_WORD = 8
"""Bytes of each number."""


class Phase(enum.IntEnum):
    """What the attempt is doing; ``phase_seconds`` in the page follows this order."""

    STARTING = 0
    """Interpreter, imports, the user's code before the first ``fit``."""
    RESTORING = 1
    COMPILING = 2
    """The first step of a ``fit``: tracing and compiling."""
    TRAINING = 3
    VALIDATING = 4
    SNAPSHOT = 5
    """The training thread is held up by a snapshot."""
    REPLAYING = 6
    """Steps that an earlier attempt had done already."""
    BETWEEN = 7
    """The user's code between or after calls of ``fit``, or between two epochs."""
    FINISHED = 8


PHASE_NAMES = {int(phase): phase.name.lower() for phase in Phase}


class ErrorStage(enum.IntEnum):
    """What an attempt does after an error that ended its script. No phase: the time goes to
    the one that lasts, and a supervisor of before reads the page all the same."""

    REPORTING = 1
    """It writes down what the error was."""
    MEMORY = 2
    """... and finds what held the memory that ran out."""
    ENDING = 3
    """All is said: its last snapshot is written, and its process taken down."""


ERROR_STAGES = {int(stage): stage.name.lower() for stage in ErrorStage}


class MemorySource(enum.IntEnum):
    """Who says what the page tells of the framework's allocator; the best first."""

    MAP = 1
    """Its map: every chunk."""
    COUNTS = 2
    """Its own counts: this allocator has no map (``cuda_malloc_async``, say), or none that
    is read (JAX, PyTorch)."""
    ESTIMATE = 3
    """In use and peak alone are counted; what is allocatable is limit less in use,
    as if nothing were fragmented."""


STEP_BUCKETS_SECONDS = (
    0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0,
)  # fmt: skip
"""Upper bounds of the step-time histogram; a twelfth bucket has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One reading. Times are monotonic nanoseconds (CLOCK_MONOTONIC, one a machine)."""

    pid: int | None = None
    heartbeat_ns: int | None = None
    phase: int | None = None
    phase_since_ns: int | None = None
    fit: int | None = None
    """Calls of ``fit`` so far, from 0: which one this is."""
    epoch: int | None = None
    epochs: int | None = None
    step: int | None = None
    """Steps (optimizer updates asked for) done since the run began."""
    step_in_epoch: int | None = None
    steps_per_epoch: int | None = None
    samples: int | None = None
    effective_batch: int | None = None
    slices: int | None = None
    slice_size: int | None = None
    snapshot_step: int | None = None
    snapshot_ns: int | None = None
    snapshots: int | None = None
    ticks: int | None = None
    """Counts signs of progress that no other field shows: batches of a validation."""
    memory_limit_bytes: int | None = None
    memory_in_use_bytes: int | None = None
    memory_peak_bytes: int | None = None
    """Since slices have this size; on JAX, where it cannot be reset, in this attempt."""
    memory_pool_bytes: int | None = None
    """What the allocator has taken from the device so far."""
    memory_largest_free_bytes: int | None = None
    """Largest free chunk of the pool."""
    memory_largest_allocatable_bytes: int | None = None
    """Largest free chunk, or what the pool may still grow by, whichever is more.

    Of PyTorch what is free and not stuck (as below), as it goes back to the device first."""
    memory_largest_request_bytes: int | None = None
    """Largest that was granted since slices have this size; on JAX, in this attempt."""
    memory_chunks: int | None = None
    memory_source: int | None = None
    """A ``MemorySource``."""
    memory_step: int | None = None
    """The step after which the memory fields were read."""
    memory_ns: int | None = None
    jit: int | None = None
    """1: the train step is compiled by XLA."""
    host_rss_bytes: int | None = None
    loss: float | None = None
    memory_fragmentation: float | None = None
    """(free in pool - largest free chunk) / free in pool; 0 to 1.

    Of PyTorch: stuck / free in pool; stuck is what is free in segments in use."""
    step_seconds: float | None = None
    """Smoothed time a step, in seconds."""
    step_seconds_sum: float | None = None
    step_counts: tuple[int, ...] = (0,) * (len(STEP_BUCKETS_SECONDS) + 1)
    """Steps a bucket of STEP_BUCKETS_SECONDS (not cumulated)."""
    phase_seconds: tuple[float, ...] = (0.0,) * len(Phase)
    """Seconds spent in each phase, the one that lasts included; they never go back."""
    memory_recent: tuple[int, ...] = (0,) * INTEGERS
    """The newest readings of the allocator, for ``readings.unpack``."""
    progress_ns: int | None = None
    """When ``step`` or ``ticks`` last changed."""
    loss_step: int | None = None
    """The step after which ``loss`` was read: where that is unknown none the less, it was
    NaN. 0: an older version, which does not tell."""
    after_error: int | None = None
    """An ``ErrorStage``; unknown: no error ended the script. 0: an older version."""


_KINDS: dict[Any, str] = {int | None: "q", float | None: "d"}
_ADDED = ("progress_ns", "loss_step", "after_error")
"""At the end of the file, where an older version wrote zeros."""
_LAYOUT = {
    **{
        one.name: _KINDS[one.type]
        for one in fields(Page)
        if one.type in _KINDS and one.name not in _ADDED
    },
    "step_counts": f"{len(Page().step_counts)}q",
    "phase_seconds": f"{len(Phase)}d",
    "memory_recent": f"{INTEGERS}q",
    **dict.fromkeys(_ADDED, "q"),
}
"""The fields in the order of the file, and how each is packed."""
_BODY = struct.Struct("=" + "".join(_LAYOUT.values()))
_PLACES: dict[str, tuple[int, int, str]] = {}
"""Of each field its first word in the file, how many it has, and their format."""
_words = _HEADER.size // _WORD
for _name, _kind in _LAYOUT.items():
    _count = int(_kind[:-1] or 1)
    _PLACES[_name] = _words, _count, _kind[-1]
    _words += _count
_SEQUENCE = len(MAGIC) // _WORD
_STEP, _STEP_IN_EPOCH, _SAMPLES, _PROGRESS = (
    _PLACES[name][0] for name in ("step", "step_in_epoch", "samples", "progress_ns")
)


def _decoded(values: Iterator[Any]) -> Page:
    found: dict[str, Any] = {}
    for name, kind in _LAYOUT.items():
        if len(kind) > 1:
            found[name] = tuple(islice(values, int(kind[:-1])))
        else:
            value = next(values)
            unknown = value == _UNKNOWN if kind == "q" else math.isnan(value)
            found[name] = None if unknown else value
    return Page(**found)


StepWriter = Callable[[int, int, int], None]
"""Takes ``step``, ``step_in_epoch`` and ``samples``, and publishes them."""


class PageWriter:
    """The training side. Writes the fields that change, once or more often a step."""

    def __init__(self, path: Path) -> None:
        """Create and map ``path``. Raises OSError (ENOSPC before any mapping)."""
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            os.posix_fallocate(descriptor, 0, PAGE_BYTES)
            self._map = mmap.mmap(descriptor, PAGE_BYTES)
        finally:
            os.close(descriptor)
        self._map[: len(MAGIC)] = MAGIC
        # Numbers are written through these: a fifth of what struct takes.
        self._integers = memoryview(self._map).cast("q")
        self._words: dict[str, Any] = {
            "q": self._integers,
            "d": memoryview(self._map).cast("d"),
        }
        self._sequence = 0
        self.set(**{name: getattr(Page(), name) for name in _LAYOUT})

    def set(self, **values: Any) -> None:
        """Change the named fields and publish the page."""
        self._integers[_SEQUENCE] = self._sequence + 1
        for name, value in values.items():
            first, count, kind = _PLACES[name]
            words = self._words[kind]
            if count > 1:
                words[first : first + count] = memoryview(array(kind, value))
            elif value is None:
                words[first] = _UNKNOWN if kind == "q" else math.nan
            else:
                words[first] = value
        self._sequence += 2
        self._integers[_SEQUENCE] = self._sequence

    def step_writer(self) -> StepWriter:
        """Writes where training is, as fast as can be: one store a field, outside of the
        seqlock. Safe from any thread and signal handler."""
        words, clock = self._integers, time.monotonic_ns

        def stepped(step: int, step_in_epoch: int, samples: int) -> None:
            words[_SAMPLES] = samples
            words[_STEP_IN_EPOCH] = step_in_epoch
            words[_STEP] = step
            words[_PROGRESS] = clock()

        return stepped


class PageReader:
    """A supervisor's side. Whatever the file holds, ``read`` does not raise: its writer
    may have died in a write, or may not be ours."""

    def __init__(self, path: Path) -> None:
        self._file = Held(path)

    def read(self) -> Page | None:
        """The newest whole page; None without a file, or without one quiet moment."""
        try:
            descriptor = self._file.descriptor()
            for _ in range(TRIES):
                content = os.pread(descriptor, PAGE_BYTES, 0)
                if os.pread(descriptor, _HEADER.size, 0) == content[: _HEADER.size]:
                    page = parse(content)
                    if page is not None:
                        return page
        except OSError:
            self._file.close()  # what can no longer be read from is opened anew
        return None

    def close(self) -> None:
        """Give the file back; ``read`` opens it again."""
        self._file.close()


def read_page(path: Path) -> Page | None:
    """The page at ``path``, read once (``PageReader``)."""
    with closing(PageReader(path)) as reader:
        return reader.read()


def parse(content: bytes) -> Page | None:
    """The page in the file's ``content``; None if in a write, foreign or too short."""
    if len(content) < _HEADER.size + _BODY.size:
        return None
    magic, sequence = _HEADER.unpack_from(content)
    if magic != MAGIC or sequence % 2:
        return None
    return _decoded(iter(_BODY.unpack_from(content, _HEADER.size)))
