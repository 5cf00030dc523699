"""What a script may do to the terminal of the person who runs it."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text.terminal_filter import obeyed, without_colours

KERAS = (
    "\x1b[1m 9/12\x1b[0m \x1b[32m━━━━━━━\x1b[0m\x1b[37m━━━━\x1b[0m \x1b[1m0s\x1b[0m"
    " 4ms/step - loss: 0.2\b\b\b\b\r"
)
TQDM = "\n\r 40%|████      | 4/10 [00:01<00:02,  2.1it/s]\x1b[A\x1b[K"
HARMFUL = [
    "\x1b]52;c;cm0gLXJm\x07",  # the clipboard
    "\x1b]0;title\x1b\\",
    "\x1b[6n",  # answered as if it had been typed
    "\x1b[c",
    "\x1b[1;5r",  # the scroll region
    "\x1b[?1049h",  # the other screen
    "\x1b[?1000h",  # the mouse
    "\x1bc",
    "\x1b(0",
    "\x0e",
    "\x9b6n",
    "\x1bP+q544e\x1b\\",
    "\x1b[9;9H",
    "\x1b[8;1;1t",
]


@pytest.mark.parametrize("text", [KERAS, TQDM, "\x1b[?25l\x1b[2K\x07", "\x1b[H\x1b[2J"])
def test_progress_bars_work(text: str) -> None:
    """As they do without us."""
    assert obeyed(text) == (text, "")


@pytest.mark.parametrize("text", HARMFUL)
def test_all_else_is_shown(text: str) -> None:
    """Its escape is text, so that a terminal does nothing of it."""
    shown, rest = obeyed(text + "x")
    assert rest == ""
    assert not set(shown) & {"\x1b", "\x9b", "\x0e"}
    assert shown.startswith("\\x")


@given(st.lists(st.sampled_from([KERAS, TQDM, *HARMFUL, "\x1b[1m", "é名", "\n"])))
def test_it_is_the_same_in_any_parts(parts: list[str]) -> None:
    """A sequence that is cut in two by where a read ended is whole again."""
    text = "".join(parts)
    whole, rest = obeyed(text)
    shown, left = "", ""
    for character in text:
        more, left = obeyed(left + character)
        shown += more
    assert (shown, left) == (whole, rest)


@given(st.text(alphabet=st.sampled_from("\x1b\x07\x9b]\\[?0125;:mAHJKhlcnrtP(x\r\n\b")))
def test_only_what_is_known_is_obeyed(text: str) -> None:
    """Whatever a script prints."""
    shown, rest = obeyed(text)
    plain = re.sub(
        "\x1b\\[[0-9;:]*[mABCDEFGJKP@X]|\x1b\\[(1;1)?H|\x1b\\[\\?25[hl]", "", shown
    )
    assert not set(plain) & {"\x1b", "\x9b"}
    assert len(rest) <= 66


def test_without_colours() -> None:
    """Only they go; what else a terminal would obey is for others to show."""
    assert without_colours("\x1b[1;38:5:3m1/2\x1b[m\x1b[2J") == "1/2\x1b[2J"
