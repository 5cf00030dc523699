"""The loop between keys and frames, on a real terminal."""

import os
import pty
from dataclasses import dataclass, field

from typing_extensions import override

from supervisor.cli.views.top.raw_terminal import RawTerminal
from supervisor.cli.views.top.top_frame import TopNews
from supervisor.cli.views.top.top_screen import (
    TopReader,
    TopScreen,
    TopWish,
    wish_of,
)
from supervisor.cli.views.top.top_view import TopPage, TopView
from tests.support.listed_jobs import box_of, listed


@dataclass
class TypingReader(TopReader):
    """Types the next of ``keys`` whenever it is asked for news, after all is drawn."""

    keyboard: int
    keys: list[bytes]
    wishes: list[TopWish] = field(default_factory=list[TopWish])

    @property
    @override
    def news(self) -> TopNews:
        return TopNews(box=box_of(listed("a"), listed("b")))

    @override
    def want(self, wish: TopWish) -> None:
        self.wishes.append(wish)
        if self.keys:
            os.write(self.keyboard, self.keys.pop(0))


def test_keys_lead_through_the_pages() -> None:
    """What a page needs is asked for; an Escape is a key when nothing follows it."""
    person, program = pty.openpty()
    reader = TypingReader(person, [b"\x1b[", b"B\r", b"l", b"\x1b", b"", b"q", b"q"])
    with RawTerminal(keys=program, screen=program) as terminal:
        TopScreen(reader, colour=False).show(terminal)
    shown = b""
    while not shown.endswith(b"\x1b[?1049l"):
        shown += os.read(person, 1)
    os.close(person)
    os.close(program)
    assert b"2 jobs, 1 of 2 GPUs held" in shown
    assert TopWish(details_of="b") in reader.wishes
    assert TopWish(log_of="b") in reader.wishes
    assert "b · log".encode() in shown
    assert not reader.keys


def test_a_log_that_was_scrolled_up_stands_still() -> None:
    """It is not read any more."""
    view = TopView(page=TopPage.LOG, job="a", scroll=1)
    assert wish_of(view) == TopWish()
