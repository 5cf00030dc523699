"""Signals as events: what to wait on, and what to do when one came."""

import contextlib
import os
import signal
from collections.abc import Callable, Generator

from supervisor.core.lifecycle.events import DrainRequested


@contextlib.contextmanager
def wakeups(post: Callable[[DrainRequested], None]) -> Generator[int]:
    """SIGTERM, SIGINT and SIGHUP given to ``post``; yields what to wait on.

    SIGHUP stays ignored where it is (``nohup``); else a closed terminal drains the run.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def received(number: int, _frame: object) -> None:
        post(DrainRequested(names[signal.Signals(number)]))

    names = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        names[signal.SIGHUP] = "the terminal was closed"
    before = {number: signal.signal(number, received) for number in names}
    wakeup_before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup_before)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)
