"""What ``top`` shows, found out beside its loop: a daemon that answers late, or a slow
disk, holds up no key."""

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

from typing_extensions import override

from supervisor.cli.sources.box_source import BoxSource, UnseenError
from supervisor.cli.views.top.top_frame import TopNews
from supervisor.cli.views.top.top_screen import TopReader, TopWish

LOG_SECONDS = 0.5
"""A log that is looked at is read that often."""
LEAVE_SECONDS = 1.0
"""So long the end waits for a look that is under way."""


class BoxReader(TopReader):
    """A thread that looks, while it is entered."""

    def __init__(
        self,
        source: Callable[[], BoxSource],
        box: dict[str, Any],
        *,
        every_seconds: float,
        tell: Callable[[], None],
    ) -> None:
        """``source``: asked each time, a daemon may come or go. ``box``: what is known at
        the beginning. ``tell``: called when there is news."""
        self._source, self._every_seconds, self._tell = source, every_seconds, tell
        self._news = TopNews(box=box, at=time.monotonic(), every_seconds=every_seconds)
        self._wish = TopWish()
        self._failure: BaseException | None = None
        self._over, self._asked = False, threading.Event()
        self._thread = threading.Thread(target=self._work, name="looks", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        self._asked.set()
        self._thread.join(LEAVE_SECONDS)

    @property
    @override
    def news(self) -> TopNews:
        if self._failure is not None:
            raise self._failure
        return self._news

    @override
    def want(self, wish: TopWish) -> None:
        if wish != self._wish:
            self._wish = wish
            self._asked.set()

    def _work(self) -> None:
        # The loop gets all of them: one that stands still in a call is to be interrupted.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._wait()
            while not self._over:
                self._look()
                self._tell()
                self._wait()
        except Exception as error:  # noqa: BLE001  # the loop raises it: nobody looks here
            self._failure = error
            self._tell()

    def _wait(self) -> None:
        often = LOG_SECONDS if self._wish.log_of is not None else self._every_seconds
        self._asked.wait(min(often, self._every_seconds))
        self._asked.clear()

    def _look(self) -> None:
        """One look. What cannot be seen is said, and what was known stays."""
        wish, news = self._wish, self._news
        try:
            source = self._source()
            if wish.log_of is not None:
                news = replace(news, log=source.log_tail(wish.log_of))
            if wish.details_of is not None:
                found = source.incidents(wish.details_of)
                newest_first = sorted(found, key=lambda one: one["id"], reverse=True)
                news = replace(
                    news, incidents_of=wish.details_of, incidents=newest_first
                )
            news = replace(news, box=source.box(), at=time.monotonic(), problem="")
        except UnseenError as error:
            news = replace(news, problem=str(error))
        self._news = news
