"""Bytes of a terminal as keys, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.views.top.key_input import Key, parse_keys

PARTS = st.sampled_from(
    ["\x1b", "[", "O", "A", "1;5", "~", "6", "[[", "q", "é", "\r", "\x7f", "\x00"]
)
INPUTS = st.lists(PARTS).map("".join) | st.text()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("qé", ["q", "é"]),
        ("\x1b[A\x1bOB\x1b[1;5A", [Key.UP, Key.DOWN, Key.UP]),
        ("\x1b[5~\x1b[6~", [Key.PAGE_UP, Key.PAGE_DOWN]),
        ("\x1b[H\x1b[F\x1b[1~\x1b[8~", [Key.HOME, Key.END, Key.HOME, Key.END]),
        ("\r\n\x7f\x15", [Key.ENTER, Key.ENTER, Key.BACKSPACE, Key.CLEAR]),
        ("\x1bq", [Key.ESCAPE, "q"]),
        ("\x1b\x1b[A", [Key.ESCAPE, Key.UP]),
        ("\x1b[[A\x1b[15~\x1b[200~\x00", []),
    ],
)
def test_what_keys_send(text: str, keys: list[str]) -> None:
    """Both ways that arrows are sent; what means nothing to us is no key."""
    assert parse_keys(text, whole=False) == (keys, "")


def test_an_escape_is_a_key_when_nothing_follows() -> None:
    """Until then it may be the beginning of a sequence."""
    assert parse_keys("\x1b", whole=False) == ([], "\x1b")
    assert parse_keys("\x1b", whole=True) == ([Key.ESCAPE], "")


@given(INPUTS, st.integers(0, 40))
def test_where_it_is_cut_does_not_matter(text: str, cut: int) -> None:
    """The terminal's driver cuts where it likes."""
    first, rest = parse_keys(text[:cut], whole=False)
    second, left = parse_keys(rest + text[cut:], whole=False)
    assert (first + second, left) == parse_keys(text, whole=False)


@given(INPUTS)
def test_all_of_it_is_read(text: str) -> None:
    """Nothing is left of what is whole, and keys with a character are printable."""
    keys, rest = parse_keys(text, whole=True)
    assert not rest
    assert all(isinstance(key, Key) or key.isprintable() for key in keys)
