"""A whole screen, from a view and from what is known."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from supervisor.cli.views.top.log_lines import LogTail
from supervisor.cli.views.top.spans import text_of
from supervisor.cli.views.top.top_frame import (
    TopNews,
    TopScene,
    frame,
    page_lines,
    reach_of,
)
from supervisor.cli.views.top.top_view import TopPage, TopView, pressed, settled
from tests.support.listed_jobs import KEYS, LISTS, box_of, listed

BOX = box_of(*(listed(f"job-{n:03}") for n in range(300)))
TAIL = LogTail(job="a", attempt=2, text="".join(f"line {n}\n" for n in range(50)))


def drawn(view: TopView, width: int = 80, height: int = 24, **known: Any) -> list[str]:
    """The screen as text."""
    silent = known.pop("silent_seconds", 0.0)
    given: dict[str, Any] = {"box": BOX, **known}
    news = TopNews(**given)
    scene = TopScene(
        view=view, news=news, width=width, height=height, silent_seconds=silent
    )
    return [text_of(line).rstrip() for line in frame(scene)]


def test_hundreds_of_jobs() -> None:
    """The screen is full, and the last of them is reached."""
    scene = TopScene(view=TopView(), news=TopNews(box=BOX), width=80, height=24)
    view = pressed(scene.view, "G", reach_of(scene))
    lines = drawn(view)
    assert len(lines) == 24
    assert lines[0] == "300 jobs, 1 of 2 GPUs held"
    assert lines[-2].startswith("> job-299")
    assert "? keys · q end" in lines[-1]
    assert drawn(view, width=40)[-1].endswith("? keys · q end")


def test_the_first_line_says_what_is_listed() -> None:
    """Order and filter, who paused, and what is wrong."""
    view = pressed(TopView(filter="job-00"), "M", reach_of(
        TopScene(view=TopView(), news=TopNews(box=BOX), width=80, height=24)
    ))  # fmt: skip
    paused = BOX | {"paused_by": "root", "problems": ["a.toml: no"]}
    assert drawn(view, box=paused, width=120)[0] == (
        "job file a.toml: no · 300 jobs, 1 of 2 GPUs held, paused by root · by memory"
        " · filter 'job-00'"
    )
    assert drawn(TopView(), problem="no\x1b daemon")[0].startswith("no\\x1b daemon · ")
    assert drawn(TopView(), silent_seconds=9.0)[0].startswith("as it was 9.0 s ago")
    gone = BOX | {"launcher": None}
    assert drawn(TopView(), box=gone)[0] == "300 jobs, no daemon runs"


def test_a_filter_that_nothing_is_like() -> None:
    """Is said, and shown while it is typed."""
    lines = drawn(TopView(filter="xyz", typing=True))
    assert lines[2] == "no job is like the filter"
    assert lines[-1] == "filter: xyz_"
    assert drawn(TopView(), box=box_of())[2] == "no jobs yet"


def test_the_end_of_a_log() -> None:
    """Live at its end; scrolled up it stands still."""
    view = TopView(page=TopPage.LOG, job="a")
    lines = drawn(view, log=TAIL, height=6)
    assert lines[0] == "a · log of attempt 2 · live"
    assert lines[1:5] == [f"line {n}" for n in range(46, 50)]
    lines = drawn(TopView(page=TopPage.LOG, job="a", scroll=3), log=TAIL, height=6)
    assert lines[0] == "a · log of attempt 2 · stands still"
    assert lines[1:5] == [f"line {n}" for n in range(43, 47)]
    other = TopView(page=TopPage.LOG, job="b")
    assert drawn(other, log=TAIL)[:2] == ["b · log", "…"]
    refused = LogTail(job="b", problem="that is for its owner")
    assert drawn(other, log=refused)[1] == "that is for its owner"


def test_a_job_is_looked_at() -> None:
    """With its incidents, when they are known."""
    view = TopView(page=TopPage.JOB, job="job-001")
    assert drawn(view)[0] == "job-001"
    assert "incidents   …" in drawn(view)
    assert "incidents   none" in drawn(view, incidents_of="job-001")
    assert "incidents   …" in drawn(view, incidents_of="job-002")


def test_the_keys_are_shown() -> None:
    """On any page."""
    lines = drawn(TopView(helping=True, page=TopPage.LOG))
    assert any(line.startswith("/        filter by name") for line in lines)
    assert all(len(line) <= 40 for line in drawn(TopView(helping=True), width=40))


@given(LISTS, st.lists(KEYS, max_size=8), st.integers(1, 90), st.integers(1, 30))
def test_it_is_as_large_as_the_screen(
    jobs: list[dict[str, Any]], keys: list[str], width: int, height: int
) -> None:
    """Whatever is looked at, on whatever screen: not wider, not higher, and nothing in
    it for a terminal to obey."""
    news = TopNews(box=box_of(*jobs), incidents_of="a", log=TAIL)
    scene = TopScene(view=TopView(), news=news, width=width, height=height)
    for key in keys:
        view = pressed(scene.view, key, reach_of(scene))
        scene = TopScene(view=view, news=news, width=width, height=height)
    view = settled(scene.view, reach_of(scene))
    scene = TopScene(view=view, news=news, width=width, height=height)
    lines = frame(scene)
    assert len(lines) <= height
    for line in lines:
        text = text_of(line)
        assert cell_len(text) <= width
        assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in text)


def test_a_page_of_no_job() -> None:
    """Says so, and can be left."""
    scene = TopScene(
        view=TopView(page=TopPage.JOB, job="x"),
        news=TopNews(box=BOX),
        width=80,
        height=9,
    )
    assert "not on the list any more" in text_of(page_lines(scene)[0])
