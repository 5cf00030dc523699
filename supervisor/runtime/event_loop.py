"""The event loop, of one run in the foreground and of all runs of a daemon.

A signal is an event: it wakes the loop, and what follows happens in the next turn.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Generator, Mapping
from typing import Protocol

from supervisor.host.process.child_process import wait_for


class LoopWork(Protocol):
    """What is done turn by turn."""

    @property
    def done(self) -> bool:
        """Whether there is nothing more to wait for."""
        ...

    def descriptors(self) -> list[int]:
        """What becomes readable when there is something to do."""
        ...

    def wait_seconds(self) -> float:
        """How long a turn may be put off while no descriptor is readable."""
        ...

    def turn(self, ready: Collection[int], /) -> None:
        """Do what there is to do now; never waits. ``ready``: what is readable."""
        ...


def loop(work: LoopWork, wakeup: int) -> None:
    """Wait and turn until ``work`` is done; ``wakeup``: of ``wakeups``."""
    while not work.done:
        ready = wait_for([wakeup, *work.descriptors()], seconds=work.wait_seconds())
        if wakeup in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(wakeup, 4096)
        work.turn(ready)


@contextlib.contextmanager
def wakeups(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Generator[int]:
    """Handle these signals, which must not wait; yields what becomes readable by any."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def received(number: int, _frame: object) -> None:
        handlers[signal.Signals(number)]()

    before = {number: signal.signal(number, received) for number in handlers}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
