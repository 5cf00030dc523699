"""Saving beside the training: it waits for one copy, a thread does the rest.

At most one snapshot is in flight. A sink is told to commit the image of a tensor file
and a manifest; the durable store is one, a memory tier can be another.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from supervisor.wire.manifest import Manifest
from trainers import snapshot
from trainers.tensors import Image, Tensor


class Sink(Protocol):
    """Where snapshots go."""

    def commit(self, content: memoryview, manifest: Manifest) -> snapshot.Entry:
        """Keep the snapshot; whole when this returns. Raises OSError."""
        ...

    def prune(self, *, never: frozenset[str]) -> None:
        """Forget what need not be kept."""
        ...


@dataclass(frozen=True, slots=True)
class Saved:
    """How saving one snapshot went."""

    manifest: Manifest
    entry: snapshot.Entry | None
    """None: it failed."""
    error: OSError | None
    stall_seconds: float
    """How long the training thread waited."""
    seconds: float
    """From the copy to the commit."""
    nbytes: int


@dataclass(slots=True)
class Saver:
    """Copies in the caller's thread, hashes and writes in its own."""

    sink: Sink
    done: Callable[[Saved], None]
    """Told of each snapshot, from the saving thread."""
    protected: set[str] = field(default_factory=set)
    """Names that pruning leaves alone: the ends of fits, the one restored from."""
    _image: Image | None = None
    _thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a snapshot is in flight."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Until no snapshot is in flight."""
        if self._thread is not None:
            self._thread.join()

    def save(
        self, tensors: Sequence[Tensor], manifest: Manifest, *, began: float
    ) -> float:
        """Copy ``tensors`` and start saving; returns the seconds since ``began``.

        Waits for one in flight: its image is the one to be filled.
        """
        self.wait()
        layout = tuple(tensor.layout for tensor in tensors)
        if self._image is None or self._image.layout != layout:
            self._image = None  # free the old one first
            self._image = Image(tensors)
        self._image.fill(tensors)
        stall = time.perf_counter() - began
        self._thread = threading.Thread(
            target=self._commit,
            args=(self._image, manifest, stall, began),
            name="trainwarden-saver",
        )
        self._thread.start()
        return stall

    def _commit(
        self, image: Image, manifest: Manifest, stall: float, began: float
    ) -> None:
        entry, error = None, None
        try:
            digest = snapshot.hash_of(image.content)
            manifest = replace(
                manifest, tensors_bytes=image.nbytes, tensors_hash=digest
            )
            entry = self.sink.commit(image.content, manifest)
            if manifest.fit_done:
                self.protected.add(entry.name)
            self.sink.prune(never=frozenset(self.protected))
        except OSError as caught:
            error = caught
        seconds = time.perf_counter() - began
        self.done(Saved(manifest, entry, error, stall, seconds, image.nbytes))


def nothing_saved(_saved: Any) -> None:
    """For those who need not be told."""
