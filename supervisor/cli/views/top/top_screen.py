"""The loop of ``top`` on a terminal: keys and news come in, frames go out."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from supervisor.cli.views.top.gauges import RecentSamples
from supervisor.cli.views.top.key_input import parse_keys
from supervisor.cli.views.top.raw_terminal import RawTerminal
from supervisor.cli.views.top.spans import painted
from supervisor.cli.views.top.top_frame import TopNews, TopScene, frame, reach_of
from supervisor.cli.views.top.top_view import TopPage, TopView, pressed, settled

ESCAPE_SECONDS = 0.05
"""An Escape after which nothing comes for so long is the key."""
TURN_SECONDS = 1.0
"""Ages are drawn anew that often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopWish:
    """What is looked at, and has to be known."""

    details_of: str | None = None
    log_of: str | None = None


class TopReader(Protocol):
    """What finds things out, beside the loop."""

    @property
    def news(self) -> TopNews:
        """What is known. Raises what went wrong that nobody expected."""
        ...

    def want(self, wish: TopWish) -> None:
        """From now on find out this."""
        ...


class TopScreen:
    """What a person sees, and does."""

    def __init__(
        self,
        reader: TopReader,
        *,
        colour: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock``: that of ``TopNews.at``."""
        self._reader, self._colour, self._clock = reader, colour, clock
        self._history = RecentSamples()
        self._seen_at: float | None = None
        self._view = TopView()
        self._rest = ""

    def show(self, terminal: RawTerminal) -> None:
        """Until a key or a signal ends it."""
        while not (self._view.over or terminal.over):
            scene = self._scene(terminal)
            self._reader.want(wish_of(scene.view))
            lines = [painted(line, colour=self._colour) for line in frame(scene)]
            terminal.draw(lines)
            for key in self._keys(terminal):
                self._press(key, terminal)

    def _scene(self, terminal: RawTerminal) -> TopScene:
        news = self._reader.news
        if news.at != self._seen_at:
            self._seen_at = news.at
            for job in news.box["jobs"]:
                self._history.add(job)
        columns, rows = terminal.size()
        scene = TopScene(
            view=self._view,
            news=news,
            width=columns,
            height=rows,
            history=self._history,
            silent_seconds=self._clock() - news.at,
        )
        self._view = settled(self._view, reach_of(scene))
        return replace(scene, view=self._view)

    def _keys(self, terminal: RawTerminal) -> list[str]:
        typed = terminal.read(ESCAPE_SECONDS if self._rest else TURN_SECONDS)
        whole = bool(self._rest) and not typed
        keys, self._rest = parse_keys(self._rest + typed, whole=whole)
        return keys

    def _press(self, key: str, terminal: RawTerminal) -> None:
        if not self._view.over:
            self._view = pressed(self._view, key, reach_of(self._scene(terminal)))


def wish_of(view: TopView) -> TopWish:
    """What has to be known for ``view``. A log that was scrolled up stands still."""
    if view.page is TopPage.JOB:
        return TopWish(details_of=view.job)
    if view.page is TopPage.LOG and not view.scroll:
        return TopWish(log_of=view.job)
    return TopWish()
