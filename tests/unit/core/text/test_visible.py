"""What somebody else wrote does nothing to the terminal of who looks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.1\n\tnext é 名", "loss 0.1\n\tnext é 名"),
        ("\x1b]52;c;cm0gLXJm\x07", "\\x1b]52;c;cm0gLXJm\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("safe\rEVIL\b", "safe\\x0dEVIL\\x08"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("half \ud800 \udcff.csv", "half \\ud800 \\udcff.csv"),
    ],
)
def test_commands_to_a_terminal_are_shown(text: str, shown: str) -> None:
    """As they are written in a program; text stays text."""
    assert visible(text) == shown


def test_a_progress_bar_goes_back_in_its_line() -> None:
    """In a log, where it is the usual thing."""
    assert visible("1/2\r2/2\b\x1b[1m", log=True) == "1/2\r2/2\b\\x1b[1m"


@given(st.text(st.characters() | st.characters(categories=["Cs"])))
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    """And nothing else is changed."""
    shown = visible(text)
    assert shown.encode().decode() == shown
    assert all(
        ch in "\n\t" or (ch >= " " and not "\x7f" <= ch <= "\x9f") for ch in shown
    )
    if text.isprintable():
        assert shown == text
