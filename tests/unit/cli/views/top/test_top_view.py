"""What keys make of what is looked at."""

from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.views.top.job_listing import SortKey
from supervisor.cli.views.top.key_input import Key
from supervisor.cli.views.top.top_view import (
    TopPage,
    TopReach,
    TopView,
    pressed,
    settled,
)
from tests.support.listed_jobs import KEYS

REACH = TopReach(jobs=["a", "b", "c", "d"], height=2, lines=10)
REACHES = st.builds(
    TopReach,
    jobs=st.lists(st.sampled_from("abcdef"), unique=True),
    height=st.integers(0, 5),
    lines=st.integers(0, 9),
)


def after(*keys: str, view: TopView | None = None) -> TopView:
    """What these make of it."""
    return reduce(lambda one, key: pressed(one, key, REACH), keys, view or TopView())


@given(st.lists(st.tuples(KEYS, REACHES)), REACHES)
def test_what_is_selected_can_be_seen(
    story: list[tuple[str, TopReach]], reach: TopReach
) -> None:
    """Whatever is typed while jobs come and go; and a page is not scrolled past its end."""
    view = TopView()
    for key, before in story:
        view = pressed(view, key, before)
    view = settled(view, reach)
    if view.page is TopPage.JOBS:
        assert 0 <= view.position <= max(len(reach.jobs) - 1, 0)
        assert view.first <= view.position < view.first + max(reach.height, 1)
    else:
        assert 0 <= view.scroll <= reach.most_scroll


@given(st.lists(KEYS))
def test_it_can_always_be_left(keys: list[str]) -> None:
    """By Escape, often enough; any key is then too late."""
    view = after(*keys)
    for _ in range(5):
        view = view if view.over else pressed(view, Key.ESCAPE, REACH)
    assert view.over


@given(KEYS)
def test_a_filter_takes_all_letters(key: str) -> None:
    """Also those that mean something else."""
    view = after("/", key)
    if len(key) == 1:
        assert (view.filter, view.typing) == (key, True)
    assert not view.over


def test_a_filter_is_typed_kept_and_cleared() -> None:
    """Enter keeps it; Escape clears it, and ends only what has none."""
    assert after("/", "a", "q", Key.BACKSPACE).filter == "a"
    kept = after("/", "a", Key.ENTER)
    assert (kept.filter, kept.typing) == ("a", False)
    assert after("/", "a", Key.CLEAR).filter == ""
    for view in (after("/", "a", Key.ESCAPE), after(Key.ESCAPE, view=kept)):
        assert (view.filter, view.typing, view.over) == ("", False, False)


def test_the_selected_job_is_followed() -> None:
    """To another row; where it is not listed any more its row goes to another."""
    view = after("j", "j")
    assert (view.job, view.position, view.first) == ("c", 2, 1)
    moved = TopReach(jobs=["c", "a"], height=2, lines=2)
    assert settled(view, moved).position == 0
    gone = TopReach(jobs=["a", "b"], height=2, lines=2)
    assert settled(view, gone).position == 1
    assert pressed(view, Key.ENTER, gone).job == "b"


def test_nobody_has_selected_any() -> None:
    """Then it is the first, whichever that is."""
    assert after("s").position == 0
    assert after(Key.ENTER).job == "a"
    nothing = TopReach(jobs=[], height=2, lines=0)
    assert pressed(TopView(), Key.ENTER, nothing).page is TopPage.JOBS


@pytest.mark.parametrize(
    ("keys", "position"),
    [
        ([Key.DOWN, "k", "k"], 0),
        ([Key.PAGE_DOWN], 2),
        (["G"], 3),
        ([Key.END, Key.PAGE_UP], 1),
        (["G", Key.HOME], 0),
    ],
)
def test_ways_to_go(keys: list[str], position: int) -> None:
    """By a row, by a screen, to an end."""
    assert after(*keys).position == position


def test_where_pages_lead() -> None:
    """The log leads back to where it was opened."""
    assert after(Key.ENTER).page is TopPage.JOB
    assert after(Key.ENTER, "l").page is TopPage.LOG
    assert after(Key.ENTER, "l", "q").page is TopPage.JOB
    assert after("l", "q").page is TopPage.JOBS
    assert after(Key.ENTER, Key.ESCAPE).page is TopPage.JOBS
    assert after("l", "q", "q").over


def test_pages_are_scrolled() -> None:
    """A job's from its beginning, a log from its end."""
    assert after(Key.ENTER, Key.DOWN).scroll == 1
    assert after(Key.ENTER, "G").scroll == 8
    assert after("l", Key.UP).scroll == 1
    assert after("l", Key.UP, Key.END).scroll == 0
    assert after("l", Key.HOME).scroll == 8


def test_orders() -> None:
    """By a letter, which turns it round when it comes again; s and r do so, too."""
    assert (after("M").sort, after("M").backwards) == (SortKey.MEMORY, False)
    assert after("M", "M").backwards
    assert not after("M", "M", "J").backwards
    assert after("r").backwards
    assert after("s").sort is SortKey.JOB
    assert not after("r", "s").backwards


def test_help_goes_with_any_key() -> None:
    """Which does nothing else."""
    assert after("?").helping
    assert after("?", "q") == TopView()
