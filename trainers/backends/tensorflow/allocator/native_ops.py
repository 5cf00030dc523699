"""The allocator's operations as functions: its figures, its map, whose chunk is whose.

They are built in the background at first use; until then, and where they cannot be
built, there are none, and the figures are an estimate (``allocator_probe``).
"""

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from supervisor.wire.page import MemorySource
from trainers.backends.memory.allocator_figures import Figures
from trainers.backends.tensorflow.allocator import op_build, peak_readings

SWITCH = "TRAINWARDEN_ALLOCATOR_MAP"
"""``off`` in this environment variable: nothing is built, and nothing loaded."""

UNKNOWN = -1


class Ops:
    """A loaded library. Call its functions between steps, never inside of one."""

    def __init__(self, library: Path) -> None:
        """Load ``library``. Raises tensorflow.errors.NotFoundError."""
        self._ops = tf.load_op_library(str(library))
        self._device = peak_readings.device()

    def figures(self) -> Figures | None:
        """The allocator now; None: it counts nothing. Takes 0.1 ms with some hundred
        chunks."""
        with tf.device(self._device):
            found = self._ops.trainwarden_allocator_figures().numpy().tolist()
        names = (
            "chunks", "limit", "pool", "in_use", "largest_free", "peak",
            "largest_request",
        )  # fmt: skip
        pairs = zip(names, found[1:], strict=False)
        known = {name: value for name, value in pairs if value != UNKNOWN}
        if "in_use" not in known or "peak" not in known:
            return None
        source = MemorySource.MAP if found[0] else MemorySource.COUNTS
        return Figures(source=source, **known)

    def map(self) -> bytes:
        """The ``MemoryDump`` protobuf of the allocator now; empty: it has no map."""
        with tf.device(self._device):
            content: bytes = self._ops.trainwarden_allocator_map().numpy()
        return content

    def address(self, tensor: Any) -> tuple[int, int]:
        """Where the tensor's values lie, and their bytes."""
        start, size = self._ops.trainwarden_tensor_address(tensor).numpy().tolist()
        return start, size


def recipe() -> op_build.Recipe:
    """What the running TensorFlow needs."""
    about = sorted(tf.sysconfig.get_build_info().items())
    parts = (tf.version.VERSION, tf.version.GIT_VERSION, tf.version.COMPILER_VERSION)
    return op_build.Recipe(
        version=repr((*parts, about)),
        flags=tuple(tf.sysconfig.get_compile_flags()),
        libraries=tf.sysconfig.get_lib(),
    )


class Native:
    """The operations of this process: asked for at once, there when they are built."""

    def __init__(self, notice: Callable[[str], None]) -> None:
        """``notice``: tells the person who runs this, where there is news."""
        self._notice = notice
        self._thread: threading.Thread | None = None
        self._built: Path | op_build.Failure | None = None
        self._ops: Ops | None = None

    def ask(self, environment: Mapping[str, str] = os.environ) -> None:
        """Have them built, in the background, unless somebody has already."""
        if self._thread is None and environment.get(SWITCH) != "off":
            wanted, known = recipe(), dict(environment)
            self._thread = threading.Thread(
                target=self._build, args=(wanted, known), daemon=True
            )
            self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the building to end, where somebody cannot do without."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _build(self, wanted: op_build.Recipe, environment: Mapping[str, str]) -> None:
        self._built = op_build.get(wanted, environment)

    def ops(self) -> Ops | None:
        """The operations; None: not there yet, or not to be had."""
        if self._built is not None:
            self._take(self._built)
            self._built = None
        return self._ops

    def _take(self, built: Path | op_build.Failure) -> None:
        if isinstance(built, op_build.Failure):
            self._tell(built)
            return
        try:
            self._ops = Ops(built)
        except (OSError, tf.errors.OpError) as error:
            self._tell(op_build.Failure(str(error)[: op_build.MAX_SAID], news=True))

    def _tell(self, failure: op_build.Failure) -> None:
        if failure.news:
            self._notice(
                "the allocator's map cannot be read (its memory figures are an estimate"
                f" without fragmentation): {failure.because}"
            )


_native: list[Native] = []

BUILDING_SECONDS = 120
"""So long somebody who cannot do without the operations waits for them: building takes
some 20 s on two busy cores, once for each TensorFlow on a machine."""


def figures(*, needed: bool) -> Figures | None:
    """What the allocator says by the operations of this process.

    ``needed``: they are waited for if they are being built. None: nobody has asked for
    them, or they are not there.
    """
    for one in _native:
        if needed:
            one.wait(BUILDING_SECONDS)
        ops = one.ops()
        return None if ops is None else ops.figures()
    return None


def of_process(notice: Callable[[str], None]) -> Native:
    """The one of this process."""
    if not _native:
        _native.append(Native(notice))
    return _native[0]
