"""The end of a log, shown and never obeyed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from supervisor.cli.views.top.log_lines import decoded_tail, log_lines, overwritten

BARS = st.lists(
    st.sampled_from(["ab", "日", "\r", "\b", "\n", "\t", "\x1b[1m", "\x1b]"])
)


@pytest.mark.parametrize(
    ("line", "left"),
    [
        ("1/2\r2/2", "2/2"),
        ("done 9\rd", "done 9"),
        ("10%\r", "10%"),
        ("ab\b\bc", "cb"),
        ("\b\ba", "a"),
        ("", ""),
    ],
)
def test_a_progress_bar_is_as_it_was_left(line: str, left: str) -> None:
    """What a shorter text does not cover stays."""
    assert overwritten(line) == left


def test_colours_are_left_out_and_the_rest_is_shown() -> None:
    """As text: a title is not set, the clipboard not written."""
    text = "\x1b[1m1/2\x1b[0m\n\x1b]0;x\x07\x1b[2J\u202e\n"
    assert log_lines(text, 80) == ("1/2", "\\x1b]0;x\\x07\\x1b[2J\\u202e")


def test_long_lines_are_wrapped() -> None:
    """By cells; an empty line is one."""
    assert log_lines("日本語a\n\n\tb", 4) == ("日本", "語a", "", "    ", "    ", "b")


@given(BARS.map("".join) | st.text(), st.integers(2, 40))
def test_every_line_fits(text: str, width: int) -> None:
    """And holds no control character."""
    for line in log_lines(text, width):
        assert cell_len(line) <= width
        assert not any(ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0 for c in line)


def test_a_tail_begins_with_a_line() -> None:
    """Unless it is the beginning of the log, or has but one."""
    assert decoded_tail(b"d\nnext", begins_log=False) == "next"
    assert decoded_tail(b"d\nnext", begins_log=True) == "d\nnext"
    assert decoded_tail(b"\xa5 rest", begins_log=False) == "\ufffd rest"
