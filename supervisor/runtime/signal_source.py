"""Signals as events: what to wait on, and what to do when one came."""

import contextlib
import os
import signal
from collections.abc import Callable, Collection, Generator

from supervisor.core.lifecycle.events import DrainRequested


def wakeups(
    post: Callable[[DrainRequested], None],
) -> contextlib.AbstractContextManager[int]:
    """SIGTERM, SIGINT and SIGHUP given to ``post``; yields what to wait on.

    SIGHUP stays ignored where it is (``nohup``); else a closed terminal drains the run.
    """
    names = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        names[signal.SIGHUP] = "the terminal was closed"
    return received(names, lambda number: post(DrainRequested(names[number])))


@contextlib.contextmanager
def received(
    numbers: Collection[signal.Signals], heed: Callable[[signal.Signals], None]
) -> Generator[int]:
    """``heed`` is called for each of these that comes; yields what to wait on."""
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def handle(number: int, _frame: object) -> None:
        heed(signal.Signals(number))

    before = {number: signal.signal(number, handle) for number in numbers}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
