"""Worker threads that live on: the training thread does not wait for one to start.

To start one for each snapshot took as long as a tenth of its stall. All else is as with a
thread of its own: a process that ends by itself waits for what is at work, an exception
goes to ``threading.excepthook``, and a forked child neither has the threads nor waits.
"""

import atexit
import collections
import functools
import os
import queue
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

Action = Callable[[], None]


@dataclass(slots=True, eq=False)
class Work:
    """One call of an action, until it returned or raised."""

    action: Action | None
    """None: it is done, and lets go of what it held."""
    done: threading.Event = field(default_factory=threading.Event)
    process: int = field(default_factory=os.getpid)

    @property
    def is_alive(self) -> bool:
        """Whether it is still to be waited for: never in a child that was forked."""
        return not self.done.is_set() and self.process == os.getpid()

    def wait(self) -> None:
        """Until it is done."""
        if self.is_alive:
            self.done.wait()


def start(action: Action, *, name: str) -> Work:
    """Call ``action`` in a thread called ``name``, at once: none waits for another."""
    return _threads(os.getpid(), name).start(action)


@functools.cache
def _threads(_process: int, name: str) -> "_Threads":
    """Made once in each process: a fork does not take them along."""
    made = _Threads(name)
    atexit.register(made.wait)
    return made


class _Threads:
    """As many as were ever at work at once."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._idle: collections.deque[queue.SimpleQueue[Work]] = collections.deque()
        self._working: set[Work] = set()

    def start(self, action: Action) -> Work:
        work = Work(action)
        self._working.add(work)
        try:
            given = self._idle.pop()
        except IndexError:
            given = self._another()
        given.put(work)
        return work

    def wait(self) -> None:
        """Until nothing is at work."""
        for work in list(self._working):
            work.wait()

    def _another(self) -> "queue.SimpleQueue[Work]":
        given: queue.SimpleQueue[Work] = queue.SimpleQueue()
        # A daemon: it must not keep the process, which waits for its work (``wait``).
        thread = threading.Thread(
            target=self._serve, args=(given,), name=self._name, daemon=True
        )
        thread.start()
        return given

    def _serve(self, given: "queue.SimpleQueue[Work]") -> None:
        while True:
            self._do(given.get(), given)

    def _do(self, work: Work, given: "queue.SimpleQueue[Work]") -> None:
        try:
            if work.action is not None:
                work.action()
        except BaseException:  # noqa: BLE001  # whatever it is: the next work is done
            threading.excepthook(
                threading.ExceptHookArgs((*sys.exc_info(), threading.current_thread()))
            )
        finally:
            work.action = None
            self._idle.append(given)
            self._working.discard(work)
            work.done.set()
