"""Iterators whose pass is over, let go of by a thread of their own.

TensorFlow ends the thread that tunes a pipeline as its iterator goes. That thread sleeps
between two looks, each time twice as long, up to a minute. A wake-up just before it falls
asleep is missed, and whoever lets go of the iterator waits until it looks again: seen in one
epoch of six to twenty, for 1.7 s where epochs took three (2.21, ``Model::OptimizeLoop``,
``RootDataset::Iterator``; ``make bench-epoch-ends``). A pass that is over has nothing left in its buffers: its iterator
may go a moment later, and training goes on meanwhile. It holds the data themselves, though: the
end of a ``fit`` waits for the last.
"""

import queue
import sys
import threading
from typing import Any

from trainers.backends import tf_data

LOOK_SECONDS = 0.05
"""Between two looks whether anybody else still refers to an iterator: Keras' loop does until
it is given the next."""
OURS = 2
"""References to what lies in a list alone, as ``sys.getrefcount`` counts them."""


class FinishedIterators:
    """Keeps each until nobody else refers to it, and lets go of it in a thread."""

    def __init__(self) -> None:
        self._given: queue.SimpleQueue[list[Any] | threading.Event] = (
            queue.SimpleQueue()
        )
        self._thread: threading.Thread | None = None

    def let_go(self, iterator: Any) -> None:
        """Nothing more is drawn from ``iterator``."""
        self._given.put([iterator])
        if self._thread is None or not self._thread.is_alive():  # or this is a fork
            # A daemon: nobody waits for it, as the end of a process waits for no iterator.
            self._thread = threading.Thread(
                target=self._run, name="trainwarden-iterators", daemon=True
            )
            self._thread.start()

    def wait(self) -> None:
        """Until all that nobody else refers to any more is gone."""
        if self._thread is not None and self._thread.is_alive():
            looked = threading.Event()
            self._given.put(looked)
            looked.wait()

    def _run(self) -> None:
        kept: list[list[Any]] = []
        while True:
            try:
                given = self._given.get(timeout=LOOK_SECONDS if kept else None)
            except queue.Empty:
                given = None
            if isinstance(given, list):
                kept.append(given)
                continue
            kept = [one for one in kept if not _gone(one)]
            if given is not None:
                given.set()


def _gone(held: list[Any]) -> bool:
    """Whether nobody else refers to what is ``held``: it is let go of then."""
    if sys.getrefcount(held[0]) > OURS:
        return False
    held.clear()
    return True


_finished = FinishedIterators()
"""Of this process."""


def pass_is_over(iterator: Any) -> None:
    """All of a pass was drawn from ``iterator``: it goes as soon as nobody refers to it. What
    is no iterator of TensorFlow's is left alone."""
    if tf_data.is_iterator(iterator):
        _finished.let_go(iterator)


def wait() -> None:
    """Until those that nobody refers to are gone, with the data that they hold: a ``fit`` is
    over, and the script may need the memory for other data."""
    _finished.wait()
